"""The number formats of TIR as numpy values: storage, rounding, conversion.

Every value keeps the format that TIR gives it, so each operation rounds where the target rounds. 16-bit and 8-bit floats
are stored in their own width (``ml_dtypes``, which TileLang itself depends on, supplies bfloat16 and the fp8 formats) and
widened to float32 where numpy has no fast arithmetic for them.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tilegen.interp.findings import UnsupportedError

Array = npt.NDArray[Any]

_FORMATS: dict[str, Any] = {
    "bool": np.bool_,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3": ml_dtypes.float8_e4m3fn,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "float4_e2m1fn": ml_dtypes.float4_e2m1fn,
    "int4": ml_dtypes.int4,
    "uint4": ml_dtypes.uint4,
    "custom[tfloat32]32": np.float32,
    "tfloat32": np.float32,
    **{f"{sign}int{bits}": getattr(np, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_SATURATING = ("float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn")
#: Formats of which two elements share a byte on the device; here each has a byte of its own.
_PACKED = ("float4_e2m1fn", "int4", "uint4")


@cache
def scalar_name(dtype: str) -> str:
    """``float16x8`` to ``float16``; other names are unchanged."""
    match = re.fullmatch(r"(.+?)x\d+", dtype)
    return match.group(1) if match else dtype


@cache
def lanes(dtype: str) -> int:
    """The number of vector lanes of a TIR dtype: 8 for ``float16x8``, 1 for a scalar."""
    match = re.fullmatch(r".+?x(\d+)", dtype)
    return int(match.group(1)) if match else 1


@cache
def storage_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy dtype that stores ``dtype``; raises ``UnsupportedError`` for one that has none."""
    try:
        storage: np.dtype[Any] = np.dtype(_FORMATS[scalar_name(dtype)])
    except KeyError:
        raise UnsupportedError(f"the interpreter does not know the dtype {dtype!r}") from None
    return storage


@cache
def is_float(dtype: str) -> bool:
    return "float" in dtype


@cache
def is_integer(dtype: str) -> bool:
    return scalar_name(dtype).lstrip("u").startswith("int")


@cache
def is_packed(dtype: str) -> bool:
    """Whether two elements of a format share a byte on the device."""
    return scalar_name(dtype) in _PACKED


def pack(array: Array) -> Array:
    """4-bit elements as int8, two of the last axis in each byte, the even one in the low bits."""
    bits = np.ascontiguousarray(array).view(np.uint8) & 0xF
    packed: Array = (bits[..., 0::2] | bits[..., 1::2] << 4).astype(np.uint8).view(np.int8)
    return packed


def unpack(array: Array, dtype: str) -> Array:
    """The 4-bit elements of bytes that hold two each."""
    data = np.ascontiguousarray(array).view(np.uint8)
    bits: Array = np.stack([data & 0xF, data >> 4], axis=-1).reshape(*data.shape[:-1], -1)
    return bits.view(storage_dtype(dtype))


@cache
def integer_range(dtype: str) -> tuple[int, int]:
    info = ml_dtypes.iinfo(storage_dtype(dtype))  # type: ignore[no-untyped-call]
    return int(info.min), int(info.max)


@cache
def is_narrow_float(dtype: str) -> bool:
    """Whether arithmetic on ``dtype`` is done in float32 and rounded back."""
    return is_float(dtype) and storage_dtype(dtype).itemsize < 4


@cache
def float_max(dtype: str) -> float:
    """The largest finite value of a float format."""
    return float(ml_dtypes.finfo(storage_dtype(dtype)).max)  # type: ignore[no-untyped-call]


@cache
def lowest(dtype: str) -> Any:
    """The value that ``max`` starts from: minus infinity, or the least integer."""
    if is_float(dtype):
        low = -np.inf if scalar_name(dtype) not in _SATURATING else -float_max(dtype)
        return storage_dtype(dtype).type(low)
    return False if dtype == "bool" else integer_range(dtype)[0]


@cache
def highest(dtype: str) -> Any:
    """The value that ``min`` starts from: infinity, or the greatest integer."""
    if is_float(dtype):
        high = np.inf if scalar_name(dtype) not in _SATURATING else float_max(dtype)
        return storage_dtype(dtype).type(high)
    return True if dtype == "bool" else integer_range(dtype)[1]


@cache
def _widening_table(dtype: str) -> Array:
    """All values of an 8-bit or 16-bit format as float32, indexed by bit pattern."""
    storage = storage_dtype(dtype)
    patterns = np.arange(1 << (8 * storage.itemsize), dtype=np.dtype(f"u{storage.itemsize}"))
    return patterns.view(storage).astype(np.float32)


def to_float32(value: Any, dtype: str) -> Any:
    """Widen narrow floats to float32, exactly. float16 and fp8 go through a table: four times faster than ``astype``."""
    if not isinstance(value, np.ndarray):
        return np.float32(value)
    if value.dtype == np.float32:
        return value
    if value.dtype.itemsize > 2 or value.dtype == ml_dtypes.bfloat16 or value.size < 64 or is_packed(value.dtype.name):
        return value.astype(np.float32)
    if value.size >= _LARGE and value.dtype == np.float16:
        return _through_torch(value, "float32")
    bits = np.ascontiguousarray(value).view(np.uint16 if value.dtype.itemsize == 2 else np.uint8)
    return _widening_table(dtype).take(bits)  # type: ignore[arg-type]


