"""The origins of a generated file: what each line mentions, looked up in the spec and in the plans that printed it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tilegen.emit.rendering import SUPPORT
from tilegen.plan.build import dtype_bindings, plan_of
from tilegen.plan.cases import cases
from tilegen.review.origin.constructs import Construct, construct_of
from tilegen.review.origin.statements import Line, lines_of
from tilegen.review.origin.tile_rules import rule_path, tile_rule_paths

if TYPE_CHECKING:
    from tilegen.plan.model import KernelPlan, TilePlan
    from tilegen.spec.model import Spec
    from tilegen.spec.source import Span

SPEC_LINES = re.compile(r"\bspec lines? ((?:\d+(?:, )?)+)")


@dataclass(frozen=True)
class Cause:
    """One place of the spec that decides a line. ``path`` is a spec path ("tile.BLOCK_N"), ``why`` says what the line has
    to do with it. ``span`` is None for a value that the spec leaves to tilegen.
    """

    path: str
    why: str
    span: Span | None


@dataclass(frozen=True)
class Origin:
    """Where a line comes from. ``schedule`` is the one whose kernel it is part of, empty where it serves all; ``archs``
    are the targets that use it. ``construct`` says what the line does on the chip, where it does anything.
    """

    number: int
    text: str
    causes: tuple[Cause, ...]
    schedule: str
    archs: tuple[str, ...]
    construct: Construct | None
    docstring: bool = False
    """It is part of the docstring of the file: its header, and the budgets of the plans."""


def origins(spec: Spec, name: str, text: str) -> list[Origin]:
    """The origin of each line of the generated file ``name`` (``kernel.py``), whose content is ``text``."""
    if name in (*SUPPORT, "__init__.py"):
        return [Origin(number, line, (), "", (), None) for number, line in enumerate(text.split("\n"), 1)]
    lines = lines_of(text)
    book = _Book(spec, tile_rule_paths(spec, text) if name == "kernel.py" else {}, lines)
    return [book.origin(line) for line in lines]


def _numbers(text: str) -> tuple[int, ...]:
    match = SPEC_LINES.search(text)
    return tuple(map(int, match[1].rstrip(", ").split(", "))) if match else ()


class _Book:
    """What can be looked up about a spec: its names, the plans of each schedule, and the lines that spell tile rules."""

    def __init__(self, spec: Spec, rules: Mapping[int, tuple[str, ...]], lines: Sequence[Line]) -> None:
        self.spec = spec
        self._rules = rules
        self._named = [(line, numbers) for line in lines if (numbers := _numbers(line.text))]

    def origin(self, line: Line) -> Origin:
        schedule = self._schedule(line)
        plans = self._plans.get(schedule, ()) if schedule else self._all_plans
        archs = tuple(dict.fromkeys(plan.target.name for plan in plans))
        kernels = [kernel for plan in plans for kernel in plan.kernels]
        construct = construct_of(line, kernels) if "tiles" not in line.functions else None
        causes: dict[str, Cause] = {}
        for cause in self._causes(line, schedule, kernels, construct):
            causes.setdefault(cause.path, cause)
        docstring = line.in_docstring and not line.functions
        found = tuple(causes.values())
        return Origin(line.number, line.text, found, schedule, archs if schedule else (), construct, docstring)

    def _schedule(self, line: Line) -> str:
        """The schedule whose factory the line stands in: functions are named ``<kernel>_<schedule>``."""
        prefix = f"{self.spec.kernel}_"
        names = [name.removeprefix(prefix) for name in line.functions if name.startswith(prefix)]
        return next((name for name in names if name in self._plans), "")

    @cached_property
    def _all_plans(self) -> tuple[TilePlan, ...]:
        return tuple(plan for plans in self._plans.values() for plan in plans)

    @cached_property
    def _plans(self) -> Mapping[str, tuple[TilePlan, ...]]:
        """A plan for each schedule and case of each target; dtypes do not decide what a line is there for."""
        found: dict[str, list[TilePlan]] = {}
        dtypes = dtype_bindings(self.spec)[0]
        for target in self.spec.targets:
            for case in cases(self.spec, target.arch):
                plan = plan_of(self.spec, target.arch, dtypes, case)
                found.setdefault(plan.schedule, []).append(plan)
        return {schedule: tuple(plans) for schedule, plans in found.items()}

    def _causes(
        self, line: Line, schedule: str, kernels: list[KernelPlan], construct: Construct | None
    ) -> Iterator[Cause]:
        if line.in_docstring and not line.functions:
            yield from self._quoted(line)
            return
        yield from self._named_in_comment(line)
        if line.functions[:1] == ("tiles",):
            yield from self._tile_rules(line)
            return
        if line.assigned.isupper():
            yield from self._module_constant(line)
        if construct is not None:
            for path in construct.paths:
                yield from self._at(path, f"it decides {construct.what}", schedule)
        yield from self._names(line, schedule)
        yield from self._buffers(line, schedule, kernels)

    def _quoted(self, line: Line) -> Iterator[Cause]:
        """What a line of the file's docstring quotes from the spec: its name, doc and formulas, and the targets."""
        values = self.spec.document_values
        texts = {"kernel": values.get("kernel"), "doc": values.get("doc")}
        texts |= {f"compute.{name}": value for name, value in values.get("compute", {}).items()}
        for path, value in texts.items():
            if isinstance(value, str) and value and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", line.text):
                yield Cause(path, "its text stands there", self.spec.span(path))
        for target in self.spec.targets:
            if re.search(rf"\bon {target.arch}\b", line.text) and self.spec.has(f"target.{target.arch}"):
                yield Cause(f"target.{target.arch}", "it is the target", self.spec.key_span(f"target.{target.arch}"))

    def _named_in_comment(self, line: Line) -> Iterator[Cause]:
        """Spec lines that a comment names: on this line, above this statement, or in the function's docstring."""
        for comment, numbers in self._named:
            first, last = comment.scope
            if comment.number == line.number or first <= line.number <= last:
                for path in filter(None, map(self._path_on, numbers)):
                    yield Cause(path, "a comment there names its line", self.spec.span(path))

    def _path_on(self, number: int) -> str:
        """The outermost key of the spec that begins on a line."""
        for path in self.spec.document_paths:
            if self.spec.key_span(path).line == number:
                return path
        return ""

    def _tile_rules(self, line: Line) -> Iterator[Cause]:
        for path in self._rules.get(line.number, ()):
            yield Cause(path, "it is this rule", self.spec.span(path))

    def _module_constant(self, line: Line) -> Iterator[Cause]:
        spec = self.spec
        if line.assigned in ("ARCHES", "SM_COUNT"):
            for target in spec.targets:
                if spec.has(f"target.{target.arch}"):
                    yield Cause(f"target.{target.arch}", "the chips to build for", target.span)
        elif line.assigned == "DTYPES":
            for tensor in spec.tensors:
                if tensor.same_as is None:
                    yield from self._at(f"tensors.{tensor.name}.dtype", "the dtypes to build for")
        elif line.assigned in ("PREFERRED", "_PREFERRED"):
            yield from self._at("dispatch", "the hand-tuned paths")
        elif line.assigned == "SHAPES":
            yield from self._at("shapes", "the shapes that are built, tested and warmed ahead")
        elif line.assigned == "EPS":
            yield from self._at("compute.eps", "its value")

    def _names(self, line: Line, schedule: str) -> Iterator[Cause]:
        """Names of the spec that the line mentions, in the order in which they stand there."""
        spec = self.spec
        dims = {dim.name for dim in spec.dims}
        tensors = {tensor.name for tensor in spec.tensors}
        scalars = {scalar.name for scalar in spec.scalars}
        for name in sorted(line.names, key=lambda name: (line.text.find(name) < 0, line.text.find(name))):
            if name in dims:
                yield from self._at(f"dims.{name}", f"{name} is a dim", schedule)
            elif name in tensors:
                yield from self._at(f"tensors.{name}", f"{name} is a tensor", schedule)
            elif name in scalars:
                yield from self._at(f"scalars.{name}", f"{name} is a scalar", schedule)
            elif name.removeprefix(f"{spec.kernel}_") in self._plans:
                yield from self._tile("schedule", name.removeprefix(f"{spec.kernel}_"), f"{name} is its kernel")
            elif name == "schedule" or name in spec.section.tile:
                yield from self._tile(name, schedule)
            elif name == "dtype":
                free = next(tensor for tensor in spec.tensors if tensor.same_as is None)
                yield from self._at(f"tensors.{free.name}.dtype", "dtype is one of its choices", schedule)
        if line.functions[:1] in (("epilogue",), ("formula",)):
            for key in self._formulas:
                yield from self._at(f"compute.{key}", "its formula is computed here", schedule)

    @cached_property
    def _formulas(self) -> tuple[str, ...]:
        given = self.spec.document_values.get("compute", {})
        return tuple(key for key in given if key in {tensor.name for tensor in self.spec.tensors if tensor.output})

    def _buffers(self, line: Line, schedule: str, kernels: list[KernelPlan]) -> Iterator[Cause]:
        named = (buffer for kernel in kernels for buffer in kernel.buffers if buffer.name in line.names)
        # Every case has the buffer again; what decides it is looked up once.
        for name, path in dict.fromkeys((buffer.name, path) for buffer in named for path in buffer.decided_by):
            yield from self._at(path, f"it sizes `{name}`", schedule)

    def _tile(self, name: str, schedule: str, why: str = "") -> Iterator[Cause]:
        """The rules that give a tile value in the cases of a schedule, or in all cases."""
        why = why or f"{name} is a tile value"
        plans = self._plans.get(schedule, self._all_plans)
        chosen = ((plan.target.name, plan.case.chosen.get(name, -1), name in plan.tiles) for plan in plans)
        for arch, index, has_value in dict.fromkeys(chosen):
            path = rule_path(self.spec, arch, name, index)
            if path:
                yield Cause(path, why, self.spec.span(path))
            elif has_value:
                yield Cause(f"tile.{name}", f"{why}, which the spec leaves to tilegen", None)

    def _at(self, path: str, why: str, schedule: str = "") -> Iterator[Cause]:
        if path.startswith("tile.") or path == "schedule":
            yield from self._tile(path.removeprefix("tile."), schedule, why)
        elif self.spec.has(path):
            yield Cause(path, why, self.spec.span(path))
