"""Tile reductions and scans: ``reduce_*``, ``cumsum`` and ``cummax``. Reducers are in reducers.py.

A reduction accumulates in the dtype of its destination, as TileLang's does; the order is numpy's pairwise one. ``max`` and
``min`` skip NaN unless ``nan_propagate`` is set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.copies import check_annotations
from tilegen.interp.findings import Site, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.non_finite import all_finite, note_event
from tilegen.interp.number_formats import (
    Array,
    convert,
    highest,
    is_float,
    is_narrow_float,
    lowest,
    round_to,
    storage_dtype,
    to_float32,
    wrap_integer,
)
from tilegen.interp.regions import compile_region
from tilegen.interp.steps import Signal, Step, operation

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler

_REDUCE_HINTS = frozenset({"batch", "nan_propagate", "enable_fadd2", "tl.ws_op_id"})

Combine = Callable[[Any, Any], Any]


def combiner(kind: str, dtype: str, propagate_nan: bool = False) -> Combine:
    """The function that joins two partial results of a reduction of ``kind`` in ``dtype``."""
    if kind in ("sum", "abssum"):
        return lambda x, y: _add(x, y, dtype)
    if kind in ("max", "absmax"):
        return np.maximum if propagate_nan or not is_float(dtype) else np.fmax
    if kind == "min":
        return np.minimum if propagate_nan or not is_float(dtype) else np.fmin
    return {"bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor}[kind]


def _add(x: Any, y: Any, dtype: str) -> Any:
    if is_narrow_float(dtype):
        return round_to(to_float32(x, dtype) + to_float32(y, dtype), dtype)
    return x + y if is_float(dtype) else wrap_integer(np.asarray(x, dtype=np.int64) + y, dtype)


def identity_of(kind: str, dtype: str) -> Any:
    """What a reduction of ``kind`` starts from."""
    if kind == "max":
        return lowest(dtype)
    if kind == "min":
        return highest(dtype)
    if kind == "bitand":
        return (
            True if dtype == "bool" else storage_dtype(dtype).type(-1 if not dtype.startswith("u") else highest(dtype))
        )
    return storage_dtype(dtype).type(0)


def reduce_axis(tile: Array, kind: str, dtype: str, axis: int, propagate_nan: bool = False) -> Array:
    """Reduce one axis of a tile that is already in ``dtype``."""
    if kind in ("abssum", "absmax"):
        tile = np.abs(tile)
    if kind in ("sum", "abssum"):
        if is_float(dtype):
            total: Array = np.add.reduce(tile, axis=axis, dtype=tile.dtype)
            return total
        return wrap_integer(np.add.reduce(tile, axis=axis, dtype=np.int64), dtype)  # type: ignore[no-any-return]
    function = combiner(kind, dtype, propagate_nan)
    if is_narrow_float(dtype) and isinstance(function, np.ufunc):
        reduced = function.reduce(to_float32(tile, dtype), axis=axis)
        return round_to(reduced, dtype)  # type: ignore[no-any-return]
    result: Array = function.reduce(tile, axis=axis)  # type: ignore[attr-defined]
    return result


@operation("tl.tileop.reduce")
def _reduce(compiler: Compiler, call: Any, site: Site) -> Step:
    check_annotations(call, _REDUCE_HINTS, site)
    source = compile_region(compiler, call.args[0], site)
    goes_on = replace(site, mend="with clear=False a reduction goes on from it: fill it, or leave clear=True")
    target = compile_region(compiler, call.args[1], goes_on)
    compiler.note_write(target.plan)
    kind, dim, clear = str(call.args[2].value), int(call.args[3].value), bool(int(call.args[4].value))
    propagate = bool(int(call.annotations.get("nan_propagate", 0)))
    dtype = target.dtype
    join = combiner(kind, dtype, propagate)
    known = ("sum", "abssum", "max", "absmax", "min", "bitand", "bitor", "bitxor")
    if kind not in known:
        raise UnsupportedError(f"the reduction {kind!r} of `{site.operation}` is not modelled")

    def run(frame: Frame) -> Signal | None:
        tile = source.read(frame)
        result = reduce_axis(convert(tile, source.dtype, dtype), kind, dtype, dim, propagate)
        result = result.reshape(target.shape(frame))
        before = None if clear else target.read(frame).copy()
        if before is not None:
            result = np.asarray(join(before, result))
        if is_float(dtype) and frame.block.diagnostics and len(frame.block.non_finite) < 2 and not all_finite(result):
            explained = [] if all_finite(tile) else [(source.plan.name, result)]
            if before is not None:
                explained.append((target.plan.name, before))
            note_event(frame, site, result, explained, target.plan.name, target.element(frame))
        target.write(frame, result)
        return None

    return run


@operation("tl.tileop.cumsum", "tl.tileop.cummax")
def _scan(compiler: Compiler, call: Any, site: Site) -> Step:
    check_annotations(call, _REDUCE_HINTS, site)
    source, target = compile_region(compiler, call.args[0], site), compile_region(compiler, call.args[1], site)
    compiler.note_write(target.plan)
    dim, reverse = int(call.args[2].value), bool(int(call.args[3].value))
    largest = call.op.name.endswith("cummax")
    dtype = target.dtype

    def run(frame: Frame) -> Signal | None:
        tile = convert(source.read(frame), source.dtype, dtype)
        tile = np.flip(tile, dim) if reverse else tile
        if is_narrow_float(dtype):
            tile = to_float32(tile, dtype)
        if largest:
            scanned = (np.fmax if is_float(dtype) else np.maximum).accumulate(tile, axis=dim)
        elif is_float(dtype):
            scanned = np.add.accumulate(tile, axis=dim, dtype=tile.dtype)
        else:
            scanned = np.add.accumulate(tile, axis=dim, dtype=np.int64)
        scanned = np.flip(scanned, dim) if reverse else scanned
        target.write(frame, round_to(scanned, dtype) if is_float(dtype) else wrap_integer(scanned, dtype))
        return None

    return run
