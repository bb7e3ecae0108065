"""Integer expressions of TVM's IR as C text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class UnsupportedError(Exception):
    """A host function that a launcher cannot repeat; the message says what is in the way."""


# Sizes are not negative, so that C's truncated division is the floor.
_INFIX = {
    "Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "/", "FloorMod": "%", "Div": "/", "Mod": "%",
    "LT": "<", "LE": "<=", "GT": ">", "GE": ">=", "EQ": "==", "NE": "!=", "And": "&&", "Or": "||",
}  # fmt: skip
_SHIFTS = {"tirx.shift_right": ">>", "tirx.shift_left": "<<", "tirx.bitwise_and": "&"}
_TYPES = {"int32": "int32_t", "int64": "int64_t", "uint32": "uint32_t", "uint64": "uint64_t", "float32": "float"}


def c_text(expr: Any, names: Mapping[str, str], bound: Mapping[Any, Any]) -> str:
    """``expr`` in C. ``names`` maps the name of a variable to its C name; ``bound`` has the value of one without.

    Raises :class:`UnsupportedError`.
    """

    def text(node: Any) -> str:
        return c_text(node, names, bound)

    if isinstance(expr, int):
        return str(expr)
    kind = type(expr).__name__
    if kind in ("IntImm", "FloatImm"):
        return str(expr.value)
    if kind == "Var":
        return _variable(expr, names, bound)
    if kind == "Cast" and str(expr.dtype) in _TYPES:
        return f"(({_TYPES[str(expr.dtype)]})({text(expr.value)}))"
    if kind in _INFIX:
        return f"({text(expr.a)} {_INFIX[kind]} {text(expr.b)})"
    if kind in ("Min", "Max"):
        left, right = text(expr.a), text(expr.b)
        return f"({left} {'<' if kind == 'Min' else '>'} {right} ? {left} : {right})"
    if kind == "Not":
        return f"(!{text(expr.a)})"
    if kind == "Select":
        return f"({text(expr.condition)} ? {text(expr.true_value)} : {text(expr.false_value)})"
    if kind == "Call" and str(expr.op.name) in _SHIFTS:
        return f"({text(expr.args[0])} {_SHIFTS[str(expr.op.name)]} {text(expr.args[1])})"
    if kind == "Call" and str(expr.op.name) == "tirx.if_then_else":
        return f"({text(expr.args[0])} ? {text(expr.args[1])} : {text(expr.args[2])})"
    raise UnsupportedError(f"the host function computes {str(expr)[:200]!r}, which has no C text here")


def _variable(variable: Any, names: Mapping[str, str], bound: Mapping[Any, Any]) -> str:
    if str(variable.name) in names:
        return names[str(variable.name)]
    if variable in bound:
        return c_text(bound[variable], names, bound)
    raise UnsupportedError(f"the host function uses `{variable.name}`, which is no argument and has no value")
