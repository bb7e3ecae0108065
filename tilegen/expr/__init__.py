"""The expression language of specs: parsing, arithmetic on sizes, values, bounds, and printers.

Spec text is never evaluated: it is parsed by Python's `ast` and walked against a whitelist. sympy is imported when the
first expression that is not a plain number needs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tilegen.expr.arith import (
    Condition,
    Size,
    add,
    all_of,
    any_of,
    at_least,
    at_most,
    ceil_div,
    compare,
    divides,
    equal,
    floor_div,
    greater,
    implies,
    is_symbolic,
    less,
    maximum,
    minimum,
    mod,
    multiply,
    native,
    negate,
)
from tilegen.expr.error import ExprError
from tilegen.expr.evaluate import compile_closure, evaluate, free_names, substitute
from tilegen.expr.interval import Range, bounds, decide, narrowed
from tilegen.expr.parse import nearest, nearest_name, parse_condition, parse_formula, parse_integer
from tilegen.expr.text import to_python, to_text, to_z3

if TYPE_CHECKING:
    from tilegen.expr.formula import evaluate_formula, repeated_terms
    from tilegen.expr.formula_text import formula_to_text, formula_to_tilelang, formula_to_torch
    from tilegen.expr.nodes import CeilDiv, FloorDiv, Max, Min, Mod, real_symbol, symbol

# These stand in modules that import sympy.
_LAZY = {
    "evaluate_formula": "formula",
    "repeated_terms": "formula",
    "formula_to_text": "formula_text",
    "formula_to_tilelang": "formula_text",
    "formula_to_torch": "formula_text",
    "CeilDiv": "nodes",
    "FloorDiv": "nodes",
    "Max": "nodes",
    "Min": "nodes",
    "Mod": "nodes",
    "real_symbol": "nodes",
    "symbol": "nodes",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)


__all__ = [
    "CeilDiv",
    "Condition",
    "ExprError",
    "FloorDiv",
    "Max",
    "Min",
    "Mod",
    "Range",
    "Size",
    "add",
    "all_of",
    "any_of",
    "at_least",
    "at_most",
    "bounds",
    "ceil_div",
    "compare",
    "compile_closure",
    "decide",
    "divides",
    "equal",
    "evaluate",
    "evaluate_formula",
    "floor_div",
    "formula_to_text",
    "formula_to_tilelang",
    "formula_to_torch",
    "free_names",
    "greater",
    "implies",
    "is_symbolic",
    "less",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "narrowed",
    "native",
    "nearest",
    "nearest_name",
    "negate",
    "parse_condition",
    "parse_formula",
    "parse_integer",
    "real_symbol",
    "repeated_terms",
    "substitute",
    "symbol",
    "to_python",
    "to_text",
    "to_z3",
]
