"""Bounds and decisions hold at every point that they speak of."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.expr.random_expressions import NAMES, REPEATABLE, conditions, integers, value
from tests.expr.test_evaluate import parsed
from tilegen.expr import Range, bounds, decide, evaluate, narrowed, parse_condition, parse_integer, symbol


@st.composite
def domains(draw) -> dict[str, Range]:
    ranges = {}
    for name in NAMES:
        step = draw(st.sampled_from([1, 1, 2, 8]))
        lo = draw(st.integers(-1, 3)) * step
        ranges[name] = Range(max(lo, 0), max(lo, 0) + draw(st.integers(0, 3)) * step, step)
    return ranges


def points(ranges: dict[str, Range]):
    axes = [range(r.lo, r.hi + 1, r.multiple_of) for r in ranges.values()]
    return ({"A": a, "B": b, "C": c} for a in axes[0] for b in axes[1] for c in axes[2])


@REPEATABLE
@given(integers, domains())
def test_bounds_hold_at_every_point(text: str, ranges: dict[str, Range]) -> None:
    expr = parsed(parse_integer, text)
    if expr is None:
        return
    lo, hi = bounds(expr, ranges)
    # A range open above admits all that a closed one does.
    open_lo, open_hi = bounds(expr, {n: Range(r.lo, None, r.multiple_of) for n, r in ranges.items()})
    for env in points(ranges):
        v = value(text, env)
        if v is not None:
            assert lo is None or lo <= v
            assert hi is None or v <= hi
            assert open_lo is None or open_lo <= v
            assert open_hi is None or v <= open_hi


@REPEATABLE
@given(conditions, domains())
def test_decisions_hold_at_every_point(text: str, ranges: dict[str, Range]) -> None:
    claim = parsed(parse_condition, text)
    if claim is None:
        return
    decision = decide(claim, ranges)
    if decision is not None:
        for env in points(ranges):
            v = value(text, env)
            assert v is None or v == decision


def test_divisibility_settles_what_intervals_cannot() -> None:
    ranges = {"M": Range(1, None), "C": Range(32, 4096, 32)}
    names = ("M", "C")
    for text, expected in [
        ("16 * M % 8 == 0", True),
        ("C % 32 == 0", True),
        ("C % 64 == 0", None),
        ("C * M % 32 == 0", True),
        ("(C + 16) % 32 == 16", True),
        ("(C + 16) % 32 == 0", False),
        ("C // 32 * 32 == C", None),  # true, and for z3
        ("C // 32 >= 1", True),
        ("C * 2 <= 8192", True),
        ("C > 4096", False),
        ("C == 33", False),
        ("M >= 1 and C >= 32", True),
        ("M < 1 or C > 5000", False),
        ("not (M < 1)", True),
        ("M <= 4096", None),
        ("(M + 1) * 4 > 4 * M", True),
        ("max(M, C) >= 32", True),
        ("min(M, C) <= 4096", True),
        ("ceildiv(M, 64) >= 1", True),
    ]:
        assert decide(parse_condition(text, names), ranges) is expected, text


def test_exact_division_keeps_the_divisor_of_a_range() -> None:
    ranges = {"C": Range(64, 4096, 64)}
    assert decide(parse_condition("C // 32 % 2 == 0", {"C"}), ranges) is True
    assert bounds(parse_integer("C // 32", {"C"}), ranges) == (2, 128)


def test_a_condition_narrows_a_range() -> None:
    start = Range(1, None)
    assert narrowed(parse_condition("C % 32 == 0 and C <= 4096", {"C"}), "C", start) == Range(1, 4096, 32)
    assert narrowed(parse_condition("16 < C < 100", {"C"}), "C", start) == Range(17, 99)
    assert narrowed(parse_condition("C in (96, 192)", {"C"}), "C", start) == Range(96, 192)
    assert narrowed(parse_condition("C > 4 or D > 4", {"C", "D"}), "C", start) == start
    assert narrowed(parse_condition("C % 4 == 0 and C % 6 == 0", {"C"}), "C", start) == Range(1, None, 12)


@REPEATABLE
@given(conditions)
def test_a_narrowed_range_holds_every_point_of_the_condition(text: str) -> None:
    claim = parsed(parse_condition, text)
    if claim is None:
        return
    r = narrowed(claim, "A", Range(0, 40))
    for a in range(41):
        if any(value(text, {"A": a, "B": b, "C": 3}) for b in (0, 1, 7)):
            assert r.lo <= a <= r.hi
            assert a % r.multiple_of == 0


def test_a_large_product_is_not_multiplied_out() -> None:
    e = symbol("M")
    for i in range(12):
        e = e * (symbol("M") + symbol(f"N{i}") + i)
    assert decide(parse_condition("M >= 0", {"M"}), {}) is True
    assert bounds(e, {}) == (0, None)
    assert evaluate(e, {"M": 1, **{f"N{i}": 0 for i in range(12)}}) > 0
