"""Whether the domain of a dim grew or shrank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilegen.check.domain import domain_over, membership
from tilegen.check.prover import Status, prove
from tilegen.expr import any_of, equal, symbol
from tilegen.plan.instances import probes
from tilegen.review.shapes import Members

if TYPE_CHECKING:
    from tilegen.spec.model import Dim, Spec

MOST = 1 << 10
"""Values up to which every one is looked at; beyond, the ends, powers of two, and what a spec names."""


def growth(base: Spec, head: Spec) -> dict[str, str]:
    """For each dim of both sides: ``wider``, ``narrower``, ``other`` (neither holds the other), or ``equal``."""
    old, new = {dim.name: dim for dim in base.dims}, {dim.name: dim for dim in head.dims}
    return {name: _way(old[name], new[name]) for name in old if name in new}


def _way(old: Dim, new: Dim) -> str:
    if old.dynamic != new.dynamic:
        return "other"
    if _declared(old) == _declared(new):
        return "equal"
    gained, lost = _outside(new, old), _outside(old, new)
    return {(True, False): "wider", (False, True): "narrower", (True, True): "other"}.get((gained, lost), "equal")


def _outside(inner: Dim, outer: Dim) -> bool:
    """Whether some size of ``inner`` is none of ``outer``: proved, or where that cannot be settled, by sizes looked at."""
    outcome = prove(_member(outer), domain_over((inner,)))
    if outcome.status is not Status.UNDECIDED:
        return outcome.status is Status.REFUTED
    within, without = Members(inner), Members(outer)
    return any(value in within and value not in without for value in _values(inner) | _values(outer))


def _member(dim: Dim) -> Any:
    """That a size is one of the dim's."""
    return any_of(*(equal(symbol(dim.name), size) for size in dim.values)) if dim.is_listed else membership(dim)


def _declared(dim: Dim) -> tuple[Any, ...]:
    return set(dim.values), dim.also, dim.min, dim.max, dim.multiple_of


def _values(dim: Dim) -> set[int]:
    high = max((*dim.values, dim.max or 0, dim.range.hi or 0), default=0)
    steps = set(range(1, min(high, MOST) + 1)) if high else set()
    edges = {edge + d for edge in (dim.min, dim.max, dim.multiple_of, dim.range.hi) if edge for d in (-1, 0, 1)}
    return {value for value in steps | edges | {high} | set(probes(dim, ())) if value > 0}
