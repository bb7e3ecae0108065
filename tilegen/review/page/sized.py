"""A plan at one shape: every size as a number, and the shape that a case is drawn at."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import TYPE_CHECKING, Any

from tilegen.check.domain import domain_of
from tilegen.check.prover import prove
from tilegen.expr import compile_closure, evaluate, free_names, negate, substitute, to_text
from tilegen.plan.instances import probes, static_shapes

if TYPE_CHECKING:
    from tilegen.expr import Size
    from tilegen.plan.model import Case, TilePlan
    from tilegen.spec.model import Dim, Spec


TIMES = " \N{MULTIPLICATION SIGN} "
"""Between the extents of a tile."""


@dataclass(frozen=True)
class SizedPlan:
    """``shape`` holds a value for each dim of the spec."""

    plan: TilePlan
    shape: Mapping[str, int]

    @cached_property
    def values(self) -> dict[str, int]:
        return {**self.shape, "sm_count": self.plan.target.part.sm_count}

    def number(self, size: Size | None) -> int | None:
        """``size`` as a number; None where it has none at this shape (a division by zero, a name that is no dim)."""
        if size is None or isinstance(size, int):
            return size
        try:
            return int(evaluate(size, self.values))
        except (KeyError, ZeroDivisionError):
            return None

    def least(self, size: Size) -> int:
        """``size`` as a number of at least 1, for what is drawn to scale."""
        return max(1, self.number(size) or 1)

    def extents(self, sizes: tuple[Size, ...]) -> str:
        """``128 x 64``: numbers where there are, else the expressions."""
        found = (self.number(size) for size in sizes)
        return TIMES.join(
            to_text(size) if value is None else str(value) for size, value in zip(sizes, found, strict=True)
        )


def drawn_shape(spec: Spec, case: Case, sm_count: int) -> dict[str, int]:
    """A shape of the case near the middle of the domain: the largest listed static dims, powers of two elsewhere.

    Where no listed shape reaches the case, the smallest that the prover finds; empty where it finds none.
    """
    for static in reversed(list(static_shapes(spec))):
        condition = substitute(case.condition, {**static, "sm_count": sm_count})
        if condition is False:
            continue
        for dynamic in _dynamic_shapes(spec, condition):
            return {dim.name: {**static, **dynamic}[dim.name] for dim in spec.dims}
    condition = substitute(case.condition, {"sm_count": sm_count})
    found = prove(negate(condition), domain_of(spec)).counterexample
    first = next(static_shapes(spec), {})
    shape = {dim.name: found.get(dim.name, first.get(dim.name, _middle(dim))) for dim in spec.dims}
    if not found or substitute(condition, shape) is not True:
        return {}
    static = {dim.name: shape[dim.name] for dim in spec.dims if not dim.dynamic}
    return {**shape, **next(_dynamic_shapes(spec, substitute(condition, static)), {})}


def _dynamic_shapes(spec: Spec, condition: Any) -> Iterator[dict[str, int]]:
    """The values of the dynamic dims for which a condition holds, those near the middle first."""
    dims = [dim for dim in spec.dims if dim.dynamic]
    names = tuple(dim.name for dim in dims)
    if condition is not True and not free_names(condition) <= set(names):
        return
    holds = (lambda _: True) if condition is True else compile_closure(condition, names)
    candidates = itertools.product(*(_candidates(dim, condition) for dim in dims))
    for _, values in sorted((sum(c for c, _ in point), tuple(v for _, v in point)) for point in candidates):
        if holds(values):
            yield dict(zip(names, values, strict=True))


MOST_OTHERS = 48
"""Values of a dim that are tried beside powers of two and thresholds."""


def _candidates(dim: Dim, condition: Any) -> list[tuple[float, int]]:
    """Values of a dim, each with its distance from the middle in octaves; a power of two counts as nearer."""
    thresholds = _constants(condition)
    middle = log2(_middle(dim))
    found = [
        (round(abs(log2(value) - middle) + (0 if value & (value - 1) == 0 else 1.5), 3), value)
        for value in probes(dim, thresholds)
    ]
    powers = [entry for entry in found if entry[1] & (entry[1] - 1) == 0]
    near = [value for threshold in thresholds for value in (threshold, threshold + 1)]
    others = sorted(entry for entry in found if entry not in powers)
    return powers + [entry for entry in others if entry[1] in near] + others[:MOST_OTHERS]


def _middle(dim: Dim) -> int:
    """The middle of a dim's range on a logarithmic scale, as a power of two."""
    if dim.values:
        return dim.values[-1]
    high = dim.range.hi or 2**24
    return int(2 ** ((int(high).bit_length() - 1) // 2))


def _constants(condition: Any) -> tuple[int, ...]:
    if isinstance(condition, bool) or not hasattr(condition, "atoms"):
        return ()
    import sympy

    return tuple(sorted({int(number) for number in condition.atoms(sympy.Integer)}))
