"""Arithmetic of float32 with a rounding mode: ``rn`` to nearest, ``rz`` toward zero, ``ru`` up, ``rd`` down.

The nearest result is found first, then moved by one step where it lies on the wrong side of the exact one. The side is exact:
a product of two float32 is exact in float64, and a sum in float64 leaves a remainder that float64 holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilegen.interp.number_formats import Array

Residual = Callable[..., Array]


def _sum_side(x: Array, y: Array, rounded: Array) -> Array:
    """The sign of ``x + y - rounded`` for float64 operands: the sum and its remainder (Knuth's two-sum)."""
    total = x + y
    part = total - x
    remainder = (x - (total - part)) + (y - part)
    side: Array = np.sign(np.where(total != rounded, total - rounded, remainder))
    return side


#: For each operation, the sign of the exact result less the rounded one (the operands are float64).
_SIDES: dict[str, Residual] = {
    "ieee_add": lambda r, x, y: _sum_side(x, y, r),
    "ieee_sub": lambda r, x, y: _sum_side(x, -y, r),
    "ieee_mul": lambda r, x, y: np.sign(x * y - r),
    "ieee_fmaf": lambda r, x, y, z: _sum_side(x * y, z, r),
    "ieee_fdiv": lambda r, x, y: np.sign(x - r * y) * np.sign(y),
    "ieee_frcp": lambda r, x: np.sign(1 - r * x) * np.sign(x),
    "ieee_fsqrt": lambda r, x: np.sign(x - r * r),
}
MODES = ("rn", "rz", "ru", "rd")


def can_round(name: str, dtype: str, mode: str) -> bool:
    """Whether the operation ``name`` is modelled in ``dtype`` with a rounding mode."""
    return mode == "rn" or (mode in MODES and dtype == "float32" and name in _SIDES)


def rounded(name: str, mode: str, nearest: Callable[..., Any]) -> Callable[..., Any]:
    """The float32 operation ``name`` in a rounding mode; ``nearest`` computes it to nearest."""
    if mode == "rn":
        return nearest
    side_of = _SIDES[name]

    def run(*operands: Any) -> Any:
        result = np.asarray(nearest(*operands), dtype=np.float32)
        with np.errstate(all="ignore"):
            wide = [np.asarray(operand, dtype=np.float64) for operand in operands]
            side = side_of(result.astype(np.float64), *wide)
            below, above = np.nextafter(result, np.float32(-np.inf)), np.nextafter(result, np.float32(np.inf))
            toward = {"ru": side > 0, "rd": side < 0, "rz": side * np.sign(result) < 0}[mode]
            moved = np.where(side > 0, above, below)
            inf_step = np.isinf(result) & all_finite(wide)
            toward = np.where(inf_step, _off_infinity(result, mode), toward)
            moved = np.where(inf_step, np.where(result > 0, below, above), moved)
        chosen = np.where(toward, moved, result).astype(np.float32)
        return chosen if chosen.ndim else chosen[()]

    return run


def all_finite(operands: list[Array]) -> Array:
    """Whether all operands of each element are finite numbers."""
    finite: Array = np.asarray(True)
    for operand in operands:
        finite = finite & np.isfinite(operand)
    return finite


def _off_infinity(result: Array, mode: str) -> Array:
    """Where a result that overflowed comes back to the largest finite number."""
    wrong: Array = {"rz": np.isinf(result), "ru": result == -np.inf, "rd": result == np.inf}[mode]
    return wrong
