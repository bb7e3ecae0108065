"""Shapes of a spec at which its cases are looked at, and which case each of them takes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from tilegen.check.domain import domain_of
from tilegen.check.prover import Status, prove
from tilegen.expr import compile_closure, free_names, negate
from tilegen.plan.cases import cases, sharer
from tilegen.plan.instances import listed_values, probes, representative
from tilegen.targets import target as chip

if TYPE_CHECKING:
    from tilegen.plan.model import Case
    from tilegen.spec.model import Dim, Spec

MOST_SHAPES = 4000
"""Shapes looked at for one target; values of dims are thinned out where their product is larger."""


_tables: dict[tuple[str, str, str], CaseTable] = {}
REMEMBERED = 64


def case_table(spec: Spec, arch: str) -> CaseTable:
    """The table of a spec on a target; the same one each time, for its shapes are asked for more than once. Targets with the
    same tile rules share one, unless their numbers of SMs matter to these.
    """
    by_sms = any("sm_count" in free_names(case.guard) for case in cases(spec, arch))
    key = spec.path, spec.digest, arch if by_sms else sharer(spec, arch)
    if key not in _tables:
        if len(_tables) >= REMEMBERED:
            _tables.clear()
        _tables[key] = CaseTable(spec, key[2])
    return _tables[key]


class Members:
    """Which sizes a dim may have; each is worked out once."""

    def __init__(self, dim: Dim) -> None:
        self.dim = dim
        self.known: dict[int, bool] = {}
        self._also = None if dim.also is None else compile_closure(dim.also, (dim.name,))

    def __contains__(self, size: int) -> bool:
        if size not in self.known:
            listed = size in self.dim.values and not self.dim.dynamic
            self.known[size] = listed or (not self.dim.is_listed and self._ruled(size))
        return self.known[size]

    def _ruled(self, size: int) -> bool:
        low, high, step = self.dim.min or 1, self.dim.max, self.dim.multiple_of or 1
        inside = size >= low and (high is None or size <= high) and size % step == 0
        return inside and (self._also is None or bool(self._also((size,))))


class CaseTable:
    """The cases of a spec on one target, and which one a shape takes."""

    def __init__(self, spec: Spec, arch: str) -> None:
        self.spec = spec
        self.arch = arch
        self.cases: tuple[Case, ...] = tuple(cases(spec, arch))
        self.names = (*(dim.name for dim in spec.dims), "sm_count")
        self.members = {dim.name: Members(dim) for dim in spec.dims}
        self.sm_count = chip(arch).part.sm_count

    def at(self, shape: Mapping[str, int]) -> int | None:
        """The number of the case that a shape takes, from 0; None where it is not in the domain."""
        for name, members in self.members.items():
            if name not in shape or shape[name] not in members:
                return None
        point = (*(shape[dim.name] for dim in self.spec.dims), self.sm_count)
        return next((number for number, holds in enumerate(self._guards) if holds(point)), None)

    @cached_property
    def _guards(self) -> list[Callable[[tuple[int, ...]], Any]]:
        return [
            (lambda _: True) if case.guard is True else compile_closure(case.guard, self.names) for case in self.cases
        ]

    @cached_property
    def shapes(self) -> tuple[dict[str, int], ...]:
        """Shapes that tell the cases apart: listed values, powers of two, both sides of each number in a condition. A dim
        that no condition mentions stands at its largest listed value.
        """
        constants = tuple(sorted({number for case in self.cases for number in _constants(case.guard)}))
        asked = {name for case in self.cases for name in free_names(case.guard)}
        values = {
            dim.name: _candidates(dim, constants) if dim.name in asked else (_largest(dim),) for dim in self.spec.dims
        }
        for dim in sorted(self.spec.dims, key=lambda dim: not dim.dynamic):
            total = prod(len(entry) for entry in values.values())
            if total > MOST_SHAPES:
                kept = max(1, MOST_SHAPES * len(values[dim.name]) // total)
                values[dim.name] = _thinned(dim, values[dim.name], kept)
        return tuple(dict(zip(values, point, strict=True)) for point in itertools.product(*values.values()))

    @cached_property
    def examples(self) -> dict[int, dict[str, int]]:
        """For each case a shape that takes it: of the listed ones the largest; else the smallest there is."""
        found: dict[int, dict[str, int]] = {}
        listed = {dim.name: set(listed_values(dim)) for dim in self.spec.dims if not dim.dynamic}
        unlisted: dict[int, dict[str, int]] = {}
        for shape in self.shapes:
            number = self.at(shape)
            if number is None:
                continue
            if all(shape[name] in values for name, values in listed.items()):
                found[number] = shape
            else:
                unlisted.setdefault(number, shape)
        for number, case in enumerate(self.cases):
            if number not in found:
                witness = unlisted.get(number) or self._witness(case)
                if witness is not None:
                    found[number] = witness
        return dict(sorted(found.items()))

    def _witness(self, case: Case) -> dict[str, int] | None:
        outcome = prove(negate(case.condition), domain_of(self.spec))
        if outcome.status is not Status.REFUTED:
            return None
        return {dim.name: outcome.counterexample.get(dim.name, representative(dim)) for dim in self.spec.dims}


def _largest(dim: Dim) -> int:
    return max(dim.values) if dim.values else representative(dim) if dim.dynamic else max(listed_values(dim))


def _candidates(dim: Dim, constants: tuple[int, ...]) -> tuple[int, ...]:
    if dim.is_listed:
        return tuple(sorted(set(dim.values)))
    edges = [edge for edge in (dim.min, dim.max) if edge is not None and dim.contains(edge)]
    return tuple(sorted({*probes(dim, constants), *edges, representative(dim), *(() if dim.dynamic else dim.values)}))


def _thinned(dim: Dim, values: tuple[int, ...], count: int) -> tuple[int, ...]:
    """So many of the values, evenly; the listed ones and the ends always."""
    step = -(-len(values) // count)
    kept = {*values[::step], values[-1], *(value for value in dim.values if value in values)}
    return tuple(sorted(kept))


def _constants(condition: Any) -> Iterator[int]:
    if isinstance(condition, bool) or not hasattr(condition, "atoms"):
        return
    import sympy

    yield from (int(number) for number in condition.atoms(sympy.Integer) if number > 0)
