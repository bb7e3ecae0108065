"""Real-valued formulas: their functions, each known in every form that tilegen needs, and their arithmetic.

A formula is computed as it is written: nothing is reordered or simplified, since in floating point that changes values.
So sums, products and powers are built without sympy's evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sympy

from tilegen.expr.error import ExprError


class _Formula(sympy.Function):  # type: ignore[misc]
    is_real = True


def _node(name: str) -> Any:
    """A sympy function class of that name, which is also an attribute of this module so that formulas pickle."""
    globals()[name] = type(name, (_Formula,), {"__module__": __name__})
    return globals()[name]


@dataclass(frozen=True)
class FormulaFunction:
    """One function of the language: its sympy class, its number of arguments, and its value as a Python float."""

    node: Any
    value: Callable[..., float]
    doc: str
    least: int = 1
    most: int = 1


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + _exp(-x)) if x >= 0 else _exp(x) / (1.0 + _exp(x))


def _gelu_tanh(x: float) -> float:
    return 0.5 * x * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


def _clamp(x: float, low: float, high: float) -> float:
    return min(max(x, low), high)


FUNCTIONS: dict[str, FormulaFunction] = {
    "relu": FormulaFunction(_node("Relu"), lambda x: max(x, 0.0), "max(x, 0)"),
    "leaky_relu": FormulaFunction(
        _node("LeakyRelu"),
        lambda x, a: x if x > 0 else a * x,
        "x where x > 0, else slope * x: leaky_relu(x, slope)",
        2,
        2,
    ),
    "silu": FormulaFunction(_node("Silu"), lambda x: x * _sigmoid(x), "x * sigmoid(x)"),
    "gelu": FormulaFunction(
        _node("Gelu"), lambda x: 0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0))), "GELU by the error function"
    ),
    "gelu_tanh": FormulaFunction(_node("GeluTanh"), _gelu_tanh, "GELU by its tanh approximation"),
    "quick_gelu": FormulaFunction(_node("QuickGelu"), lambda x: x * _sigmoid(1.702 * x), "x * sigmoid(1.702 * x)"),
    "hardswish": FormulaFunction(
        _node("Hardswish"), lambda x: x * _clamp(x + 3.0, 0.0, 6.0) / 6.0, "x * clamp(x + 3, 0, 6) / 6"
    ),
    "softplus": FormulaFunction(
        _node("Softplus"), lambda x: max(x, 0.0) + math.log1p(_exp(-abs(x))), "log(1 + exp(x)), without overflow"
    ),
    "sigmoid": FormulaFunction(_node("Sigmoid"), _sigmoid, "1 / (1 + exp(-x))"),
    "tanh": FormulaFunction(_node("Tanh"), math.tanh, "hyperbolic tangent"),
    "softcap": FormulaFunction(
        _node("Softcap"), lambda x, c: c * math.tanh(x / c), "cap * tanh(x / cap): softcap(x, cap)", 2, 2
    ),
    "exp": FormulaFunction(_node("Exp"), _exp, "e to the x"),
    "exp2": FormulaFunction(_node("Exp2"), lambda x: _exp(x * math.log(2.0)), "2 to the x"),
    "log": FormulaFunction(_node("Log"), lambda x: math.log(x), "natural logarithm"),
    "log2": FormulaFunction(_node("Log2"), lambda x: math.log2(x), "logarithm to base 2"),
    "sqrt": FormulaFunction(_node("Sqrt"), math.sqrt, "square root"),
    "rsqrt": FormulaFunction(_node("Rsqrt"), lambda x: 1.0 / math.sqrt(x), "1 / sqrt(x)"),
    "erf": FormulaFunction(_node("Erf"), math.erf, "error function"),
    "abs": FormulaFunction(_node("Abs"), abs, "absolute value"),
    "min": FormulaFunction(_node("FormulaMin"), min, "the least of its arguments", 2, 16),
    "max": FormulaFunction(_node("FormulaMax"), max, "the greatest of its arguments", 2, 16),
    "clamp": FormulaFunction(_node("Clamp"), _clamp, "min(max(x, low), high): clamp(x, low, high)", 3, 3),
}
NAMES: dict[Any, str] = {f.node: name for name, f in FUNCTIONS.items()}

Where = _node("Where")


def where(condition: Any, then: Any, otherwise: Any) -> Any:
    """`then` where the condition holds, else `otherwise`; a constant condition picks its side."""
    if isinstance(condition, bool):
        return then if condition else otherwise
    return Where(condition, then, otherwise)


def compare(op: str, a: Any, b: Any) -> Any:
    """The comparison as a sympy relational, native when both sides are numbers."""
    if a.is_Number and b.is_Number:
        return bool(sympy.Rel(a, b, op))
    return sympy.Rel(a, b, op, evaluate=False)


def negative(x: Any) -> Any:
    """-x."""
    return -x if x.is_Number else sympy.Mul(sympy.S.NegativeOne, x, evaluate=False)


def _add(a: Any, b: Any) -> Any:
    return sympy.Add(*(a.args if a.is_Add else (a,)), b, evaluate=False)


def _subtract(a: Any, b: Any) -> Any:
    return _add(a, negative(b))


def _multiply(a: Any, b: Any) -> Any:
    return sympy.Mul(*(a.args if a.is_Mul else (a,)), b, evaluate=False)


def _divide(a: Any, b: Any) -> Any:
    if b.is_zero:
        return sympy.zoo
    return _multiply(a, sympy.Pow(b, sympy.S.NegativeOne, evaluate=False))


def _power(a: Any, b: Any) -> Any:
    return sympy.Pow(a, b, evaluate=False)


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": _add,
    "Sub": _subtract,
    "Mult": _multiply,
    "Div": _divide,
    "Pow": _power,
}


def replace(expr: Any, values: Mapping[Any, Any]) -> Any:
    """The formula with subexpressions replaced, nothing else touched (sympy's xreplace would re-evaluate)."""
    if expr in values:
        return values[expr]
    if not expr.args:
        return expr
    args = [replace(a, values) for a in expr.args]
    if all(a is b for a, b in zip(args, expr.args, strict=True)):
        return expr
    if expr.is_Add or expr.is_Mul or expr.is_Pow or expr.is_Relational:
        return expr.func(*args, evaluate=False)
    return expr.func(*args)


def evaluate_formula(expr: Any, env: Mapping[str, float]) -> float:
    """The value in float64. Raises ExprError where the formula has none (division by zero, log of a negative)."""
    try:
        value = _value(expr, env)
    except (ZeroDivisionError, ValueError, OverflowError) as e:
        raise ExprError(f"the formula has no value here: {e}", 0, 0) from None
    if isinstance(value, complex):
        raise ExprError("the formula has no real value here", 0, 0)
    return float(value)


def _value(e: Any, env: Mapping[str, float]) -> Any:
    if e.is_Symbol:
        return env[e.name]
    if e.is_Number:
        return int(e) if e.is_Integer else float(e)
    if e.is_Boolean or e.is_Relational:
        return _holds(e, env)
    if isinstance(e, Where):
        condition, then, otherwise = e.args
        return _value(then if _holds(condition, env) else otherwise, env)
    args = [_value(a, env) for a in e.args]
    if e.is_Add:
        return sum(args)
    if e.is_Mul:
        return math.prod(args)
    if e.is_Pow:
        return float(args[0]) ** args[1]
    return FUNCTIONS[NAMES[e.func]].value(*args)


def _holds(e: Any, env: Mapping[str, float]) -> bool:
    if e.is_Relational:
        from tilegen.expr.arith import COMPARISONS

        return COMPARISONS[e.rel_op](_value(e.lhs, env), _value(e.rhs, env))
    parts = [_holds(a, env) for a in e.args]
    if isinstance(e, sympy.Not):
        return not parts[0]
    return all(parts) if isinstance(e, sympy.And) else any(parts)


def repeated_terms(expr: Any, *, prefix: str = "v", taken: Collection[str] = ()) -> tuple[list[tuple[str, Any]], Any]:
    """The arguments that TileLang source would repeat, as `(name, expr)` bindings, and the formula over them.

    silu(x * rstd) prints as v / (1 + exp(-v)), so an expert binds `v = x * rstd` first. A binding may use earlier ones.
    """
    bindings: list[tuple[str, Any]] = []
    known: dict[Any, Any] = {}

    def visit(e: Any) -> Any:
        if not e.args:
            return e
        args = tuple(visit(a) for a in e.args)
        if _writes_twice(e) and args[0].args:
            args = (bind(args[0]), *args[1:])
        return e if args == e.args else replace(e, dict(zip(e.args, args, strict=True)))

    def bind(e: Any) -> Any:
        if e not in known:
            name = prefix if not bindings and prefix not in taken else f"{prefix}{len(bindings)}"
            while name in taken:
                name += "_"
            known[e] = sympy.Symbol(name, real=True)
            bindings.append((name, e))
        return known[e]

    return bindings, visit(expr)


def _writes_twice(e: Any) -> bool:
    if e.is_Pow:
        return bool(e.exp.is_Integer and 2 <= int(e.exp) <= MAX_PRODUCT) and not e.is_integer
    return NAMES.get(e.func) in _WRITES_TWICE


# The largest power that is written as a product.
MAX_PRODUCT = 4

# Functions whose TileLang form holds the first argument more than once.
_WRITES_TWICE = frozenset({"leaky_relu", "silu", "gelu", "gelu_tanh", "quick_gelu", "hardswish", "softplus"})