def round_to(value: Any, dtype: str) -> Any:
    """Round float32 or float64 values to a float format (nearest, ties to even).

    fp8 saturates at its largest finite value, as ``cvt.rn.satfinite`` does; float16 and bfloat16 overflow to infinity.
    """
    storage = storage_dtype(dtype)
    if storage == ml_dtypes.float8_e8m0fnu:
        return _to_power_of_two(value)
    if scalar_name(dtype) in _SATURATING:
        limit = float_max(dtype)
        value = np.clip(value, -limit, limit)
    if isinstance(value, np.ndarray):
        if storage == np.float16 and value.dtype == np.float32 and value.size >= _LARGE:
            return _through_torch(value, "float16")
        return value if value.dtype == storage else value.astype(storage)
    return storage.type(value)


def _to_power_of_two(value: Any) -> Any:
    """float8_e8m0: the power of two at or above the magnitude, as TileLang's conversion (``cvt.rp.satfinite``) gives it."""
    with np.errstate(all="ignore"):
        magnitude = np.abs(np.asarray(value, dtype=np.float64))
        mantissa, exponent = np.frexp(magnitude)
    biased = np.where(magnitude == 0, 0, exponent + 127 - (mantissa == 0.5))
    biased = np.where(np.isinf(magnitude), 254, np.clip(biased, 0, 254))
    bits = np.where(np.isnan(magnitude), 255, biased).astype(np.uint8)
    result: Array = bits.view(ml_dtypes.float8_e8m0fnu) if bits.ndim else bits.reshape(1).view(ml_dtypes.float8_e8m0fnu)
    return result if isinstance(value, np.ndarray) else result.reshape(-1)[0]


#: From this size on, torch converts float16 faster than numpy: ten times, since numpy has no vector code for it.
_LARGE = 4096


def _through_torch(value: Array, target: str) -> Array:
    import torch

    converted: Array = torch.from_numpy(np.ascontiguousarray(value)).to(getattr(torch, target)).numpy()
    return converted


def wrap_integer(value: Any, dtype: str) -> Any:
    """Reduce an integer to the width of ``dtype``, two's complement."""
    if isinstance(value, np.ndarray):
        storage = storage_dtype(dtype)
        return value if value.dtype == storage else value.astype(storage)
    low, high = integer_range(dtype)
    if low <= value <= high:
        return int(value)
    span = high - low + 1
    return (int(value) - low) % span + low


def out_of_integer_range(value: Any, dtype: str) -> bool:
    """Whether a float has no counterpart in an integer dtype, so that converting it is undefined in C."""
    return bool(np.any(outside_of_integer_range(value, dtype)))


def outside_of_integer_range(value: Any, dtype: str) -> Array:
    """Which floats have no counterpart in an integer dtype."""
    low, high = integer_range(dtype)
    with np.errstate(all="ignore"):
        wide = np.asarray(value, dtype=np.float64)
        return np.asarray(~((wide > float(low) - 1.0) & (wide < float(high) + 1.0)))


def convert(value: Any, source: str, target: str) -> Any:
    """Convert as the target's conversion instructions do.

    Float to float rounds to nearest even (fp8 saturates). Float to integer truncates toward zero and saturates; NaN gives 0.
    Integer to integer keeps the low bits. Anything to bool compares with zero.
    """
    if source == target:
        return value
    if scalar_name(target) == "bool":
        result = np.not_equal(value, 0)
        return result if isinstance(result, np.ndarray) else bool(result)
    if is_float(target):
        if is_narrow_float(source):
            value = to_float32(value, source)
        return round_to(value, target) if isinstance(value, np.ndarray) else round_to(np.float64(value), target)
    if is_float(source):
        return _truncate(value, source, target)
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    return wrap_integer(value, target)


def _truncate(value: Any, source: str, target: str) -> Any:
    low, high = integer_range(target)
    wide = np.nan_to_num(np.trunc(np.asarray(value, dtype=np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
    above, below = wide >= float(high), wide <= float(low)
    result = np.where(above | below, 0.0, wide).astype(storage_dtype(target))
    result = np.where(above, storage_dtype(target).type(high), result)
    result = np.where(below, storage_dtype(target).type(low), result)
    return result if isinstance(value, np.ndarray) else int(result)


def round_to_tf32(value: Array) -> Array:
    """Drop the 13 low mantissa bits of float32, as the tensor cores do with a tf32 operand."""
    return (np.ascontiguousarray(value, dtype=np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def poison(dtype: str) -> Any:
    """What memory holds before it is written: NaN in floats, an unlikely pattern in integers."""
    storage = storage_dtype(dtype)
    if is_float(dtype):
        return storage.type(np.nan)
    if is_packed(dtype):
        return storage.type(5)
    return (
        storage.type(True)
        if storage == np.bool_
        else np.full((), 0xCD, np.uint8).repeat(storage.itemsize).view(storage)[0]
    )
