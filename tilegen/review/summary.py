"""One kernel in plain values: what its spec says, what the checker found, what each case spends.

The page, the JSON of ``tilegen diff`` and the comparison of two revisions all read this.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from tilegen import cache
from tilegen.check.checker import tally
from tilegen.check.findings import findings
from tilegen.emit.artefacts import compile_keys
from tilegen.emit.rendering import RenderError, factory_parameters
from tilegen.plan.build import dtype_bindings
from tilegen.review.budget import Budget, LaunchBudget, budget
from tilegen.review.shapes import case_table
from tilegen.review.words import domain_words, joined, rule_words, shape_words
from tilegen.spec.diagnostic import Diagnostic, to_json

if TYPE_CHECKING:
    from tilegen.spec.model import Spec


@dataclass(frozen=True)
class TensorSummary:
    shape: str
    dtypes: tuple[str, ...]
    output: bool


@dataclass(frozen=True)
class Summary:
    """``content`` is a digest of the spec without its name, comments and layout. ``tiles`` maps a target to its tile
    parameters, each with its rules in words. ``rules`` maps the code of a rule to how many of its obligations were
    proved, refuted and undecided; ``silenced`` are findings that ``[allow]`` hides. ``budgets`` holds each case of each
    target at an example shape, once for all dtypes that cost the same; it is empty where the tile values of the spec
    are not always defined. ``compile_keys`` maps a target to its keys.
    """

    kernel: str
    family: str
    variant: str
    path: str
    sha256: str
    content: str
    doc: str
    dims: Mapping[str, str]
    tensors: Mapping[str, TensorSummary]
    scalars: Mapping[str, str]
    compute: Mapping[str, str]
    tiles: Mapping[str, Mapping[str, tuple[str, ...]]]
    tolerance: Mapping[str, Any] | None
    allow: Mapping[str, str]
    dispatch: tuple[str, ...]
    shapes: tuple[str, ...]
    rules: Mapping[str, Mapping[str, int]]
    findings: tuple[Diagnostic, ...]
    silenced: tuple[Diagnostic, ...]
    budgets: tuple[Budget, ...]
    compile_keys: Mapping[str, tuple[Mapping[str, Any], ...]]

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(self.tiles)

    def to_json(self) -> dict[str, Any]:
        """Plain data for a program; findings as ``tilegen check --format json`` gives them."""
        found = {name: value for name, value in vars(self).items() if name not in ("findings", "silenced", "budgets")}
        return {
            **found,
            "tensors": {name: asdict(tensor) for name, tensor in self.tensors.items()},
            "findings": [to_json(entry) for entry in self.findings],
            "silenced": [to_json(entry) for entry in self.silenced],
            "budgets": [entry.to_json() for entry in self.budgets],
        }


def summarize(spec: Spec, *, mends: bool = True) -> Summary:
    """The summary of a spec that could be loaded. Checks it; imports neither torch nor tilelang.

    Without ``mends`` findings offer no nearest legal values, which take longest to find.
    """
    found = tally(spec)
    planned = found.plans > 0 or not found.open
    values = spec.document_values
    shown = findings(spec, found.open, found.cases, mends=mends)
    bare = (
        findings(spec.model_copy(update={"allow": ()}), found.open, found.cases, mends=False) if spec.allow else shown
    )
    return Summary(
        kernel=spec.kernel,
        family=spec.family,
        variant=spec.variant or "",
        path=spec.path,
        sha256=spec.sha256,
        content=cache.digest({name: value for name, value in values.items() if name != "kernel"}),
        doc=spec.doc,
        dims={dim.name: domain_words(dim) for dim in spec.dims},
        tensors={
            tensor.name: TensorSummary(" ".join(map(str, tensor.shape)), tuple(spec.dtypes(tensor.name)), tensor.output)
            for tensor in spec.tensors
        },
        scalars={scalar.name: scalar.dtype for scalar in spec.scalars},
        compute={name: str(value) for name, value in values.get("compute", {}).items()},
        tiles={target.arch: rule_words(spec, target.arch) for target in spec.targets},
        tolerance=_tolerance(spec),
        allow={entry.rule: entry.reason for entry in spec.allow},
        dispatch=tuple(
            f"{entry.call}" + (f" where {entry.when_text}" if entry.when_text else "") for entry in spec.dispatch
        ),
        shapes=tuple(map(shape_words, values.get("shapes", ()))),
        rules=found.rules,
        findings=tuple(shown),
        silenced=tuple(entry for entry in bare if _place(entry) not in set(map(_place, shown))),
        budgets=_budgets(spec) if planned else (),
        compile_keys=_compile_keys(spec) if planned else {},
    )


def _place(entry: Diagnostic) -> tuple[object, ...]:
    return entry.code, entry.severity, entry.span, entry.message


def _tolerance(spec: Spec) -> dict[str, Any] | None:
    found = spec.tolerance
    return None if found is None else {"atol": found.atol, "rtol": found.rtol, "reason": found.reason}


def _budgets(spec: Spec) -> tuple[Budget, ...]:
    found: list[Budget] = []
    for target in spec.targets:
        table = case_table(spec, target.arch)
        for number, shape in table.examples.items():
            found += merged(
                [budget(spec, target.arch, dtypes, table.cases[number], shape) for dtypes in dtype_bindings(spec)]
            )
    return tuple(found)


def merged(budgets: list[Budget]) -> list[Budget]:
    """One budget for all dtypes that cost the same; they are then named together."""
    kinds: dict[Any, list[Budget]] = {}
    for entry in budgets:
        kinds.setdefault(cost_of(entry), []).append(entry)
    return [
        replace(first, dtypes=joined(entry.dtypes for entry in kind)) for kind in kinds.values() for first in kind[:1]
    ]


def cost_of(entry: Budget) -> Hashable:
    """What a budget costs, apart from the names of dtypes and the shapes where it holds."""
    launches = tuple(
        (
            launch_role(entry, launch),
            *(value for name, value in vars(launch).items() if name not in ("name", "buffers")),
        )
        for launch in entry.launches
    )
    buffers = tuple(
        (buffer.name, buffer.scope, buffer.shape, buffer.stages, buffer.bytes, buffer.registers)
        for launch in entry.launches
        for buffer in launch.buffers
    )
    return entry.arch, tuple(sorted((name, str(value)) for name, value in entry.tiles.items())), launches, buffers


def launch_role(entry: Budget, launch: LaunchBudget) -> str:
    """The name of a launch without the kernel's: empty for the kernel itself. It outlives a rename."""
    return launch.name.removeprefix(entry.kernel).strip("_")


def _compile_keys(spec: Spec) -> dict[str, tuple[dict[str, Any], ...]]:
    """The compile keys of each target; none where the spec cannot be printed, which a build says."""
    try:
        parameters = factory_parameters(spec)
    except RenderError:
        return {}
    found: dict[str, list[dict[str, Any]]] = {target.arch: [] for target in spec.targets}
    for key in compile_keys(spec, parameters):
        found[key["arch"]].append(key)
    return {arch: tuple(keys) for arch, keys in found.items()}
