"""Strategies for texts of the expression language, with Python as the oracle of their values."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

NAMES = ("A", "B", "C")
REPEATABLE = settings(derandomize=True, deadline=None, max_examples=120)


def ceildiv(a: int, b: int) -> int:
    return -(-a // b)


def _wrapped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map(" ".join),
        pair.map(lambda t: f"ceildiv({t[0]}, {t[1]})"),
        pair.map(lambda t: f"min({t[0]}, {t[1]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"max({', '.join(t)})"),
        inner.map(lambda t: f"-({t})"),
        inner.map(lambda t: f"({t}) ** 2"),
    )


integers = st.recursive(st.one_of(st.sampled_from(NAMES), st.integers(0, 64).map(str)), _wrapped, max_leaves=8)

_comparisons = st.one_of(
    st.tuples(integers, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), integers).map(" ".join),
    st.tuples(integers, integers, integers).map(lambda t: f"{t[0]} < {t[1]} <= {t[2]}"),
    st.tuples(integers, st.lists(st.integers(0, 64), min_size=1, max_size=3)).map(lambda t: f"{t[0]} in {t[1]}"),
    st.tuples(integers, st.lists(st.integers(0, 64), min_size=1, max_size=3)).map(lambda t: f"{t[0]} not in {t[1]}"),
)
conditions = st.recursive(
    _comparisons,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda t: f"not ({t})"),
    ),
    max_leaves=4,
)

environments = st.fixed_dictionaries({name: st.integers(0, 40) for name in NAMES})


def value(text: str, env: dict[str, int]) -> Any:
    """Python's value of a text made above; None where it divides by zero."""
    try:
        return eval(text, {"__builtins__": {}, "min": min, "max": max, "ceildiv": ceildiv}, env)
    except ZeroDivisionError:
        return None


# -- formulas

INPUTS = ("x", "y")


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


FORMULA_FUNCTIONS: dict[str, Any] = {
    "relu": lambda x: max(x, 0),
    "leaky_relu": lambda x, a: x if x > 0 else a * x,
    "silu": lambda x: x * sigmoid(x),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "quick_gelu": lambda x: x * sigmoid(1.702 * x),
    "hardswish": lambda x: x * min(max(x + 3, 0), 6) / 6,
    "softplus": lambda x: math.log1p(math.exp(x)) if x < 30 else x,
    "sigmoid": sigmoid,
    "tanh": math.tanh,
    "softcap": lambda x, c: c * math.tanh(x / c),
    "exp": math.exp,
    "exp2": lambda x: 2.0**x,
    "log": math.log,
    "log2": math.log2,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "erf": math.erf,
    "abs": abs,
    "min": min,
    "max": max,
    "clamp": lambda x, a, b: min(max(x, a), b),
    "where": lambda c, a, b: a if c else b,
}
_UNARY = [
    name
    for name in FORMULA_FUNCTIONS
    if name not in ("leaky_relu", "softcap", "min", "max", "clamp", "where", "log", "log2", "sqrt", "rsqrt")
]

_numbers = st.one_of(st.integers(0, 4).map(str), st.sampled_from(["0.5", "2.25", "1e-3"]))


def _formula(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map(" ".join),
        st.tuples(st.sampled_from(_UNARY), inner).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(st.sampled_from(["log", "log2", "sqrt", "rsqrt"]), inner).map(lambda t: f"{t[0]}(abs({t[1]}) + 1)"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        inner.map(lambda t: f"clamp({t}, -1.5, D)"),
        inner.map(lambda t: f"softcap({t}, 30.0)"),
        inner.map(lambda t: f"leaky_relu({t}, 0.01)"),
        inner.map(lambda t: f"-({t})"),
        inner.map(lambda t: f"({t}) ** 2"),
        st.tuples(inner, inner, inner).map(lambda t: f"where({t[0]} < {t[1]} or {t[2]} >= 0, {t[1]}, {t[2]})"),
        st.tuples(inner, inner).map(lambda t: f"where(not {t[0]} < {t[1]} and D > 2, {t[1]}, {t[0]})"),
        inner.map(lambda t: f"where(not {t} < 0, D, 0.25)"),
    )


formulas = st.recursive(st.one_of(st.sampled_from((*INPUTS, "D")), _numbers), _formula, max_leaves=6)
real_environments = st.fixed_dictionaries(
    {**{name: st.floats(-4, 4).map(lambda v: round(v, 3)) for name in INPUTS}, "D": st.integers(1, 8)}
)


def real_value(text: str, env: dict[str, Any]) -> float | None:
    """Python's value of a formula text made above; None where it has none or is huge."""
    try:
        result = eval(text, {"__builtins__": {}, **FORMULA_FUNCTIONS}, env)
    except (ZeroDivisionError, OverflowError, ValueError):
        return None
    return float(result) if abs(result) < 1e12 else None
