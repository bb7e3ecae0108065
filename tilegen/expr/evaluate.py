"""Values of expressions: once (`evaluate`), many times (`compile_closure`), in part (`substitute`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from tilegen.expr import arith
from tilegen.expr.arith import Condition, Size


def evaluate(expr: Size | Condition, env: Mapping[str, int]) -> int | bool:
    """The value where names have the values in `env`. KeyError for a missing name; ZeroDivisionError as in Python."""
    if isinstance(expr, int):
        return expr
    names, value_at = _compiled(expr)
    if names <= env.keys():
        return value_at(env)  # type: ignore[no-any-return]
    value = substitute(expr, env)  # what a missing name does not matter to has a value all the same
    if not isinstance(value, int):
        raise KeyError(", ".join(sorted(free_names(value))))
    return value


def substitute(expr: Size | Condition, env: Mapping[str, Size]) -> Any:
    """The expression with names replaced by sizes, folded as far as it goes."""
    if isinstance(expr, int):
        return expr
    return _substitute(expr, env)


def free_names(expr: Any) -> frozenset[str]:
    """The names that the expression or formula mentions."""
    return frozenset() if isinstance(expr, (int, str)) else _free_names(expr)


@lru_cache(maxsize=8192)
def _free_names(expr: Any) -> frozenset[str]:
    return frozenset(s.name for s in expr.free_symbols)


def _substitute(e: Any, env: Mapping[str, Size]) -> Any:
    if e.is_Symbol:
        return env.get(e.name, e)
    if not e.args:
        return arith.native(e)
    if e.is_Relational:
        return arith.compare(e.rel_op, _substitute(e.lhs, env), _substitute(e.rhs, env))
    if e.is_Pow:
        return arith.native(_substitute(e.base, env) ** arith.native(e.exp))
    kind = type(e).__name__
    if kind in _CONNECTIVES:
        return _connective(kind, e.args, env)
    args = [_substitute(a, env) for a in e.args]
    return _OPERATIONS[kind](*args)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "Add": arith.add,
    "Mul": arith.multiply,
    "FloorDiv": arith.floor_div,
    "CeilDiv": arith.ceil_div,
    "Mod": arith.mod,
    "Min": arith.minimum,
    "Max": arith.maximum,
    "Not": arith.negate,
}

_CONNECTIVES: dict[str, Callable[..., Any]] = {"And": arith.all_of, "Or": arith.any_of}


def _connective(kind: str, args: Any, env: Mapping[str, Size]) -> Any:
    """`and` and `or` have no order here: a part that divides by zero does not matter where another part settles it."""
    parts: list[Any] = []
    undefined: ZeroDivisionError | None = None
    for arg in args:
        try:
            parts.append(_substitute(arg, env))
        except ZeroDivisionError as e:
            undefined = e
    result = _CONNECTIVES[kind](*parts)
    if undefined is not None and result is not (kind == "Or"):
        raise undefined
    return result


Closure = Callable[[Any], Any]
"""A function of values that are looked up by position, or by name."""


@lru_cache(maxsize=8192)
def _compiled(expr: Any) -> tuple[frozenset[str], Closure]:
    """The names of an expression, and its value as a function of what they stand for."""
    names = free_names(expr)
    return names, _closure(expr, {name: name for name in names})


def compile_closure(expr: Size | Condition, names: Collection[str]) -> Callable[[Sequence[int]], Any]:
    """A function from values in the order of `names` to the value of `expr`: nested closures, for enumerating a domain.

    KeyError if the expression mentions another name.
    """
    if isinstance(expr, int):
        return lambda _: expr
    return _closure(expr, {name: i for i, name in enumerate(names)})


def _closure(e: Any, index: Mapping[str, Any]) -> Closure:
    if e.is_Symbol:
        i = index[e.name]
        return lambda v: v[i]
    if not e.args:
        constant = arith.native(e)
        return lambda _: constant
    if e.is_Relational:
        return _relation(e.rel_op, _closure(e.lhs, index), _closure(e.rhs, index))
    if e.is_Pow:
        base, exponent = _closure(e.base, index), int(e.exp)
        return lambda v: base(v) ** exponent
    kind = type(e).__name__
    args = [_closure(a, index) for a in e.args]
    if kind == "Not":
        inner = args[0]
        return lambda v: not inner(v)
    if len(args) == 2:
        return _PAIRS[kind](args[0], args[1])
    return _MANY[kind](args)


def _relation(op: str, a: Closure, b: Closure) -> Closure:
    relations: dict[str, Closure] = {
        "==": lambda v: a(v) == b(v),
        "!=": lambda v: a(v) != b(v),
        "<": lambda v: a(v) < b(v),
        "<=": lambda v: a(v) <= b(v),
        ">": lambda v: a(v) > b(v),
        ">=": lambda v: a(v) >= b(v),
    }
    return relations[op]


_PAIRS: dict[str, Callable[[Closure, Closure], Closure]] = {
    "Add": lambda a, b: lambda v: a(v) + b(v),
    "Mul": lambda a, b: lambda v: a(v) * b(v),
    "FloorDiv": lambda a, b: lambda v: a(v) // b(v),
    "CeilDiv": lambda a, b: lambda v: -(-a(v) // b(v)),
    "Mod": lambda a, b: lambda v: a(v) % b(v),
    "Min": lambda a, b: lambda v: min(a(v), b(v)),
    "Max": lambda a, b: lambda v: max(a(v), b(v)),
    "And": lambda a, b: _joined([a, b], settles=False),
    "Or": lambda a, b: _joined([a, b], settles=True),
}


def _joined(args: list[Closure], settles: bool) -> Closure:
    """`and` (settled by False) or `or` (settled by True), without order, as in `_connective`."""

    def joined(v: Sequence[int]) -> bool:
        undefined: ZeroDivisionError | None = None
        for a in args:
            try:
                if a(v) is settles:
                    return bool(settles)
            except ZeroDivisionError as error:
                undefined = error
        if undefined is not None:
            raise undefined
        return not settles

    return joined


def _product(args: list[Closure]) -> Closure:
    def product(v: Sequence[int]) -> int:
        result = 1
        for a in args:
            result *= a(v)
        return result

    return product


_MANY: dict[str, Callable[[list[Closure]], Closure]] = {
    "Add": lambda args: lambda v: sum(a(v) for a in args),
    "Mul": _product,
    "Min": lambda args: lambda v: min(a(v) for a in args),
    "Max": lambda args: lambda v: max(a(v) for a in args),
    "And": lambda args: _joined(args, settles=False),
    "Or": lambda args: _joined(args, settles=True),
}
