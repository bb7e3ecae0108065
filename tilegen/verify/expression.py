"""Expressions of TVM's IR as Python text."""

from typing import Any

from tilegen.verify.extent import Extent


def extent_of(value: Any) -> Extent:
    """A size, simplified: an integer where it is known, else an expression."""
    if isinstance(value, int):
        return value
    from tvm.arith import Analyzer

    simple = Analyzer().simplify(value)
    number = getattr(simple, "value", None)
    return int(number) if isinstance(number, int) else text_of(simple)


def plain_of(value: Any) -> str:
    """A constant without quotes, anything else as `text_of` prints it."""
    known = getattr(value, "value", value)
    return str(known) if isinstance(known, str | int | float | bool) else text_of(value)


_INFIX = {
    "Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "FloorMod": "%", "Div": "/", "Mod": "%",
    "LT": "<", "LE": "<=", "GT": ">", "GE": ">=", "EQ": "==", "NE": "!=", "And": "and", "Or": "or",
}  # fmt: skip
_TRUNCATED = {"Div": "//"}


def text_of(expr: Any) -> str:
    """An expression of the IR as one of Python. Casts are dropped: they change the width of an index, not its value."""
    kind = type(expr).__name__
    if kind in _INFIX:
        symbol = _TRUNCATED[kind] if kind in _TRUNCATED and "float" not in str(expr.dtype) else _INFIX[kind]
        return f"({text_of(expr.a)} {symbol} {text_of(expr.b)})"
    if kind in ("Min", "Max"):
        return f"{kind.lower()}({text_of(expr.a)}, {text_of(expr.b)})"
    if kind in ("IntImm", "FloatImm", "StringImm"):
        return str(expr.value)
    if kind == "Var":
        return str(expr.name)
    if kind == "Cast":
        return text_of(expr.value)
    if kind == "Not":
        return f"(not {text_of(expr.a)})"
    if kind == "Select":
        return f"({text_of(expr.true_value)} if {text_of(expr.condition)} else {text_of(expr.false_value)})"
    if kind in ("BufferLoad", "ProducerLoad"):
        return f"{expr.buffer.name}[{', '.join(text_of(i) for i in expr.indices)}]"
    if kind == "Ramp":
        return f"{text_of(expr.base)}:+{plain_of(expr.lanes)}"
    if kind == "Call":
        return _call_text(expr)
    return " ".join(str(expr).split())


def _call_text(call: Any) -> str:
    name = str(call.op.name).rsplit(".", 1)[-1]
    args = [text_of(a) for a in call.args]
    if name == "if_then_else":
        return f"({args[1]} if {args[0]} else {args[2]})"
    return f"{name}({', '.join(args)})"
