"""Formulas: values, order, and the two languages that they are printed in."""

from __future__ import annotations

import contextlib
import math
import pickle
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given

from tests.expr.random_expressions import FORMULA_FUNCTIONS, INPUTS, REPEATABLE, formulas, real_environments, real_value
from tilegen.expr import (
    ExprError,
    evaluate_formula,
    formula_to_text,
    formula_to_tilelang,
    formula_to_torch,
    parse_formula,
    repeated_terms,
)
from tilegen.expr.formula import FUNCTIONS

NAMES = (*INPUTS, "D")

# The functions of TileLang that the printer uses, over Python floats.
TILELANG = SimpleNamespace(
    **{
        n: FORMULA_FUNCTIONS[n]
        for n in ("max", "min", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "erf", "tanh", "abs")
    },
    pow=pow,
    float32=float,
    if_then_else=lambda c, a, b: a if c else b,
    And=lambda a, b: a and b,
    Or=lambda a, b: a or b,
    Not=lambda a: not a,
)


def parse(text: str):
    try:
        return parse_formula(text, NAMES, integers=("D",))
    except ExprError as e:
        if e.message not in ("division by zero", "the degree of this power is over 64"):
            raise
        return None


def close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


def test_every_function_is_under_test() -> None:
    assert {*FUNCTIONS, "where"} == FORMULA_FUNCTIONS.keys()


def test_a_formula_keeps_the_order_in_which_it_is_written() -> None:
    for text in (
        "x * y * D",
        "y * x",
        "y - x",
        "x - (y - D)",
        "x / (y / D) / 2",
        "1 / 3 * x",
        "(D + D) ** -0.5",
        "x + x",
    ):
        assert formula_to_text(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("relu(acc)", "T.max(acc[i, j], 0)"),
        ("silu(x)", "x / (1 + T.exp(-x))"),
        ("sigmoid(x)", "1 / (1 + T.exp(-x))"),
        ("acc * sigmoid(x)", "acc[i, j] * (1 / (1 + T.exp(-x)))"),
        ("gelu(x)", "0.5 * x * (1 + T.erf(x * 0.7071067811865476))"),
        ("x ** 2", "x * x"),
        ("x ** -0.5", "T.rsqrt(x)"),
        ("clamp(x, -1, 1)", "T.min(T.max(x, -1), 1)"),
        ("max(x, y, 0)", "T.max(T.max(x, y), 0)"),
        ("where(x > 0 and y > 0, x, y)", "T.if_then_else(T.And(x > 0, y > 0), x, y)"),
        ("(D + 64) ** -0.5 * x", "(D + 64) ** -0.5 * x"),
        ("relu(acc + y) * 0.5", "T.max(acc[i, j] + y, 0) * 0.5"),
        ("where(not x < 0, D, 0) * y", "T.if_then_else(T.Not(x < 0), T.float32(D), 0) * y"),
        ("x * sqrt(D + 1)", "x * T.sqrt(T.float32(D + 1))"),
    ],
)
def test_tilelang_is_written_as_an_expert_writes_it(text: str, printed: str) -> None:
    expr = parse_formula(text, ("acc", *NAMES), integers=("D",))
    assert formula_to_tilelang(expr, {"acc": "acc[i, j]"}) == printed


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("relu(x)", "torch.relu(x)"),
        ("silu(x * y)", "torch.nn.functional.silu(x * y)"),
        ("max(x, 0)", "torch.clamp(x, min=0)"),
        ("max(x, y)", "torch.maximum(x, y)"),
        ("clamp(x, 0, y)", "torch.minimum(torch.clamp(x, min=0), y)"),
        ("x * sqrt(D)", "x * math.sqrt(D)"),
        ("where(x > 0, x, -y)", "torch.where(x > 0, x, -y)"),
    ],
)
def test_torch_is_written_with_its_own_functions(text: str, printed: str) -> None:
    assert formula_to_torch(parse(text), {}) == printed


def test_a_compound_argument_that_would_repeat_is_bound_once() -> None:
    bindings, body = repeated_terms(parse("silu(x * y * D) + 1"))
    assert [(n, formula_to_text(e)) for n, e in bindings] == [("v", "x * y * D")]
    assert formula_to_tilelang(body, {}) == "v / (1 + T.exp(-v)) + 1"
    assert repeated_terms(parse("silu(x)"))[0] == []
    bindings, body = repeated_terms(parse("gelu(silu(x + y)) + silu(x + y)"))
    assert [n for n, _ in bindings] == ["v", "v1"]
    assert formula_to_text(bindings[1][1]) == "silu(v)"


def test_a_name_that_prints_as_a_compound_is_bracketed() -> None:
    assert formula_to_tilelang(parse("x * y"), {"x": "a + b", "y": 'T.cast(g[j], "float32")'}) == (
        '(a + b) * T.cast(g[j], "float32")'
    )


def test_a_dynamic_dim_is_no_python_number_in_tilelang() -> None:
    names = {"D": "T.float32(M)"}
    assert formula_to_tilelang(parse("x * D ** -0.5"), names) == "x * T.rsqrt(T.float32(M))"
    assert formula_to_tilelang(parse("x * sqrt(D)"), names) == "x * T.sqrt(T.float32(M))"
    assert formula_to_tilelang(parse("x * D ** -0.5"), {"D": "D_rope"}) == "x * D_rope ** -0.5"


def test_a_formula_pickles() -> None:
    expr = parse("where(x > 0, gelu(x * y), softcap(x, 30.0))")
    assert pickle.loads(pickle.dumps(expr)) == expr


@REPEATABLE
@given(formulas, real_environments)
def test_all_forms_of_a_formula_have_the_value_that_python_gives_it(text: str, env: dict[str, float]) -> None:
    expr, expected = parse(text), real_value(text, env)
    if expr is None or expected is None:
        return
    assert close(evaluate_formula(expr, env), expected)
    assert close(real_value(formula_to_text(expr), env), expected)
    assert parse(formula_to_text(expr)) == expr
    scope = {"T": TILELANG, **env}
    try:
        assert close(eval(formula_to_tilelang(expr, {}), scope), expected)
        bindings, body = repeated_terms(expr)
        for name, term in bindings:
            scope[name] = eval(formula_to_tilelang(term, {}), scope)
        assert close(eval(formula_to_tilelang(body, {}), scope), expected)
    except OverflowError:
        pass  # exp of a large number, which is inf on a chip
    tensors = {n: torch.tensor([v], dtype=torch.float64) for n, v in env.items() if n != "D"}
    result = eval(formula_to_torch(expr, {}), {"torch": torch, "math": math, **tensors, "D": env["D"]})
    assert close(float(result), expected)


@REPEATABLE
@given(formulas, real_environments)
def test_a_scalar_counts_as_a_number_in_torch(text: str, env: dict[str, float]) -> None:
    expr, expected = parse(text), real_value(text, env)
    if expr is None or expected is None:
        return
    scope = {
        "torch": torch,
        "math": math,
        "x": torch.tensor([env["x"]], dtype=torch.float64),
        "y": env["y"],
        "D": env["D"],
    }
    with contextlib.suppress(OverflowError):  # math.exp of a large number
        assert close(float(eval(formula_to_torch(expr, {}, scalars=("y",)), scope)), expected)
