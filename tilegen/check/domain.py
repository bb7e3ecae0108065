"""The set of dim values that a spec declares, as the prover needs it."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tilegen.expr import Range, all_of, any_of, compile_closure, equal, free_names, mod, symbol

if TYPE_CHECKING:
    from tilegen.spec.model import Dim, Spec

ENUMERABLE = 20_000
"""Domains of at most this many points are enumerated; larger ones go to the solver."""

SM_COUNT = Range(1, 512)
"""``sm_count`` is read from the device at run time, so proofs hold for any."""


@dataclass(frozen=True)
class Domain:
    """A box of ranges cut by a constraint.

    ``ranges`` bounds each name; ``constraint`` is the exact set (a bool or a sympy boolean); ``listed`` gives the values of
    the names that have finitely many, in increasing order.
    """

    ranges: Mapping[str, Range]
    constraint: Any
    listed: Mapping[str, tuple[int, ...]]

    def names(self) -> tuple[str, ...]:
        return tuple(self.ranges)

    def restricted(self, condition: Any) -> Domain:
        return Domain(self.ranges, all_of(self.constraint, condition), self.listed)

    @cached_property
    def constrained_names(self) -> frozenset[str]:
        return free_names(self.constraint)

    def closure(self, names: Collection[str]) -> tuple[str, ...]:
        """``names`` and every name that the constraint ties to them, in the order of the spec."""
        return tuple(name for name in self.ranges if name in names or name in self.constrained_names)

    def size(self, names: Collection[str]) -> int | None:
        """How many candidate points the listed values of ``names`` give; None if one of them is not listed."""
        total = 1
        for name in names:
            if name not in self.listed:
                return None
            total *= len(self.listed[name])
        return total

    def points(self, names: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
        """The points of the domain over ``names``, lexicographically. Every name must be listed."""
        inside = compile_closure(self.constraint, names)
        candidates = itertools.product(*(self.listed[name] for name in names))
        return (point for point in candidates if inside(point))


def domain_of(spec: Spec) -> Domain:
    """The declared domain of a spec: its dims, and ``sm_count``."""
    ranges: dict[str, Range] = {}
    listed: dict[str, tuple[int, ...]] = {}
    constraints = []
    for dim in spec.dims:
        ranges[dim.name] = _range(dim)
        values = _values(dim, ranges[dim.name])
        if values is not None:
            listed[dim.name] = values
            if dim.also is None:
                continue
        constraints.append(_membership(dim, ranges[dim.name]))
    ranges["sm_count"] = SM_COUNT
    return Domain(ranges, all_of(*constraints), listed)


def _range(dim: Dim) -> Range:
    low, high, step = dim.bounds()
    if dim.values:
        low, high = min(low, *dim.values), max(high, *dim.values)
        if any(value % step for value in dim.values):
            step = 1
    return Range(low, high, step)


def _values(dim: Dim, range_: Range) -> tuple[int, ...] | None:
    if dim.values and dim.also is None and not dim.is_ranged:
        return tuple(sorted(set(dim.values)))
    if dim.dynamic:
        return None
    step = range_.multiple_of
    first = -(-range_.lo // step) * step
    count = (range_.hi - first) // step + 1
    if count > ENUMERABLE:
        return None
    return tuple(sorted({*dim.values, *range(first, range_.hi + 1, step)}))


def _membership(dim: Dim, range_: Range) -> Any:
    """The claim that a value belongs to the dim: one of its listed values, or in its range and predicate."""
    name = symbol(dim.name)
    low, high, step = dim.bounds()
    in_range = all_of(name >= low, name <= high, equal(mod(name, step), 0), True if dim.also is None else dim.also)
    if dim.values and not dim.is_ranged and dim.also is None:
        return any_of(*(equal(name, value) for value in dim.values))
    return any_of(in_range, *(equal(name, value) for value in dim.values))
