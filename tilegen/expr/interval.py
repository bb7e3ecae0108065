"""What the ranges of its names alone say of an expression: intervals and divisibility. Sound, not complete."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilegen.expr import arith
from tilegen.expr.arith import Condition, Size


@dataclass(frozen=True)
class Range:
    """The values of a name: lo <= x, x <= hi, x a multiple of `multiple_of`; None is unbounded."""

    lo: int | None
    hi: int | None
    multiple_of: int = 1

    def union(self, other: Range) -> Range:
        """The least range that holds both."""
        lo = None if self.lo is None or other.lo is None else min(self.lo, other.lo)
        hi = None if self.hi is None or other.hi is None else max(self.hi, other.hi)
        return Range(lo, hi, math.gcd(self.multiple_of, other.multiple_of))


def bounds(expr: Size, ranges: Mapping[str, Range]) -> tuple[int | None, int | None]:
    """(lo, hi) over all points of the ranges; None where no bound was found. A name without a range is >= 0."""
    value = _of(expr, ranges)
    return value.lo, value.hi


def decide(claim: Condition, ranges: Mapping[str, Range]) -> bool | None:
    """True if the claim holds at every point of the ranges, False if at none, None if that is not settled here.

    Only intervals and divisibility are used, so None says nothing about the claim.
    """
    if isinstance(claim, bool):
        return claim
    if claim.is_Relational:
        return _relation(claim.rel_op, claim.lhs, claim.rhs, ranges)
    kind = type(claim).__name__
    if kind == "Not":
        inner = decide(arith.native(claim.args[0]), ranges)
        return None if inner is None else not inner
    if kind in ("And", "Or"):
        settles = kind == "Or"
        parts = [decide(arith.native(a), ranges) for a in claim.args]
        if settles in parts:
            return settles
        return None if None in parts else not settles
    return arith.native(claim) if isinstance(arith.native(claim), bool) else None


def narrowed(condition: Condition, name: str, start: Range) -> Range:
    """A range for `name` that holds every point of `start` where the condition does, read off its plain conjuncts."""
    if isinstance(condition, bool):
        return start
    kind = type(condition).__name__
    if kind == "And":
        for part in condition.args:
            start = narrowed(part, name, start)
        return start
    if kind == "Or":
        ranges = [narrowed(part, name, start) for part in condition.args]
        result = ranges[0]
        for other in ranges[1:]:
            result = result.union(other)
        return result
    if not condition.is_Relational:
        return start
    op, lhs, rhs = condition.rel_op, condition.lhs, condition.rhs
    if lhs.is_Integer:
        op, lhs, rhs = _MIRRORED[op], rhs, lhs
    if not rhs.is_Integer:
        return start
    bound = int(rhs)
    if lhs.is_Symbol and lhs.name == name:
        return _cut(start, op, bound)
    if op == "==" and bound == 0 and type(lhs).__name__ == "Mod":
        dividend, divisor = lhs.args
        if divisor.is_Integer and dividend.is_Symbol and dividend.name == name:
            return Range(start.lo, start.hi, math.lcm(start.multiple_of, abs(int(divisor))))
    return start


_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _cut(r: Range, op: str, bound: int) -> Range:
    """The points x of `r` with x op bound."""
    if op in ("<", "<=", "=="):
        top = bound - 1 if op == "<" else bound
        r = Range(r.lo, top if r.hi is None else min(r.hi, top), r.multiple_of)
    if op in (">", ">=", "=="):
        bottom = bound + 1 if op == ">" else bound
        r = Range(bottom if r.lo is None else max(r.lo, bottom), r.hi, r.multiple_of)
    return r


def _relation(op: str, a: Any, b: Any, ranges: Mapping[str, Range]) -> bool | None:
    d = _of(_expanded(a - b), ranges)
    below, above = d.hi is not None and d.hi < 0, d.lo is not None and d.lo > 0
    never_equal = below or above or (d.modulus != 1 and d.residue % d.modulus != 0 if d.modulus else d.residue != 0)
    always_equal = d.lo == d.hi == 0
    if op in ("==", "!="):
        settled = True if always_equal else False if never_equal else None
        return settled if op == "==" or settled is None else not settled
    if op in (">", ">="):
        below, above, d = above, below, _negated(d)
    # Now the question is d < 0 or d <= 0.
    if op in ("<", ">"):
        return True if below else False if d.lo is not None and d.lo >= 0 else None
    return True if d.hi is not None and d.hi <= 0 else False if above else None


def _expanded(e: Any) -> Any:
    """Products multiplied out, so that equal terms cancel; left alone where that would be a large sum."""
    if not any(t.is_Pow or (t.is_Mul and any(f.is_Add for f in t.args)) for t in (e.args if e.is_Add else (e,))):
        return e
    import sympy

    size = 1
    for factor in sympy.preorder_traversal(e):
        if factor.is_Add:
            size *= len(factor.args)
        if factor.is_Pow:
            size *= 2 ** min(int(factor.exp), 16)
        if size > 256:
            return e
    return sympy.expand_mul(e, deep=False)


@dataclass(frozen=True)
class _Value:
    """lo <= x <= hi and x == residue modulo modulus; modulus 0 means that x is the constant `residue`."""

    lo: int | None
    hi: int | None
    modulus: int = 1
    residue: int = 0


def _value(lo: int | None, hi: int | None, modulus: int = 1, residue: int = 0) -> _Value:
    """The value with its bounds moved inward onto the residue class."""
    if modulus == 0:
        return _Value(residue, residue, 0, residue)
    residue %= modulus
    if lo is not None:
        lo += (residue - lo) % modulus
    if hi is not None:
        hi -= (hi - residue) % modulus
    if lo is not None and lo == hi:
        return _Value(lo, lo, 0, lo)
    return _Value(lo, hi, modulus, residue)


def _of(e: Any, ranges: Mapping[str, Range]) -> _Value:
    if isinstance(e, int) or e.is_Integer:
        return _Value(int(e), int(e), 0, int(e))
    if e.is_Symbol:
        r = ranges.get(e.name, Range(0, None))
        return _value(r.lo, r.hi, r.multiple_of)
    if e.is_Pow:
        return _power(_of(e.base, ranges), int(e.exp))
    args = [_of(a, ranges) for a in e.args]
    kind = type(e).__name__
    if kind in ("Min", "Max"):
        return _extremum(args, pick=min if kind == "Min" else max)
    combine = {"Add": _sum, "Mul": _product, "FloorDiv": _floor_div, "CeilDiv": _ceil_div, "Mod": _mod}.get(kind)
    if combine is None:
        return _Value(None, None)
    result = args[0]
    for arg in args[1:]:
        result = combine(result, arg)
    return result


def _negated(a: _Value) -> _Value:
    return _value(None if a.hi is None else -a.hi, None if a.lo is None else -a.lo, a.modulus, -a.residue)


def _sum(a: _Value, b: _Value) -> _Value:
    lo = None if a.lo is None or b.lo is None else a.lo + b.lo
    hi = None if a.hi is None or b.hi is None else a.hi + b.hi
    return _value(lo, hi, math.gcd(a.modulus, b.modulus), a.residue + b.residue)


_INF = float("inf")


def _ends(a: _Value) -> tuple[int | float, int | float]:
    return (-_INF if a.lo is None else a.lo), (_INF if a.hi is None else a.hi)


def _closed(lo: int | float, hi: int | float) -> tuple[int | None, int | None]:
    return (None if isinstance(lo, float) else lo), (None if isinstance(hi, float) else hi)


def _product(a: _Value, b: _Value) -> _Value:
    corners = [_times(x, y) for x in _ends(a) for y in _ends(b)]
    lo, hi = _closed(min(corners), max(corners))
    # (m j + r)(n k + s): every term but r s is a multiple of the gcd below.
    modulus = math.gcd(a.modulus * b.modulus, a.modulus * b.residue, b.modulus * a.residue)
    return _value(lo, hi, modulus, a.residue * b.residue)


def _times(x: int | float, y: int | float) -> int | float:
    """x * y at a corner. 0 * inf is 0: a bound of 0 stays 0 however large the other side."""
    if x == 0 or y == 0:
        return 0
    if isinstance(x, int) and isinstance(y, int):
        return x * y
    return _INF if (x > 0) == (y > 0) else -_INF


def _power(a: _Value, exponent: int) -> _Value:
    result = _Value(1, 1, 0, 1)
    for _ in range(exponent):
        result = _product(result, a)
    if exponent % 2 == 0 and exponent:
        lo = max(result.lo or 0, 0) if result.lo is not None else 0
        return _value(lo, result.hi, result.modulus, result.residue)
    return result


def _floor_div(a: _Value, b: _Value) -> _Value:
    return _division(a, b, lambda x, y: x // y)


def _ceil_div(a: _Value, b: _Value) -> _Value:
    return _division(a, b, lambda x, y: -(-x // y))


def _division(a: _Value, b: _Value, divide: Any) -> _Value:
    if b.modulus == 0 and b.residue and a.modulus % b.residue == 0 and a.residue % b.residue == 0:
        d = b.residue
        lo, hi = (a.lo, a.hi) if d > 0 else (a.hi, a.lo)
        modulus = abs(a.modulus // d)
        return _value(None if lo is None else lo // d, None if hi is None else hi // d, modulus, a.residue // d)
    # A divisor range that holds 0 is split by sign: the points where it is 0 have no value.
    corners: list[int | float] = []
    b_lo, b_hi = _ends(b)
    for low, high in ((max(b_lo, 1), b_hi), (b_lo, min(b_hi, -1))):
        if low <= high:
            corners += [_quotient(x, y, divide) for x in _ends(a) for y in (low, high)]
    if not corners:
        return _Value(None, None)
    return _value(*_closed(min(corners), max(corners)))


def _quotient(x: int | float, y: int | float, divide: Any) -> int | float:
    """divide(x, y) at a corner, where either may be infinite."""
    if isinstance(x, float):
        if isinstance(y, float):
            return x if y > 0 else -x
        return x if y > 0 else -x
    if isinstance(y, float):
        # x / inf tends to 0 from the side of x / y: floor gives 0 or -1, ceil 0 or 1.
        return int(divide((x > 0) - (x < 0), 2 if y > 0 else -2))
    return int(divide(x, y))


def _mod(a: _Value, b: _Value) -> _Value:
    if b.modulus == 0 and b.residue:
        d = b.residue
        if a.modulus % d == 0:
            return _value(None, None, 0, a.residue % d)
        if d > 0 and a.lo is not None and a.hi is not None and a.lo >= 0 and a.hi < d:
            return a
        return _value(min(0, d + 1), max(0, d - 1), math.gcd(a.modulus, d), a.residue)
    if b.lo is not None and b.lo > 0:
        if a.lo is not None and a.hi is not None and a.lo >= 0 and a.hi < b.lo:
            return a
        hi = None if b.hi is None else b.hi - 1
        if a.lo is not None and a.lo >= 0 and a.hi is not None:
            hi = a.hi if hi is None else min(hi, a.hi)
        return _value(0, hi, math.gcd(a.modulus, b.modulus, b.residue), a.residue)
    return _Value(0 if b.lo == 0 else None, None)


def _extremum(args: list[_Value], pick: Any) -> _Value:
    los = [a.lo for a in args]
    his = [a.hi for a in args]
    # One side of a min or max is bounded by any argument's bound, the other needs them all.
    known_los, known_his = [x for x in los if x is not None], [x for x in his if x is not None]
    lo: int | None
    hi: int | None
    if pick is max:
        lo = max(known_los, default=None)
        hi = None if None in his else max(known_his)
    else:
        hi = min(known_his, default=None)
        lo = None if None in los else min(known_los)
    modulus = math.gcd(*(a.modulus for a in args), *(a.residue - args[0].residue for a in args))
    return _value(lo, hi, modulus, args[0].residue)
