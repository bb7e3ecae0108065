"""Values of expressions against Python's own."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.expr.random_expressions import NAMES, REPEATABLE, conditions, environments, integers, value
from tilegen.expr import (
    CeilDiv,
    ExprError,
    FloorDiv,
    all_of,
    any_of,
    ceil_div,
    compile_closure,
    equal,
    evaluate,
    floor_div,
    free_names,
    implies,
    maximum,
    minimum,
    mod,
    negate,
    parse_condition,
    parse_integer,
    substitute,
    symbol,
)


def parsed(parse, text: str):
    """The expression, or None where the text divides by a constant zero."""
    try:
        return parse(text, NAMES)
    except ExprError as e:
        if e.message not in ("division by zero", "the value does not fit into 64 bits"):
            raise
        return None


@REPEATABLE
@given(
    st.one_of(integers.map(lambda t: (parse_integer, t)), conditions.map(lambda t: (parse_condition, t))), environments
)
def test_evaluate_and_closures_and_partial_substitution_agree_with_python(case, env: dict[str, int]) -> None:
    parse, text = case
    expected = value(text, env)
    expr = parsed(parse, text)
    if expected is None or expr is None:
        return
    result = evaluate(expr, env)
    assert (type(result), result) == (type(expected), expected)
    assert compile_closure(expr, NAMES)([env[n] for n in NAMES]) == expected
    # Conditions stop early in Python, and a part that it never reached may divide by zero.
    for name in NAMES:
        try:
            partly = substitute(expr, {name: env[name]})
        except ZeroDivisionError:
            continue
        assert name not in free_names(partly)
        assert evaluate(partly, env) == expected


@REPEATABLE
@given(conditions, conditions, environments)
def test_connectives_agree_with_python(p: str, q: str, env: dict[str, int]) -> None:
    a, b = parsed(parse_condition, p), parsed(parse_condition, q)
    left, right = value(p, env), value(q, env)
    if None in (a, b, left, right):
        return
    assert evaluate(negate(a), env) == (not left)
    assert evaluate(all_of(a, b), env) == (left and right)
    assert evaluate(any_of(a, b), env) == (left or right)
    assert evaluate(implies(a, b), env) == (not left or right)


@given(st.integers(-100, 100), st.integers(-100, 100).filter(bool))
def test_ints_stay_native_and_round_as_in_python(a: int, b: int) -> None:
    assert floor_div(a, b) == a // b
    assert mod(a, b) == a % b
    assert ceil_div(a, b) == -(-a // b)
    assert minimum(a, b) == min(a, b)
    assert maximum(a, b) == max(a, b)
    assert equal(a, b) is (a == b)
    assert FloorDiv(a, b) == a // b
    assert CeilDiv(a, b) == -(-a // b)


def test_multiples_leave_a_division() -> None:
    m, n = symbol("M"), symbol("N")
    assert floor_div(16 * m + 5, 8) == 2 * m  # 5 // 8 is 0
    assert mod(16 * m, 8) == 0
    assert mod(16 * m + n, 8) == mod(n, 8)
    assert ceil_div(64 * m + n, 64) == m + ceil_div(n, 64)
    assert floor_div(floor_div(m, 4), 8) == floor_div(m, 32)
    assert equal(m + n, n + m) is True
    assert minimum(m, n, 4, 7) == minimum(4, n, m)


def test_a_missing_name_is_a_keyerror_and_a_zero_divisor_a_zerodivisionerror() -> None:
    m, n = symbol("M"), symbol("N")
    with pytest.raises(KeyError, match="N"):
        evaluate(m + n, {"M": 1})
    with pytest.raises(ZeroDivisionError):
        evaluate(floor_div(m, n), {"M": 1, "N": 0})
    with pytest.raises(KeyError):
        compile_closure(m + n, ["M"])


def test_a_closure_is_fast_enough_to_enumerate_a_domain() -> None:
    names = ["M", "C", "threads"]
    claim = parse_condition("M * C % 32 == 0 and (C <= 4096 or 16 * threads // C >= 1)", names)
    holds = compile_closure(claim, names)
    start = time.process_time()
    count = sum(holds((m, c, 128)) for m in range(1, 101) for c in range(1, 1001))
    assert time.process_time() - start < 10.0  # 1e5 points take 0.1 s on an idle core
    assert count == sum(m * c % 32 == 0 for m in range(1, 101) for c in range(1, 1001))
