"""Dims with too many values to enumerate, but which a claim only compares with constants.

``M <= 1024`` splits the range of M at 1024, and between two splits nothing that is claimed depends on M. So the ends of the
pieces stand for all of M: enumerating them is exact, and finds the least counterexample.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilegen.check.domain import Domain
from tilegen.expr import Range


def discretised(domain: Domain, claims: Iterable[Any], names: tuple[str, ...]) -> Domain:
    """``domain`` with listed values for each of ``names`` that has none and that ``claims`` only compare with constants."""
    listed = dict(domain.listed)
    claims = [claim for claim in claims if not isinstance(claim, bool)]
    for name in names:
        if name in listed:
            continue
        constants: set[int] = set()
        if all(_collect(claim, name, constants) for claim in claims):
            values = _ends(domain.ranges[name], constants)
            if values is not None:
                listed[name] = values
    return replace(domain, listed=listed)


def _collect(claim: Any, name: str, constants: set[int]) -> bool:
    """Gathers the constants that ``name`` is compared with; False if it stands anywhere else."""
    if not any(symbol.name == name for symbol in claim.free_symbols):
        return True
    if claim.is_Relational:
        sides = (claim.lhs, claim.rhs)
        for side, other in (sides, sides[::-1]):
            if side.is_Symbol and side.name == name and other.is_Integer:
                constants.add(int(other))
                return True
        return False
    return type(claim).__name__ in ("And", "Or", "Not") and all(_collect(arg, name, constants) for arg in claim.args)


def _ends(range_: Range, constants: set[int]) -> tuple[int, ...] | None:
    """The multiples in the range next to each constant, and the ends of the range; None for an unbounded range."""
    if range_.lo is None or range_.hi is None:
        return None
    step = range_.multiple_of
    around = {range_.lo, range_.hi, *constants}
    candidates = {value // step * step + shift for value in around for shift in (-step, 0, step)}
    return tuple(sorted(value for value in candidates if range_.lo <= value <= range_.hi))


PROBED = 4096
"""Points that are tried at most before a solver is asked."""


def probes(claim: Any, domain: Domain, names: tuple[str, ...]) -> Mapping[str, tuple[int, ...]]:
    """A few telling values of each name: its ends, both sides of each constant of the claim, and what lies between."""
    constants = _constants(claim)
    found = {name: _candidates(domain, name, constants) for name in names}
    most = max(2, int(PROBED ** (1 / max(1, len(names)))))
    return {name: _thinned(values, most) for name, values in found.items()}


def _constants(claim: Any) -> set[int]:
    import sympy

    return set() if isinstance(claim, bool) else {int(number) for number in claim.atoms(sympy.Integer)}


def _candidates(domain: Domain, name: str, constants: set[int]) -> tuple[int, ...]:
    if name in domain.listed:
        return domain.listed[name]
    range_ = domain.narrowed[name]
    low, step = max(range_.lo or 0, 0), range_.multiple_of
    high = 2**31 if range_.hi is None else range_.hi
    around = {low, high, *constants, *(2**exponent for exponent in range(0, high.bit_length(), 3))}
    values = {value // step * step + shift for value in around for shift in (-step, 0, step)}
    return tuple(sorted(value for value in values if low <= value <= high))


def _thinned(values: Sequence[int], most: int) -> tuple[int, ...]:
    """At most so many of the values, evenly, the first and the last among them."""
    if len(values) <= most:
        return tuple(values)
    return tuple(dict.fromkeys(values[index * (len(values) - 1) // (most - 1)] for index in range(most)))
