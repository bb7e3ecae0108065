"""Integer arithmetic of TIR: exact, then wrapped to its dtype; what no dtype can give is reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilegen.interp import elementwise
from tilegen.interp.findings import Site, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Code, as_scalar
from tilegen.interp.number_formats import convert, integer_range, out_of_integer_range


def integer_operation(
    function: elementwise.Function, left: Code, right: Code, dtype: str, site: Site, in_index: bool
) -> Callable[[Frame], Any]:
    """The value of an operation of two integers in ``dtype``; where it is an index, what does not fit is reported."""
    low, high = (0, 1) if dtype == "bool" else integer_range(dtype)
    unsigned64 = dtype == "uint64"

    def run(frame: Frame) -> Any:
        a, b = left.run(frame), right.run(frame)
        if unsigned64:
            a, b = _unsigned64(a), _unsigned64(b)
        result = function(a, b)
        if type(result) is int:
            if low <= result <= high:
                return result
            return _overflow(frame, site, result, dtype, in_index)
        if isinstance(result, np.ndarray) and result.dtype == np.int64 and result.size and dtype != "int64":
            if int(result.max()) > high or int(result.min()) < low:
                return _overflow(frame, site, result, dtype, in_index)
            return result
        return as_scalar(result)

    return run


def _unsigned64(value: Any) -> Any:
    return value.astype(np.uint64) if isinstance(value, np.ndarray) else value


def _overflow(frame: Frame | None, site: Site, result: Any, dtype: str, in_index: bool) -> Any:
    """An integer that its dtype cannot hold: wrapped, but kept whole in an index, which TileLang widens by itself."""
    if not in_index:
        wrapped = convert(result, "int64", dtype)
        return wrapped.astype(np.int64) if isinstance(wrapped, np.ndarray) else wrapped
    if frame is not None:
        low, high = integer_range(dtype)
        worst = int(max(np.max(result), np.min(result), key=abs)) if isinstance(result, np.ndarray) else int(result)
        frame.report(
            "index-overflow",
            site,
            lambda: (
                f"an index is {worst}, which {dtype} cannot hold ({low} to {high}): TileLang widens an index that it sees "
                "whole, not one that goes through a variable; use T.int64 for it"
            ),
        )
    return result


def checked_division(
    function: elementwise.Function, left: Code, right: Code, dtype: str, site: Site
) -> Callable[[Frame], Any]:
    """The value of a division; a division by zero is reported, and by one instead."""

    def run(frame: Frame) -> Any:
        a, b = left.run(frame), right.run(frame)
        zero = b == 0
        if zero is True or (isinstance(zero, np.ndarray) and zero.any()):
            if frame is None:
                raise UnsupportedError(f"a constant is divided by zero in `{site.operation}`")
            active = np.asarray(zero) if frame.mask is None else np.asarray(zero) & frame.mask
            if active.any():
                frame.report("division-by-zero", site, f"an {dtype} is divided by zero")
            b = np.where(zero, 1, b) if isinstance(b, np.ndarray) else 1
        return as_scalar(function(a, b))

    return run


def checked_truncation(operand: Code, target: str, site: Site) -> Callable[[Frame], Any]:
    """A float made an integer; one that the integer cannot hold is reported."""

    def run(frame: Frame) -> Any:
        value = operand.run(frame)
        if frame is not None and frame.block.diagnostics and out_of_integer_range(value, target):
            shown = np.asarray(value, dtype=np.float64)
            if frame.mask is not None:
                shown = np.where(frame.mask, shown, 0.0)
            if out_of_integer_range(shown, target):
                frame.report("float-to-int", site, f"a float outside the range of {target} is converted to it")
        return convert(value, operand.dtype, target)

    return run
