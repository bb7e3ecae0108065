"""Bounds of a formula whatever its inputs are: sound, not tight. What a clamp or a sigmoid keeps in range is seen."""

from __future__ import annotations

import math
from typing import Any

from tilegen.expr.formula import NAMES, Where

Bounds = tuple[float, float]
ANY: Bounds = (-math.inf, math.inf)
LEAST_GATED = -0.375
"""No gated unit is below: the least values are -0.278 (silu), -0.170 (GELU) and -0.375 (hardswish)."""

RANGES: dict[str, Bounds] = {
    "sigmoid": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "erf": (-1.0, 1.0),
    "exp": (0.0, math.inf),
    "exp2": (0.0, math.inf),
    "sqrt": (0.0, math.inf),
    "rsqrt": (0.0, math.inf),
    "softplus": (0.0, math.inf),
}
"""Functions whose values lie in a range of their own."""


def formula_bounds(expr: Any) -> Bounds:
    """The least and the greatest value that the formula may have, its inputs being any real numbers."""
    if expr.is_Number:
        return float(expr), float(expr)
    if expr.is_Symbol:
        return ANY
    if expr.func is Where:
        return _union(formula_bounds(expr.args[1]), formula_bounds(expr.args[2]))
    args = [formula_bounds(arg) for arg in expr.args]
    if expr.is_Add:
        return sum(low for low, _ in args), sum(high for _, high in args)
    if expr.is_Mul:
        return _product(args)
    if expr.is_Pow:
        return _power(args[0], expr.exp)
    return _function(NAMES.get(expr.func, ""), args)


def _union(a: Bounds, b: Bounds) -> Bounds:
    return min(a[0], b[0]), max(a[1], b[1])


def _product(factors: list[Bounds]) -> Bounds:
    low, high = 1.0, 1.0
    for factor in factors:
        # 0 times an infinite bound is 0: the bound is not a value.
        corners = [0.0 if 0.0 in (x, y) else x * y for x in (low, high) for y in factor]
        low, high = min(corners), max(corners)
    return low, high


def _power(base: Bounds, exponent: Any) -> Bounds:
    if not exponent.is_Integer or exponent < 0:
        return (0.0, math.inf) if base[0] >= 0 else ANY
    power = int(exponent)
    ends = [math.inf if math.isinf(x) and (x > 0 or power % 2 == 0) else x**power for x in base]
    if power % 2 == 0 and base[0] < 0 < base[1]:
        ends.append(0.0)
    return min(ends), max(ends)


def _function(name: str, args: list[Bounds]) -> Bounds:
    x = args[0] if args else ANY
    if name in RANGES:
        return RANGES[name]
    if name == "relu":
        return max(x[0], 0.0), max(x[1], 0.0)
    if name == "abs":
        return (0.0 if x[0] <= 0 <= x[1] else min(abs(x[0]), abs(x[1]))), max(abs(x[0]), abs(x[1]))
    if name == "min":
        return min(low for low, _ in args), min(high for _, high in args)
    if name == "max":
        return max(low for low, _ in args), max(high for _, high in args)
    if name == "clamp":
        low, high = args[1], args[2]
        return min(max(x[0], low[0]), high[0]), min(max(x[1], low[1]), high[1])
    if name == "softcap":
        cap = max(abs(args[1][0]), abs(args[1][1]))
        return -cap, cap
    if name in ("silu", "gelu", "gelu_tanh", "quick_gelu", "hardswish"):
        return LEAST_GATED, max(x[1], 0.0)
    return ANY
