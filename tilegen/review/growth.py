"""Whether the domain of a dim grew or shrank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilegen.plan.instances import probes
from tilegen.review.shapes import Members

if TYPE_CHECKING:
    from tilegen.spec.model import Dim, Spec

MOST = 1 << 10
"""Values up to which every one is looked at; beyond, the ends, powers of two, and what a spec names."""


def growth(base: Spec, head: Spec) -> dict[str, str]:
    """For each dim of both sides: ``wider``, ``narrower``, ``other`` (neither holds the other), or ``equal``.

    Two domains that differ only between values that are not looked at count as equal.
    """
    old, new = {dim.name: dim for dim in base.dims}, {dim.name: dim for dim in head.dims}
    return {name: _way(old[name], new[name]) for name in old if name in new}


def _way(old: Dim, new: Dim) -> str:
    if old.dynamic != new.dynamic:
        return "other"
    if _declared(old) == _declared(new):
        return "equal"
    values = _values(old) | _values(new)
    before, after = Members(old), Members(new)
    gained = any(value in after and value not in before for value in values)
    lost = any(value in before and value not in after for value in values)
    return {(True, False): "wider", (False, True): "narrower", (True, True): "other"}.get((gained, lost), "equal")


def _declared(dim: Dim) -> tuple[Any, ...]:
    return set(dim.values), dim.also, dim.min, dim.max, dim.multiple_of


def _values(dim: Dim) -> set[int]:
    high = max((*dim.values, dim.max or 0, dim.range.hi or 0), default=0)
    steps = set(range(1, min(high, MOST) + 1)) if high else set()
    edges = {edge + d for edge in (dim.min, dim.max, dim.multiple_of, dim.range.hi) if edge for d in (-1, 0, 1)}
    return {value for value in steps | edges | {high} | set(probes(dim, ())) if value > 0}
