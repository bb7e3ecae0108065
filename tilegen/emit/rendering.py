"""From a checked spec to the text of its generated folder. Imports neither torch nor tilelang."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilegen import __version__
from tilegen.emit.card import budget_card, roofline_line, wrapped
from tilegen.emit.environment import render_template
from tilegen.emit.format import values_text
from tilegen.emit.tiles import Table, tile_tables
from tilegen.expr import to_python, to_text
from tilegen.families.family import family_of
from tilegen.plan.build import complete_case, dtype_bindings, plan_of
from tilegen.plan.cases import cases
from tilegen.plan.instances import listed_values, static_shapes, witnesses
from tilegen.targets import target as chip

if TYPE_CHECKING:
    from tilegen.plan.model import Case
    from tilegen.spec.model import Dim, Spec

TILELANG_VERSION = "0.1.15"
"""The version whose behaviour the rules model, and that facts and goldens are recorded with."""

LICENCE = "Apache-2.0"


class RenderError(Exception):
    """A legal spec that cannot be printed; the message says which key to give."""


@dataclass(frozen=True)
class Rendering:
    """The generated folder of one kernel, without its goldens: relative path to text. ``parameters`` are the tile values
    of its compile keys.
    """

    kernel: str
    files: Mapping[str, str]
    parameters: tuple[str, ...]


def render(spec: Spec) -> Rendering:
    """Renders every file of ``generated/<kernel>/`` that follows from the spec alone."""
    context = context_of(spec)
    folder = spec.family
    files = {
        "kernel.py": render_template(f"{folder}/kernel.py.jinja", context),
        "api.py": render_template(f"{folder}/api.py.jinja", context),
        "dispatch.py": render_template("shared/dispatch.jinja", context),
        "reference.py": render_template(f"{folder}/reference.py.jinja", context),
        f"test_{spec.kernel}.py": render_template(f"{folder}/test.py.jinja", context),
        f"test_{spec.kernel}_in_torch.py": render_template("shared/test_torch.jinja", context),
        "__init__.py": render_template("shared/init.jinja", context),
        **{name: support(name.removeprefix("_")) for name in SUPPORT},
    }
    if context["module"]:
        files["module.py"] = render_template(f"{folder}/module.jinja", context)
    return Rendering(
        spec.kernel, {name: _tidy(text) for name, text in files.items()}, tuple(context["factory_parameters"])
    )


def factory_parameters(spec: Spec) -> tuple[str, ...]:
    """The tile values of a spec's compile keys. Raises :class:`RenderError` where it cannot be printed."""
    return tuple(family_of(spec).context(spec, cases_by_arch(spec))["factory_parameters"])


SUPPORT = ("_compiled.py", "_launching.py", "_runtime.py", "_golden.py")
"""Files that are the same beside every kernel."""


@cache
def support(name: str) -> str:
    """A support file that is copied beside every kernel as it is."""
    return (resources.files("tilegen.emit") / "support" / name).read_text(encoding="utf-8")


@cache
def template_digest(family: str) -> str:
    """sha256 over the templates and support files that a kernel of ``family`` is printed with."""
    folders = (
        resources.files("tilegen.emit") / "support",
        resources.files("tilegen.emit") / "templates",
        resources.files(f"tilegen.families.{family}"),
    )
    hasher = hashlib.sha256()
    for index, folder in enumerate(folders):
        for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if file.name.endswith(".jinja") or (index == 0 and file.name.endswith(".py")):
                hasher.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return hasher.hexdigest()


def _tidy(text: str) -> str:
    """No trailing blanks, one newline at the end."""
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n")) + "\n"


