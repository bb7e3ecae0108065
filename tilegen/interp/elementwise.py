"""Elementwise functions: TIR's arithmetic operators and math intrinsics as numpy functions.

Each function takes and returns values of one float format. Narrow formats are computed in float32 and rounded back, once for
each operation, as the target does. ``max`` and ``min`` return the number where one operand is NaN, as ``fmaxf`` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilegen.interp.number_formats import integer_range, is_float, is_integer, is_narrow_float, round_to, to_float32

Function = Callable[..., Any]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


_vector_erf = np.frompyfunc(math.erf, 1, 1)


def erf(x: Any) -> Any:
    """The error function; numpy has none, so large arrays go through torch, which tilelang needs anyway."""
    array = np.asarray(x)
    if array.size > 256 and array.dtype in (np.float32, np.float64):
        import torch

        return torch.erf(torch.from_numpy(np.ascontiguousarray(array))).numpy()
    return np.asarray(_vector_erf(array.astype(np.float64)), dtype=np.float64).astype(array.dtype)


def _round_half_away(x: Any) -> Any:
    return np.copysign(np.floor(np.abs(x) + np.asarray(x).dtype.type(0.5)), x)


def _ldexp(x: Any, exponent: Any) -> Any:
    return np.ldexp(x, np.asarray(exponent).astype(np.int32))


#: Intrinsics whose operands and result have one float format: name without its namespace, then the numpy function.
FLOAT_FUNCTIONS: dict[str, Function] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(np.asarray(10, dtype=np.asarray(x).dtype), x),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": rsqrt,
    "sigmoid": sigmoid,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "atan2": np.arctan2,
    "erf": erf,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "nearbyint": np.rint,
    "round_ties_away_from_zero": _round_half_away,
    "fabs": np.abs,
    "pow": np.power,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "nextafter": np.nextafter,
    "ldexp": _ldexp,
    "fma": lambda x, y, z: _fused(x, y, z),
    "fast_rcp": lambda x: 1 / x,
    "fmul": np.multiply,
    "__exp": np.exp,
    "__exp10": lambda x: np.power(np.asarray(10, dtype=np.asarray(x).dtype), x),
    "__log": np.log,
    "__log2": np.log2,
    "__log10": np.log10,
    "__sin": np.sin,
    "__cos": np.cos,
    "__tan": np.tan,
    "max_nan": np.maximum,
    "min_nan": np.minimum,
}

#: IEEE operations with a rounding mode as their last argument; only ``rn`` is computed.
ROUNDED_FUNCTIONS: dict[str, Function] = {
    "ieee_add": np.add,
    "ieee_sub": np.subtract,
    "ieee_mul": np.multiply,
    "ieee_fmaf": lambda x, y, z: _fused(x, y, z),
    "ieee_frcp": lambda x: 1 / x,
    "ieee_fsqrt": np.sqrt,
    "ieee_fdiv": np.divide,
    "ieee_frsqrt": rsqrt,
}

PREDICATES: dict[str, Function] = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}


def _fused(x: Any, y: Any, z: Any) -> Any:
    """x * y + z with one rounding: float32 products are exact in float64."""
    dtype = np.result_type(x, y, z)
    wide = np.multiply(x, y, dtype=np.float64) + z
    return wide.astype(dtype) if isinstance(wide, np.ndarray) else dtype.type(wide)


def in_format(function: Function, dtype: str) -> Function:
    """``function`` with operands and result in the float format ``dtype``."""
    if not is_narrow_float(dtype):
        return function

    def rounded(*operands: Any) -> Any:
        return round_to(function(*(to_float32(operand, dtype) for operand in operands)), dtype)

    return rounded


def _float_divide(x: Any, y: Any) -> Any:
    return np.divide(x, y)


def _truncated_divide(x: Any, y: Any) -> Any:
    quotient = abs(x) // abs(y)
    return (
        np.where((x < 0) != (y < 0), -quotient, quotient)
        if _array(x, y)
        else (-quotient if (x < 0) != (y < 0) else quotient)
    )


def _truncated_remainder(x: Any, y: Any) -> Any:
    if _array(x, y):
        return np.fmod(x, y)
    return int(math.fmod(x, y)) if abs(x) < 1 << 52 else x - y * _truncated_divide(x, y)


def _array(*values: Any) -> bool:
    return any(isinstance(value, np.ndarray) for value in values)


def _larger(x: Any, y: Any) -> Any:
    return np.maximum(x, y) if _array(x, y) else max(x, y)


def _smaller(x: Any, y: Any) -> Any:
    return np.minimum(x, y) if _array(x, y) else min(x, y)


def binary(name: str, dtype: str) -> Function:
    """The function of a TIR binary node (``Add``, ``Max``, ``FloorDiv``, ...) on operands of ``dtype``."""
    if is_float(dtype):
        return in_format(_FLOAT_BINARY[name], dtype)
    return _INTEGER_BINARY[name]


_FLOAT_BINARY: dict[str, Function] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _float_divide,
    "Max": np.fmax,
    "Min": np.fmin,
    "Mod": np.fmod,
    "FloorDiv": lambda x, y: np.floor(np.divide(x, y)),
    "FloorMod": np.mod,
}
_INTEGER_BINARY: dict[str, Function] = {
    "Add": lambda x, y: x + y,
    "Sub": lambda x, y: x - y,
    "Mul": lambda x, y: x * y,
    "Div": _truncated_divide,
    "Mod": _truncated_remainder,
    "FloorDiv": lambda x, y: x // y,
    "FloorMod": lambda x, y: x % y,
    "Max": _larger,
    "Min": _smaller,
}

COMPARISONS: dict[str, Function] = {
    "LT": lambda x, y: x < y,
    "LE": lambda x, y: x <= y,
    "GT": lambda x, y: x > y,
    "GE": lambda x, y: x >= y,
    "EQ": lambda x, y: x == y,
    "NE": lambda x, y: x != y,
}

BITWISE: dict[str, Function] = {
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
}


def shift_left(x: Any, y: Any) -> Any:
    return x << y


def shift_right(x: Any, y: Any) -> Any:
    """Arithmetic for signed operands, logical for unsigned ones: numpy and Python follow the operand's type."""
    return x >> y


