"""The set of dim values that a spec declares, as the prover needs it."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from tilegen.expr import (
    Range,
    all_of,
    any_of,
    at_least,
    at_most,
    compile_closure,
    divides,
    equal,
    free_names,
    narrowed,
    symbol,
)

if TYPE_CHECKING:
    from tilegen.spec.model import Dim, Spec

ENUMERABLE = 20_000
"""Domains of at most this many points are enumerated; larger ones go to the solver."""

SM_COUNT = Range(1, 512)
"""``sm_count`` is read from the device at run time, so proofs hold for any."""


@dataclass(frozen=True)
class Domain:
    """A box of ranges cut by a constraint.

    ``ranges`` bounds each name; ``constraint`` is the exact set (a bool or a sympy boolean); ``listed`` gives the
    values of the names that have finitely many, in increasing order.
    """

    ranges: Mapping[str, Range]
    constraint: Any = True
    listed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        return tuple(self.ranges)

    @cached_property
    def narrowed(self) -> Mapping[str, Range]:
        """The ranges, cut by what the constraint says of each name alone."""
        return {name: narrowed(self.constraint, name, range_) for name, range_ in self.ranges.items()}

    def restricted(self, condition: Any) -> Domain:
        """The part of the domain where ``condition`` holds too; the same object each time."""
        if condition is True:
            return self
        if condition not in self._regions:
            self._regions[condition] = Domain(self.ranges, all_of(self.constraint, condition), self.listed)
        return self._regions[condition]

    @cached_property
    def _regions(self) -> dict[Any, Domain]:
        return {}

    @cached_property
    def settled(self) -> dict[Any, Any]:
        """What the prover has found of claims over this domain: plans of several dtypes and chips ask the same."""
        return {}

    @cached_property
    def _points(self) -> dict[tuple[str, ...], tuple[tuple[int, ...], ...]]:
        return {}

    @cached_property
    def parts(self) -> tuple[tuple[Any, frozenset[str]], ...]:
        """The conjuncts of the constraint, each with the names that it ties together."""
        conjuncts = self.constraint.args if type(self.constraint).__name__ == "And" else (self.constraint,)
        return tuple((part, free_names(part)) for part in conjuncts if not isinstance(part, bool))

    def closure(self, names: Collection[str]) -> tuple[str, ...]:
        """``names`` and every name that the constraint ties to them, in the order of the spec."""
        tied = set(names)
        grown = True
        while grown:
            before = len(tied)
            for _, mentioned in self.parts:
                if mentioned & tied:
                    tied |= mentioned
            grown = len(tied) > before
        return tuple(name for name in self.ranges if name in tied)

    def constraint_on(self, names: Collection[str]) -> Any:
        """The part of the constraint that speaks of ``names``, which must be closed."""
        return all_of(*(part for part, mentioned in self.parts if mentioned & set(names)))

    def size(self, names: Collection[str]) -> int | None:
        """How many candidate points the listed values of ``names`` give; None if one of them is not listed."""
        total = 1
        for name in names:
            if name not in self.listed:
                return None
            total *= len(self.listed[name])
        return total

    def points(self, names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """The points of the domain over ``names``, lexicographically. Every name must be listed."""
        if names not in self._points:
            inside = compile_closure(self.constraint_on(names), names)
            candidates = itertools.product(*(self.listed[name] for name in names))
            self._points[names] = tuple(point for point in candidates if _holds(inside, point))
        return self._points[names]

    def first_point(self, names: tuple[str, ...], most: int) -> tuple[int, ...] | None:
        """The lexicographically least point of the domain over ``names``, which must be closed, if it is among the first
        ``most`` combinations of their values.
        """
        axes = [axis for name in names if (axis := self._values(name)) is not None]
        if len(axes) < len(names):
            return None
        inside = compile_closure(self.constraint_on(names), names)
        candidates = itertools.islice(_lexicographic(axes), most)
        return next((point for point in candidates if _holds(inside, point)), None)

    def _values(self, name: str) -> Sequence[int] | None:
        """The values that a name may have, in order; None where it has no least one."""
        range_ = self.narrowed[name]
        if range_.lo is None:
            return None
        step = range_.multiple_of
        within = range(-(-range_.lo // step) * step, sys.maxsize if range_.hi is None else range_.hi + 1, step)
        return [value for value in self.listed[name] if value in within] if name in self.listed else within


def _lexicographic(axes: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Combinations as `itertools.product` gives them, which would first write out every axis."""
    if not axes:
        yield ()
        return
    for value in axes[0]:
        for rest in _lexicographic(axes[1:]):
            yield (value, *rest)


def domain_of(spec: Spec) -> Domain:
    """The declared domain of a spec: its dims, and ``sm_count``."""
    return domain_over(spec.dims)


@lru_cache(maxsize=64)
def domain_over(dims: tuple[Dim, ...]) -> Domain:
    """The declared domain of these dims, and ``sm_count``."""
    ranges: dict[str, Range] = {}
    listed: dict[str, tuple[int, ...]] = {}
    constraints = []
    for dim in dims:
        ranges[dim.name] = dim.range
        values = _values(dim)
        if values is not None:
            listed[dim.name] = values
        elif dim.also is not None or not dim.dynamic:
            constraints.append(membership(dim))
    ranges["sm_count"] = SM_COUNT
    return Domain(ranges, all_of(*constraints), listed)


def _values(dim: Dim) -> tuple[int, ...] | None:
    """Every value of a dim in increasing order, where there are few enough of them."""
    if dim.is_listed:
        return tuple(sorted(set(dim.values)))
    low, high, step = dim.range.lo, dim.range.hi, dim.range.multiple_of
    if dim.dynamic or low is None or high is None or (high - low) // step >= ENUMERABLE:
        return None
    first = -(-low // step) * step
    also: Callable[[tuple[int, ...]], Any]
    also = (lambda _: True) if dim.also is None else compile_closure(dim.also, (dim.name,))
    ruled = range(dim.min or 1, high + 1 if dim.max is None else dim.max + 1)
    inside = (value for value in range(first, high + 1, step) if value in ruled and value % (dim.multiple_of or 1) == 0)
    return tuple(sorted({*dim.values, *(value for value in inside if _holds(also, (value,)))}))


def _holds(predicate: Callable[[tuple[int, ...]], Any], point: tuple[int, ...]) -> bool:
    """Whether a predicate holds at a point. One that divides by zero has no value there: rule T1 says so."""
    try:
        return bool(predicate(point))
    except ZeroDivisionError:
        return False


def membership(dim: Dim) -> Any:
    """The claim that a value belongs to the dim: one of its listed values, or in its range and predicate."""
    name = symbol(dim.name)
    in_range = all_of(
        at_least(name, dim.min or 1),
        True if dim.max is None else at_most(name, dim.max),
        divides(dim.multiple_of or 1, name),
        True if dim.also is None else dim.also,
    )
    return any_of(in_range, *(equal(name, value) for value in dim.values if not dim.dynamic))
