"""Claims that have no formula: a predicate of ``tilegen.lowering`` over sizes that may depend on dims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilegen.expr import Size, compile_closure, free_names, is_symbolic, to_text


@dataclass(frozen=True)
class Pointwise:
    """``predicate(*args)`` for every point of the domain. Provable by enumeration alone."""

    predicate: Callable[..., bool]
    args: tuple[Size, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset().union(*(free_names(arg) for arg in self.args))

    def compiled(self, names: tuple[str, ...]) -> Callable[[tuple[int, ...]], bool]:
        """The claim as a function of the values of ``names``, in their order."""
        predicate, arguments = self.predicate, [compile_closure(arg, names) for arg in self.args]
        return lambda point: bool(predicate(*(argument(point) for argument in arguments)))


def pointwise(predicate: Callable[..., bool], *args: Size) -> Any:
    """A bool where every argument is a number, else a :class:`Pointwise` claim."""
    for arg in args:
        if not isinstance(arg, int):
            return Pointwise(predicate, args)
    return bool(predicate(*args))


def text_at(size: Size, values: Mapping[str, int]) -> str:
    """``size`` at a counterexample, as text."""
    return to_text(value_at(size, values))


def value_at(size: Size, values: Mapping[str, int]) -> Size:
    """``size`` at a counterexample; names that the counterexample leaves open stay."""
    from tilegen.expr import substitute

    found: Size = substitute(size, values)
    return found


def divisors(expression: Any) -> list[Any]:
    """The divisors in an expression that are not plain numbers, innermost first."""
    if not is_symbolic(expression):
        return []
    found = [divisor for part in expression.args for divisor in divisors(part)]
    if type(expression).__name__ in ("FloorDiv", "CeilDiv", "Mod") and not expression.args[1].is_Integer:
        found.append(expression.args[1])
    return found
