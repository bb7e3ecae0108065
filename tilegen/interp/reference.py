"""Compares outputs with a reference: how far off, and where."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tilegen.interp.arguments import to_float64
from tilegen.interp.findings import InvalidKernelError
from tilegen.interp.number_formats import Array, is_packed, pack


@dataclass(frozen=True)
class Comparison:
    """One output against its reference.

    ``error`` is the largest absolute difference, ``scale`` the largest finite magnitude of the reference, ``index`` the element
    that is worst, ``got`` and ``expected`` its values. ``passes`` compares ``error`` with ``tolerance * scale``.
    """

    name: str
    error: float
    scale: float
    index: tuple[int, ...]
    got: float
    expected: float
    tolerance: float

    @property
    def relative_error(self) -> float:
        return self.error / self.scale if self.scale else self.error

    @property
    def passes(self) -> bool:
        return bool(self.error <= self.tolerance * max(self.scale, np.finfo(np.float64).tiny))


def default_tolerance(array: Array) -> float:
    """Eight units in the last place of the output's format; integers must be equal."""
    if array.dtype.kind in "iub":
        return 0.0
    return 8 * float(ml_dtypes.finfo(array.dtype).eps)  # type: ignore[no-untyped-call]


def compare(name: str, got: Array, expected: Any, tolerance: float | None = None) -> Comparison:
    """Compare an output with its reference; a NaN matches only a NaN, an infinity only itself."""
    limit = default_tolerance(got) if tolerance is None else tolerance
    left, right = to_float64(got), _as_float64(expected)
    if left.shape != right.shape:
        raise InvalidKernelError(f"the reference of {name} has the shape {right.shape}, the output {left.shape}")
    if left.size == 0:
        return Comparison(name, 0.0, 0.0, (), 0.0, 0.0, limit)
    with np.errstate(all="ignore"):
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        difference = np.where(same, 0.0, np.abs(left - right))
        difference = np.where(np.isnan(difference), np.inf, difference)
    index = tuple(int(part) for part in np.unravel_index(int(np.argmax(difference)), left.shape))
    finite = np.abs(right[np.isfinite(right)])
    scale = float(finite.max(initial=0.0))
    return Comparison(name, float(difference[index]), scale, index, float(left[index]), float(right[index]), limit)


def _as_float64(value: Any) -> Array:
    if hasattr(value, "detach"):
        import torch

        double: Array = value.detach().cpu().to(torch.float64).numpy()
        return double
    try:
        return to_float64(np.asarray(value))
    except (TypeError, ValueError) as error:
        raise InvalidKernelError(f"the reference gives {value!r:.60}, which is no array of numbers") from error


def call_reference(function: Any, given: Mapping[str, Array], outputs: Sequence[str]) -> dict[str, Any]:
    """Call a reference with what a kernel reads as torch tensors: by name where its parameters have those names, else in order.

    In order it is given the buffers that are only read, or all that are read if every one of them is written too.

    It returns one tensor, a sequence in the order of the outputs, or a dict by name.
    """
    name = getattr(function, "__name__", type(function).__name__)
    if not callable(function):
        raise InvalidKernelError(f"the reference is no function but a {name}")
    result = _call(function, name, given, [key for key in given if key not in outputs] or list(given))
    if isinstance(result, Mapping):
        if not result or not set(result) <= set(outputs):
            raise InvalidKernelError(
                f"{name} returns {', '.join(map(str, result)) or 'nothing'}; the outputs are {', '.join(outputs)}"
            )
        return dict(result)
    values = list(result) if isinstance(result, (tuple, list)) else [result]
    if len(values) != len(outputs):
        raise InvalidKernelError(f"the reference returns {len(values)} values for the outputs {', '.join(outputs)}")
    return dict(zip(outputs, values, strict=True))


def _call(function: Any, name: str, given: Mapping[str, Array], in_order: Sequence[str]) -> Any:
    try:
        parameters = inspect.signature(function).parameters
        by_name = set(parameters) <= set(given)
    except (TypeError, ValueError):  # a function of an extension, which has no signature
        by_name = False
    tensors = {key: to_torch(given[key]) for key in (parameters if by_name else in_order)}
    try:
        return function(**tensors) if by_name else function(*tensors.values())
    except (Exception, SystemExit) as error:
        raise InvalidKernelError(
            f"the reference {name}, called with {', '.join(tensors)}, raised {type(error).__name__}: {str(error).strip()}"
        ) from error


def to_torch(array: Array) -> Any:
    """A torch tensor of the same dtype and bits; two 4-bit elements of the last axis share a byte."""
    import torch

    array = np.ascontiguousarray(array)
    if is_packed(array.dtype.name):
        return torch.from_numpy(pack(array))
    if array.dtype.name.startswith(("bfloat16", "float8")):
        bits = torch.from_numpy(array.view(np.int16 if array.itemsize == 2 else np.uint8).copy())
        return bits.view(getattr(torch, array.dtype.name))
    return torch.from_numpy(array.copy())