def bitwise_not(x: Any, dtype: str) -> Any:
    if isinstance(x, bool) or dtype == "bool":
        return np.logical_not(x)
    if isinstance(x, int):
        low, high = integer_range(dtype)
        return ~x if low < 0 else high - x
    return ~x


def popcount(x: Any, dtype: str) -> Any:
    bits = integer_range(dtype)[1].bit_length() + (1 if integer_range(dtype)[0] < 0 else 0)
    if isinstance(x, np.ndarray):
        return np.vectorize(lambda value: (int(value) & ((1 << bits) - 1)).bit_count(), otypes=[np.int32])(x)
    return int(x & ((1 << bits) - 1)).bit_count()


def leading_zeros(x: Any, dtype: str) -> Any:
    bits = integer_range(dtype)[1].bit_length() + (1 if integer_range(dtype)[0] < 0 else 0)

    def count(value: Any) -> int:
        return bits - (int(value) & ((1 << bits) - 1)).bit_length()

    return np.vectorize(count, otypes=[np.int32])(x) if isinstance(x, np.ndarray) else count(x)


def find_first_set(x: Any) -> Any:
    """One plus the position of the lowest set bit; 0 for 0 (``__ffs``)."""

    def count(value: Any) -> int:
        number = int(value)
        return (number & -number).bit_length()

    return np.vectorize(count, otypes=[np.int32])(x) if isinstance(x, np.ndarray) else count(x)


def absolute(x: Any, dtype: str) -> Any:
    return abs(x) if is_integer(dtype) else np.abs(x)
