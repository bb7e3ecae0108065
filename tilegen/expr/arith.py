"""Integer arithmetic and logic on sizes: native ints stay native and never import sympy, the rest becomes sympy.

A size is `int | sympy.Expr`, a condition `bool | sympy Boolean`; no function here returns sympy.Integer or BooleanTrue.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import sympy
    from sympy.logic.boolalg import Boolean

    Size: TypeAlias = int | sympy.Expr
    Condition: TypeAlias = bool | Boolean
else:
    # Types for readers and checkers; at run time sympy may not be imported yet.
    Size = Any
    Condition = Any

COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def is_symbolic(value: Any) -> bool:
    """Whether a value is an expression or condition of sympy's, not a plain number, bool or word."""
    # An attribute of the class: to ask for `free_symbols` gathers them, over the whole expression each time.
    return hasattr(value, "is_Symbol")


def native(value: Any) -> Any:
    """sympy constants as Python ints and bools; everything else as it is."""
    if isinstance(value, (int, bool)):
        return value
    if value.is_Integer:
        return int(value)
    return bool(value) if value.is_Boolean and value.is_Atom and not value.is_Symbol else value


def floor_div(a: Size, b: Size) -> Size:
    """a // b; ZeroDivisionError if b is the constant 0."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return _node("FloorDiv", a, b)


def mod(a: Size, b: Size) -> Size:
    """a % b with the sign of b; ZeroDivisionError if b is the constant 0."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    return _node("Mod", a, b)


def ceil_div(a: Size, b: Size) -> Size:
    """a / b rounded up; ZeroDivisionError if b is the constant 0."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    return _node("CeilDiv", a, b)


def minimum(*args: Size) -> Size:
    """The least of the arguments."""
    if all(isinstance(a, int) for a in args):
        return min(args)
    return _node("Min", *args)


def maximum(*args: Size) -> Size:
    """The greatest of the arguments."""
    if all(isinstance(a, int) for a in args):
        return max(args)
    return _node("Max", *args)


def add(*args: Size) -> Size:
    """The sum of the arguments; 0 of none."""
    for arg in args:
        if not isinstance(arg, int):
            return _sum(args)
    return sum(args)


def multiply(*args: Size) -> Size:
    """The product of the arguments; 1 of none."""
    for arg in args:
        if not isinstance(arg, int):
            return _product(args)
    return math.prod(args)


@lru_cache(maxsize=8192)
def _node(kind: str, *args: Size) -> Size:
    """A function of :mod:`tilegen.expr.nodes`. Plans of several dtypes and chips build the same ones."""
    from tilegen.expr import nodes

    return native(getattr(nodes, kind)(*args))


@lru_cache(maxsize=8192)
def _sum(args: tuple[Size, ...]) -> Size:
    return native(sum(args, 0))


@lru_cache(maxsize=8192)
def _product(args: tuple[Size, ...]) -> Size:
    product: Size = 1
    for arg in args:
        product = product * arg
    return native(product)


def compare(op: str, a: Size, b: Size) -> Condition:
    """`a op b` for `==`, `!=`, `<`, `<=`, `>`, `>=`; a native bool when the difference is a constant."""
    if isinstance(a, int) and isinstance(b, int):
        return COMPARISONS[op](a, b)
    return _relation(op, a, b)


@lru_cache(maxsize=8192)
def _relation(op: str, a: Size, b: Size) -> Condition:
    import sympy

    difference: Any = a - b
    if difference.is_Integer:
        return COMPARISONS[op](int(difference), 0)
    # evaluate=False: sympy's own evaluation searches for long and may rewrite what the spec says.
    return sympy.Rel(sympy.sympify(a, strict=True), sympy.sympify(b, strict=True), op, evaluate=False)


def equal(a: Size, b: Size) -> Condition:
    """a == b."""
    return compare("==", a, b)


def at_most(a: Size, b: Size) -> Condition:
    """a <= b."""
    return compare("<=", a, b)


def at_least(a: Size, b: Size) -> Condition:
    """a >= b."""
    return compare(">=", a, b)


def less(a: Size, b: Size) -> Condition:
    """a < b."""
    return compare("<", a, b)


def greater(a: Size, b: Size) -> Condition:
    """a > b."""
    return compare(">", a, b)


def divides(divisor: Size, a: Size) -> Condition:
    """a % divisor == 0."""
    return equal(mod(a, divisor), 0)


def all_of(*args: Condition) -> Condition:
    """Every argument holds; True of none."""
    return _connect(args, neutral=True)


def any_of(*args: Condition) -> Condition:
    """Some argument holds; False of none."""
    return _connect(args, neutral=False)


def _connect(args: Iterable[Condition], neutral: bool) -> Condition:
    kind = "And" if neutral else "Or"
    open_args: dict[Any, None] = {}
    for arg in args:
        arg = native(arg)
        if isinstance(arg, bool):
            if arg is not neutral:
                return not neutral
            continue
        # Flattened first: sympy looks for contradictions only among the arguments that it is given.
        for part in arg.args if type(arg).__name__ == kind else (arg,):
            open_args[part] = None
    if not open_args:
        return neutral
    if len(open_args) == 1:
        return next(iter(open_args))
    return _joined(kind, tuple(open_args))


@lru_cache(maxsize=8192)
def _joined(kind: str, args: tuple[Any, ...]) -> Condition:
    """sympy's And or Or, which sorts its arguments at length each time."""
    import sympy

    return native(getattr(sympy, kind)(*args))


def negate(x: Condition) -> Condition:
    """x does not hold."""
    x = native(x)
    if isinstance(x, bool):
        return not x
    import sympy

    if x.is_Relational:
        return x.negated
    return native(x.args[0] if isinstance(x, sympy.Not) else sympy.Not(x))


def implies(a: Condition, b: Condition) -> Condition:
    """b holds wherever a holds."""
    return any_of(negate(a), b)
