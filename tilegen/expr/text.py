"""Integer expressions and conditions as text: the spec's own language, Python, and z3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilegen.expr import arith
from tilegen.expr.arith import Condition, Size
from tilegen.expr.parse import MAX_EXPONENT

# Binding strength, as in Python.
OR, AND, NOT, COMPARE, SUM, PRODUCT, UNARY, POWER, ATOM = range(9)


def to_text(expr: Size | Condition) -> str:
    """The expression in the language of specs; parsing it again gives an equal one."""
    return _Printer(python=False).text(expr, OR)


def to_python(expr: Size | Condition) -> str:
    """The expression as Python over ints, with min, max and // only."""
    return _Printer(python=True).text(expr, OR)


class _Printer:
    def __init__(self, python: bool) -> None:
        self.python = python

    def text(self, e: Any, least: int) -> str:
        """`e`, in brackets if it binds less tightly than `least`."""
        text, strength = self.print(arith.native(e))
        return text if strength >= least else f"({text})"

    def print(self, e: Any) -> tuple[str, int]:
        if isinstance(e, bool):
            # The language has no constants for truth; these parse.
            return (str(e), ATOM) if self.python else ("0 == 0" if e else "0 == 1", COMPARE)
        if isinstance(e, int):
            return str(e), (ATOM if e >= 0 else UNARY)
        if e.is_Symbol:
            return e.name, ATOM
        if e.is_Relational:
            return f"{self.text(e.lhs, SUM)} {e.rel_op} {self.text(e.rhs, SUM)}", COMPARE
        if e.is_Pow:
            return self._power(e)
        kind = type(e).__name__
        return getattr(self, f"_{kind.lower()}")(e)  # type: ignore[no-any-return]

    def _power(self, e: Any) -> tuple[str, int]:
        base, exponent = self.text(e.base, ATOM), int(e.exp)
        if exponent <= MAX_EXPONENT:
            return f"{base} ** {exponent}", POWER
        # Powers multiply where they are nested; the language has small exponents only.
        whole, rest = divmod(exponent, MAX_EXPONENT)
        factors = [f"{base} ** {MAX_EXPONENT}"] * whole + [f"{base} ** {rest}"] * (rest > 0)
        return " * ".join(factors), PRODUCT

    def _add(self, e: Any) -> tuple[str, int]:
        terms = sorted(e.args, key=lambda t: (bool(t.is_Number), bool(t.could_extract_minus_sign())))
        text = self.text(terms[0], SUM)
        for term in terms[1:]:
            if term.could_extract_minus_sign():
                text += f" - {self.text(-term, PRODUCT)}"
            else:
                text += f" + {self.text(term, PRODUCT)}"
        return text, SUM

    def _mul(self, e: Any) -> tuple[str, int]:
        coefficient, rest = e.as_coeff_Mul()
        factors = list(rest.args) if rest.is_Mul else [rest]
        if coefficient == -1:
            head, *tail = factors
            text = f"-{self.text(head, POWER)}"
            return " * ".join([text, *(self.text(f, UNARY) for f in tail)]), PRODUCT if tail else UNARY
        if coefficient != 1:
            factors.insert(0, coefficient)
        head, *tail = factors
        return " * ".join([self.text(head, PRODUCT), *(self.text(f, UNARY) for f in tail)]), PRODUCT

    def _floordiv(self, e: Any) -> tuple[str, int]:
        return f"{self.text(e.args[0], PRODUCT)} // {self.text(e.args[1], UNARY)}", PRODUCT

    def _mod(self, e: Any) -> tuple[str, int]:
        return f"{self.text(e.args[0], PRODUCT)} % {self.text(e.args[1], UNARY)}", PRODUCT

    def _ceildiv(self, e: Any) -> tuple[str, int]:
        a, b = e.args
        if self.python:
            return f"-(-{self.text(a, POWER)} // {self.text(b, UNARY)})", UNARY
        return f"ceildiv({self.text(a, SUM)}, {self.text(b, SUM)})", ATOM

    def _min(self, e: Any) -> tuple[str, int]:
        return f"min({', '.join(self.text(a, SUM) for a in e.args)})", ATOM

    def _max(self, e: Any) -> tuple[str, int]:
        return f"max({', '.join(self.text(a, SUM) for a in e.args)})", ATOM

    def _and(self, e: Any) -> tuple[str, int]:
        return " and ".join(self.text(a, NOT) for a in _guards_first(e.args)), AND

    def _or(self, e: Any) -> tuple[str, int]:
        return _membership(e) or (" or ".join(self.text(a, AND) for a in _guards_first(e.args)), OR)

    def _not(self, e: Any) -> tuple[str, int]:
        return f"not {self.text(e.args[0], NOT)}", NOT


def _guards_first(args: Any) -> list[Any]:
    """The parts of a connective with those last that may divide by zero: Python stops at the part that settles it."""
    from tilegen.expr.nodes import CeilDiv, FloorDiv, Mod

    return sorted(args, key=lambda a: any(not d.args[1].is_Integer for d in a.atoms(Mod, FloorDiv, CeilDiv)))


def _membership(e: Any) -> tuple[str, int] | None:
    """`C in (96, 192)` for a disjunction of equalities of one name with constants."""
    values = []
    for arg in e.args:
        if arg.rel_op != "==" if arg.is_Relational else True:
            return None
        if arg.lhs != e.args[0].lhs or not arg.lhs.is_Symbol or not arg.rhs.is_Integer:
            return None
        values.append(int(arg.rhs))
    return f"{e.args[0].lhs.name} in ({', '.join(map(str, sorted(values)))})", COMPARE


def to_z3(expr: Size | Condition, names: Mapping[str, Any]) -> Any:
    """The expression over the z3 terms of `names`; Python's rounding. A divisor of 0 must be excluded by the caller."""
    import z3

    return _to_z3(arith.native(expr), names, z3)


def _to_z3(e: Any, names: Mapping[str, Any], z3: Any) -> Any:
    if isinstance(e, bool):
        return z3.BoolVal(e)
    if isinstance(e, int):
        return z3.IntVal(e)
    if e.is_Symbol:
        return names[e.name]
    args = [_to_z3(arith.native(a), names, z3) for a in e.args]
    if e.is_Relational:
        return _z3_compare(e.rel_op, *args)
    kind = type(e).__name__
    if kind == "Add":
        return z3.Sum(args)
    if kind in ("Mul", "Pow"):
        factors = args if kind == "Mul" else [args[0]] * int(e.exp)
        return z3.Product(factors)
    if kind in ("Min", "Max"):
        result = args[0]
        for arg in args[1:]:
            result = z3.If(result <= arg if kind == "Min" else result >= arg, result, arg)
        return result
    if kind in ("And", "Or", "Not"):
        return {"And": z3.And, "Or": z3.Or, "Not": z3.Not}[kind](*args)
    a, b = args
    if kind == "FloorDiv":
        return _z3_floor(a, b, e.args[1], z3)
    if kind == "CeilDiv":
        return -_z3_floor(-a, b, e.args[1], z3)
    return a - b * _z3_floor(a, b, e.args[1], z3) if not e.args[1].is_nonnegative else a % b


def _z3_compare(op: str, a: Any, b: Any) -> Any:
    """The comparison of two z3 terms."""
    return {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]


def _z3_floor(a: Any, b: Any, divisor: Any, z3: Any) -> Any:
    """z3's `div` leaves a remainder >= 0, which is Python's floor only for a positive divisor."""
    if divisor.is_nonnegative:
        return a / b
    return z3.If(b > 0, a / b, (-a) / (-b))
