"""Dims with too many values to enumerate, but which a claim only compares with constants.

``M <= 1024`` splits the range of M at 1024, and between two splits nothing that is claimed depends on M. So the ends of the
pieces stand for all of M: enumerating them is exact, and finds the least counterexample.
"""

from __future__ import annotations

from collections.abc import Iterable
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
