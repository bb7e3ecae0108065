"""Kernel specs: TOML to a typed, frozen `Spec`, with a place for every field and diagnostics that show it."""

from tilegen.spec.diagnostic import Diagnostic, Severity, SpecError, render_text, to_json
from tilegen.spec.load import load, load_bytes
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
from tilegen.spec.source import Span

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
    "load",
    "load_bytes",
    "render_text",
    "to_json",
]
