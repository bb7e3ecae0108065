"""The sympy side of the language: symbols, and the functions that sympy lacks or evaluates too slowly.

Everything here is an integer. sympy's own Mod, Min and Max are avoided: each runs a search for simplifications that
costs milliseconds, where a spec has dozens of them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sympy
from sympy.core.sorting import default_sort_key


@cache
def symbol(name: str) -> Any:
    """The integer symbol of that name: integer, nonnegative, one instance a name."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


@cache
def real_symbol(name: str) -> Any:
    """The real symbol of that name, for the inputs of formulas."""
    return sympy.Symbol(name, real=True)


def split_multiples(a: Any, divisor: int) -> tuple[Any, Any]:
    """(q, r) with a == divisor * q + r, where q takes every term whose integer coefficient `divisor` divides."""
    quotient, rest = [], []
    for term in sympy.Add.make_args(a):
        coefficient, factors = term.as_coeff_Mul()
        if coefficient.is_Integer and coefficient.p % divisor == 0:
            quotient.append(sympy.Integer(coefficient.p // divisor) * factors)
        else:
            rest.append(term)
    return sympy.Add(*quotient), sympy.Add(*rest)


class _Division(sympy.Function):  # type: ignore[misc]
    nargs = 2
    is_integer = True

    def _eval_is_nonnegative(self) -> bool | None:
        a, b = self.args
        return True if a.is_nonnegative and b.is_nonnegative else None


class FloorDiv(_Division):
    """a // b, rounded toward minus infinity as in Python."""

    @classmethod
    def eval(cls, a: Any, b: Any) -> Any:
        if not b.is_Integer:
            return sympy.S.Zero if a.is_zero else None
        if b.p == 0:
            raise ZeroDivisionError("division by zero")
        if a.is_Integer:
            return sympy.Integer(a.p // b.p)
        if b.p < 0:
            return cls(-a, -b)
        if b.p == 1:
            return a
        quotient, rest = split_multiples(a, b.p)
        if quotient != 0:
            return quotient + cls(rest, b)
        if isinstance(a, FloorDiv) and a.args[1].is_Integer:
            return cls(a.args[0], a.args[1] * b)
        return None


class CeilDiv(_Division):
    """a / b rounded toward plus infinity."""

    @classmethod
    def eval(cls, a: Any, b: Any) -> Any:
        if not b.is_Integer:
            return sympy.S.Zero if a.is_zero else None
        if b.p == 0:
            raise ZeroDivisionError("division by zero")
        if a.is_Integer:
            return sympy.Integer(-(-a.p // b.p))
        if b.p < 0:
            return cls(-a, -b)
        if b.p == 1:
            return a
        quotient, rest = split_multiples(a, b.p)
        if quotient != 0:
            return quotient + cls(rest, b)
        return None


class Mod(sympy.Function):  # type: ignore[misc]
    """a % b with the sign of b, as in Python."""

    nargs = 2
    is_integer = True

    @classmethod
    def eval(cls, a: Any, b: Any) -> Any:
        if not b.is_Integer:
            return sympy.S.Zero if a.is_zero or a == b else None
        if b.p == 0:
            raise ZeroDivisionError("modulo by zero")
        if a.is_Integer:
            return sympy.Integer(a.p % b.p)
        if abs(b.p) == 1:
            return sympy.S.Zero
        if b.p > 0:
            _, rest = split_multiples(a, b.p)
            if rest != a:
                return cls(rest, b)
        return None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if self.args[1].is_nonnegative else None


class _Extremum(sympy.Function):  # type: ignore[misc]
    is_integer = True

    @classmethod
    def eval(cls, *args: Any) -> Any:
        flat: list[Any] = []
        constants: list[int] = []
        for arg in args:
            for leaf in arg.args if isinstance(arg, cls) else (arg,):
                if leaf.is_Integer:
                    constants.append(leaf.p)
                elif leaf not in flat:
                    flat.append(leaf)
        if constants:
            flat.append(sympy.Integer(cls.pick(constants)))
        if len(flat) == 1:
            return flat[0]
        flat.sort(key=default_sort_key)
        return None if tuple(flat) == args else cls(*flat)

    @staticmethod
    def pick(values: list[int]) -> int:
        raise NotImplementedError


class Min(_Extremum):
    """The least of two or more integers."""

    @staticmethod
    def pick(values: list[int]) -> int:
        return min(values)

    def _eval_is_nonnegative(self) -> bool | None:
        return True if all(a.is_nonnegative for a in self.args) else None


class Max(_Extremum):
    """The greatest of two or more integers."""

    @staticmethod
    def pick(values: list[int]) -> int:
        return max(values)

    def _eval_is_nonnegative(self) -> bool | None:
        return True if any(a.is_nonnegative for a in self.args) else None
