"""Printers of integer expressions: the spec's language, Python, z3."""

from __future__ import annotations

import re

import pytest
import z3
from hypothesis import given
from hypothesis import strategies as st

from tests.expr.random_expressions import NAMES, REPEATABLE, conditions, environments, integers, value
from tests.expr.test_evaluate import parsed
from tilegen.expr import parse_condition, parse_integer, to_python, to_text, to_z3

CASES = st.one_of(integers.map(lambda t: (parse_integer, t)), conditions.map(lambda t: (parse_condition, t)))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("16*threads//BLOCK_C", "16 * threads // BLOCK_C"),
        ("ceildiv(M, 64) * C - 3", "C * ceildiv(M, 64) - 3"),
        ("-M + 3", "-M + 3"),
        ("M // (C * 2)", "M // (2 * C)"),
        ("M % (C % 5)", "M % (C % 5)"),
        ("-(M // 3)", "-(M // 3)"),
        ("(M + 1) ** 2", "(M + 1) ** 2"),
        ("M * (C - 1)", "M * (C - 1)"),
    ],
)
def test_an_integer_prints_as_a_person_writes_it(text: str, printed: str) -> None:
    assert to_text(parse_integer(text, {"M", "C", "threads", "BLOCK_C"})) == printed


def test_python_has_no_ceildiv() -> None:
    assert to_python(parse_integer("ceildiv(M + 1, 64)", {"M"})) == "-(-(M + 1) // 64)"


def test_a_part_that_may_divide_by_zero_is_printed_behind_its_guard() -> None:
    condition = parse_condition("A != 0 and B % A == 0 and C > 1", NAMES)
    assert to_python(condition) in ("A != 0 and C > 1 and B % A == 0", "C > 1 and A != 0 and B % A == 0")
    assert to_python(parse_condition("A == 0 or B // A > 2", NAMES)) == "A == 0 or B // A > 2"


@REPEATABLE
@given(CASES)
def test_text_parses_back_to_an_equal_expression(case) -> None:
    parse, text = case
    expr = parsed(parse, text)
    if expr is not None:
        assert parse(to_text(expr), NAMES) == expr


@REPEATABLE
@given(CASES, environments)
def test_python_text_has_the_value_of_the_expression(case, env: dict[str, int]) -> None:
    parse, text = case
    expr, expected = parsed(parse, text), value(text, env)
    if expr is not None and expected is not None:
        # `and` and `or` lose their order. One part that divides comes last; of several, the wrong one may come first.
        several = len(re.findall(r"//|%|ceildiv", text)) > 1
        assert value(to_python(expr), env) in ((expected, None) if several else (expected,))
        assert value(to_text(expr), env) in ((expected, None) if several else (expected,))


@REPEATABLE
@given(CASES, environments)
def test_z3_terms_have_the_value_of_the_expression(case, env: dict[str, int]) -> None:
    parse, text = case
    expr, expected = parsed(parse, text), value(text, env)
    if expr is None or expected is None:
        return
    term = to_z3(expr, {n: z3.IntVal(v) for n, v in env.items()})
    result = z3.simplify(term)
    assert z3.is_true(result) == expected if isinstance(expected, bool) else result.as_long() == expected