def cases_by_arch(spec: Spec) -> dict[str, tuple[Case, ...]]:
    """Every case of every target with all its tile values. Raises :class:`RenderError` where dtypes disagree."""
    found: dict[str, tuple[Case, ...]] = {}
    bindings = dtype_bindings(spec)
    for target in spec.targets:
        completed = []
        for case in cases(spec, target.arch):
            variants = [complete_case(spec, target.arch, dtypes, case) for dtypes in bindings]
            for variant in variants[1:]:
                differing = [name for name in variant.tiles if variant.tiles[name] != variants[0].tiles[name]]
                if differing:
                    raise RenderError(
                        f"{spec.path}: the dtypes of the spec need different values of {', '.join(differing)} on "
                        f"{target.arch}; give [tile] {differing[0]} yourself, or split the spec by dtype"
                    )
            completed.append(variants[0])
        found[target.arch] = tuple(completed)
    return found


def context_of(spec: Spec) -> dict[str, Any]:
    """What every template sees; the family adds its own names."""
    by_arch = cases_by_arch(spec)
    lines = {name: spec.span(f"tile.{name}").line for name in spec.tile}
    own = family_of(spec).context(spec, by_arch)
    tables = tile_tables(spec, by_arch, lines, ("schedule", *own["factory_parameters"]))
    shared = {
        "version": __version__,
        "tilelang_version": TILELANG_VERSION,
        "licence": LICENCE,
        "spec": spec,
        "spec_path": spec.path,
        "spec_file": Path(spec.path).name,
        "lock_file": None if spec.lock is None else Path(spec.lock.path).name,
        "spec_sha256": spec.sha256,
        "kernel": spec.kernel,
        "arches": tuple(by_arch),
        "tables": tables,
        "schedules": tuple(dict.fromkeys(case.tiles["schedule"] for cases in by_arch.values() for case in cases)),
        # Copies of one kernel share their ops in a process, so what they compute must be the same.
        "namespace": f"tilegen_{hashlib.sha256(f'{spec.digest} {__version__}'.encode()).hexdigest()[:12]}",
        "total": all(_is_total(table) for table in tables),
        "dispatch_arguments": dispatch_arguments(spec),
        "preferred": [
            (True if rule.when is None else to_python(rule.when), rule.when_text or "it is there", rule.call)
            for rule in spec.dispatch
        ],
        "static_dims": tuple(dim.name for dim in spec.dims if not dim.dynamic),
        "dynamic_dims": tuple(dim.name for dim in spec.dims if dim.dynamic),
        "declared": tuple((dim.name, declared_python(dim), declared_text(dim)) for dim in spec.dims),
        "sm_counts": tuple((arch, chip(arch).part.sm_count) for arch in by_arch),
        "static_loops": _static_loops(spec),
        "shapes": tuple(tuple(shape.values()) for shape in spec.shapes),
        "probe_values": _probe_values(spec, by_arch),
        "cards": cards(spec, by_arch),
        "line": lambda path: spec.span(path).line,
    }
    return {**shared, **own}


def _static_loops(spec: Spec) -> tuple[tuple[str, str], ...]:
    """The loops over what is built ahead: over the shapes, or over the listed values of each static dim."""
    static = [dim for dim in spec.dims if not dim.dynamic]
    if spec.shapes:
        return ((", ".join(dim.name for dim in static) + ("," if len(static) == 1 else ""), "SHAPES"),)
    return tuple((dim.name, values_text(listed_values(dim))) for dim in static)


def _probe_values(spec: Spec, by_arch: Mapping[str, tuple[Case, ...]]) -> str:
    """Values of the dynamic dims that together take every way through the tile rules, as a Python tuple."""
    dynamic = [dim.name for dim in spec.dims if dim.dynamic]
    found = {
        tuple(dims[name] for name in dynamic)
        for arch, cases_ in by_arch.items()
        for static in static_shapes(spec)
        for _, dims in witnesses(spec, arch, cases_, static)
    }
    ordered = sorted(found)
    return values_text(tuple(point[0] for point in ordered) if len(dynamic) == 1 else tuple(ordered))


def _is_total(table: Table) -> bool:
    return bool(table.lines) or not (table.branches or table.tuned)[-1].guard


def dispatch_arguments(spec: Spec) -> tuple[str, ...]:
    """The names that a tile rule may ask for: every dim, and ``sm_count``."""
    return (*(dim.name for dim in spec.dims), "sm_count")


