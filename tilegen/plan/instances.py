"""The instances of a spec: what is verified, listed in the manifest and compiled ahead.

An instance fixes a target, a dtype for each tensor, every static dim, one case of the tile rules, and one role of its
kernel; its dynamic dims hold a value that reaches the case.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from tilegen.expr import compile_closure, evaluate, free_names, is_symbolic, substitute
from tilegen.families.family import family_of
from tilegen.plan.build import complete_case, dtype_bindings, plan_of
from tilegen.plan.cases import cases
from tilegen.targets import target as chip

if TYPE_CHECKING:
    from tilegen.plan.model import Case, TilePlan
    from tilegen.spec.model import Dim, Spec


@dataclass(frozen=True)
class Instance:
    """``dims`` holds every dim; ``tiles`` every tile value as a number or a word, those that ``role`` sets among them."""

    spec: Spec
    arch: str
    dtypes: Mapping[str, str]
    dims: Mapping[str, int]
    case: Case
    role: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def tiles(self) -> dict[str, Any]:
        return {
            name: evaluate(value, self.dims) if is_symbolic(value) else value for name, value in self.case.tiles.items()
        }

    @property
    def static_dims(self) -> dict[str, int]:
        return {dim.name: self.dims[dim.name] for dim in self.spec.dims if not dim.dynamic}

    def plan(self) -> TilePlan:
        return plan_of(self.spec, self.arch, self.dtypes, self.case)

    @property
    def label(self) -> str:
        dims = " ".join(f"{name}={value}" for name, value in self.dims.items())
        return f"{self.spec.kernel} {self.arch} {next(iter(self.dtypes.values()))} {dims}"


def instances(spec: Spec, arch: str) -> Iterator[Instance]:
    """Every instance of the listed dims on ``arch``: one for each dtype binding, static shape, reachable case and role."""
    roles = family_of(spec).roles
    found = [complete_case(spec, arch, dtype_bindings(spec)[0], case) for case in cases(spec, arch)]
    for dtypes in dtype_bindings(spec):
        for static in static_shapes(spec):
            for case, dims in witnesses(spec, arch, tuple(found), static):
                for role in roles(case.tiles):
                    yield Instance(spec, arch, dtypes, dims, replace(case, tiles={**case.tiles, **role}), role)


def static_shapes(spec: Spec) -> Iterator[dict[str, int]]:
    """The shapes of the spec; else every combination of the listed values of the static dims, and of a ranged dim
    without any its least value.
    """
    if spec.shapes:
        yield from (dict(shape) for shape in spec.shapes)
        return
    static = [dim for dim in spec.dims if not dim.dynamic]
    for values in itertools.product(*(listed_values(dim) for dim in static)):
        yield {dim.name: value for dim, value in zip(static, values, strict=True)}


def listed_values(dim: Dim) -> tuple[int, ...]:
    if dim.values:
        return dim.values
    low, step = dim.range.lo or 1, dim.range.multiple_of
    return (next(value for value in range(-(-low // step) * step, 2**31, step) if dim.contains(value)),)


def witnesses(
    spec: Spec, arch: str, found: tuple[Case, ...], static: Mapping[str, int]
) -> Iterator[tuple[Case, dict[str, int]]]:
    """Each case that some value of the dynamic dims reaches for this static shape, with the first such value."""
    dynamic = [dim for dim in spec.dims if dim.dynamic]
    sm_count = chip(arch).part.sm_count
    pending = [(case, substitute(case.condition, {**static, "sm_count": sm_count})) for case in found]
    pending = [(case, condition) for case, condition in pending if condition is not False]
    if all(condition is True for _, condition in pending):
        for case, _ in pending:
            yield case, {**static, **{dim.name: representative(dim) for dim in dynamic}}
        return
    thresholds = tuple(sorted({c for _, condition in pending for c in _constants(condition)}))
    names = tuple(dim.name for dim in dynamic)
    waiting = [
        (case, (lambda _: True) if condition is True else compile_closure(condition, names))
        for case, condition in pending
        if condition is True or free_names(condition) <= set(names)
    ]
    for values in itertools.product(*(probes(dim, thresholds) for dim in dynamic)):
        for entry in list(waiting):
            case, holds = entry
            if holds(values):
                waiting.remove(entry)
                yield case, {**static, **dict(zip(names, values, strict=True))}
        if not waiting:
            return


def representative(dim: Dim) -> int:
    """One ordinary value of a dynamic dim: its last listed one, else the largest power of two up to 4096."""
    if dim.values:
        return dim.values[-1]
    return max((2**exponent for exponent in range(13) if dim.contains(2**exponent)), default=dim.range.lo or 1)


TILE_SIZES = range(16, 513, 16)
WAVES_TRIED = 66


@lru_cache(maxsize=256)
def probes(dim: Dim, thresholds: tuple[int, ...]) -> tuple[int, ...]:
    """Values of a dynamic dim to try: its listed ones, powers of two, both sides of each threshold, and the first
    multiples of those that may be tile sizes: a condition on waves of tiles changes there. Every static shape of every
    target asks for the same ones.
    """
    candidates = {
        *dim.values,
        *(2**exponent for exponent in range(21)),
        *(t + d for t in thresholds for d in (-1, 0, 1)),
        *(t * i for t in thresholds if t in TILE_SIZES for i in range(1, WAVES_TRIED)),
    }
    return tuple(sorted(value for value in candidates if dim.contains(value)))


def _constants(condition: Any) -> set[int]:
    if isinstance(condition, bool) or not hasattr(condition, "atoms"):
        return set()
    import sympy

    return {int(number) for number in condition.atoms(sympy.Integer)}
