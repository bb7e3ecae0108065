"""Kernel specs: TOML to a typed, frozen `Spec`, with a place for every field and diagnostics that show it.

Diagnostics and places import nothing heavy; what reads a spec brings sympy, and is imported when it is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tilegen.spec.diagnostic import Diagnostic, Severity, SpecError, from_json, render_text, to_json
from tilegen.spec.source import Span

if TYPE_CHECKING:
    from tilegen.spec.loading import load, load_bytes
    from tilegen.spec.model import (
        Allow,
        Dim,
        GoldenCase,
        Prefer,
        Scalar,
        Spec,
        Swizzle,
        Target,
        Tensor,
        TileRule,
        TileValue,
        Tolerance,
    )


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "loading" if name in ("load", "load_bytes") else "model"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


__all__ = [
    "Allow",
    "Diagnostic",
    "Dim",
    "GoldenCase",
    "Prefer",
    "Scalar",
    "Severity",
    "Span",
    "Spec",
    "SpecError",
    "Swizzle",
    "Target",
    "Tensor",
    "TileRule",
    "TileValue",
    "Tolerance",
    "from_json",
    "load",
    "load_bytes",
    "render_text",
    "to_json",
]
