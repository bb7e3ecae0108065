"""What the torch module of a kernel learns: which inputs are parameters, and where they start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def class_name(kernel: str) -> str:
    """``RmsSilu`` for ``rms_silu``."""
    return "".join(word.capitalize() for word in kernel.split("_"))


def start_values(formula: Any, names: Iterable[str], signal: str) -> dict[str, str]:
    """For each parameter of a formula the torch function of its first values: those that leave ``signal`` as it is.

    A factor starts as ones: with zeros nothing of the signal would be left. A summand, and a factor that is written
    1 + w, start as zeros.
    """
    symbols = {symbol.name: symbol for symbol in formula.free_symbols}
    found = {}
    for name in names:
        without = formula.subs(symbols[name], 0) if name in symbols else formula
        kept = signal in {symbol.name for symbol in without.free_symbols}
        found[name] = "zeros" if kept else "ones"
    return found