def declared_python(dim: Dim) -> str:
    """A Python condition that a value is in the declared domain of a dim."""
    if dim.is_listed:
        return f"{dim.name} in {values_text(dim.values)}"
    upper = "" if dim.max is None else f" <= {dim.max}"
    parts = [f"{dim.min or 1} <= {dim.name}{upper}" if upper else f"{dim.name} >= {dim.min or 1}"]
    if dim.multiple_of not in (None, 1):
        parts.append(f"{dim.name} % {dim.multiple_of} == 0")
    if dim.also is not None:
        also = to_python(dim.also)
        parts.append(f"({also})" if " or " in also else also)
    text = " and ".join(parts)
    return text if dim.dynamic or not dim.values else f"{dim.name} in {values_text(dim.values)} or ({text})"


def declared_text(dim: Dim) -> str:
    """The same in words, for an error message."""
    words = []
    if dim.values and not dim.dynamic:
        words.append(", ".join(map(str, dim.values)))
    ranged = []
    if dim.multiple_of not in (None, 1):
        ranged.append(f"multiples of {dim.multiple_of}")
    if dim.also is not None:
        ranged.append(f"where {dim.also_text}")
    if dim.min is not None or dim.max is not None or dim.dynamic:
        ranged.append(f"from {dim.min or 1} to {dim.max}" if dim.max is not None else f"from {dim.min or 1} on")
    if ranged:
        words.append(" ".join(ranged))
    return "; or ".join(words)


@dataclass(frozen=True)
class Card:
    """The budget of one case on one target."""

    title: str
    lines: tuple[str, ...]


MOST_CARDS = 5
"""How many cases of the first target the header shows; ``tilegen show`` has them all."""


def cards(spec: Spec, by_arch: Mapping[str, tuple[Case, ...]]) -> tuple[Card, ...]:
    """A budget card for the telling cases of the first target, and for the last case of the others."""
    found = []
    dtypes = dtype_bindings(spec)[0]
    for index, (arch, arch_cases) in enumerate(by_arch.items()):
        chosen = _telling(spec, arch, arch_cases) if index == 0 else arch_cases[-1:]
        for case in chosen:
            plan = plan_of(spec, arch, dtypes, case)
            where = "" if case.guard is True else f", where {to_text(case.guard)}"
            shape = example_shape(spec, arch, case)
            lines = budget_card(plan) + (wrapped(roofline_line(plan, shape)) if shape else [])
            title = "\n".join(wrapped(f"Budget on {arch}, {case.tiles['schedule']}{where}:"))
            found.append(Card(title, tuple(lines)))
        if len(chosen) < len(arch_cases):
            more = len(arch_cases) - len(chosen)
            found.append(Card(f"{more} more case{'s' if more > 1 else ''} on {arch}: tilegen show {spec.kernel}", ()))
    return tuple(found)


def _telling(spec: Spec, arch: str, cases_: tuple[Case, ...]) -> tuple[Case, ...]:
    """All cases; where they are many, those that the least and the greatest listed shape reach, each schedule first."""
    if len(cases_) <= MOST_CARDS:
        return cases_
    shapes = list(static_shapes(spec))
    reached = [case for static in (shapes[-1], shapes[0]) for case, _ in witnesses(spec, arch, cases_, static)]
    schedules: set[str] = set()
    fresh: list[Case] = []
    rest: list[Case] = []
    for case in reached:
        (rest if case.tiles["schedule"] in schedules else fresh).append(case)
        schedules.add(case.tiles["schedule"])
    kept = {id(case) for case in (fresh + rest)[:MOST_CARDS]}
    return tuple(case for case in cases_ if id(case) in kept)


def example_shape(spec: Spec, arch: str, case: Case) -> dict[str, int]:
    """A shape that reaches the case: the largest listed values that do; empty where none of the listed does."""
    for static in reversed(list(static_shapes(spec))):
        for _, dims in witnesses(spec, arch, (case,), static):
            return dims
    return {}
