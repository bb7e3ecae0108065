"""Tile operations that move data: copy, its asynchronous forms, fill and transpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.findings import Site, UnsupportedError, render
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Code, as_scalar
from tilegen.interp.non_finite import all_finite, note_event
from tilegen.interp.number_formats import (
    Array,
    convert,
    is_float,
    is_integer,
    is_narrow_float,
    out_of_integer_range,
    outside_of_integer_range,
)
from tilegen.interp.regions import Region, compile_region
from tilegen.interp.register_copies import copy_registers, fill_registers, names_registers
from tilegen.interp.steps import Signal, Step, operation

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler

_LEVELS = {"local.fragment": 2, "local": 2, "shared": 1, "shared.dyn": 1, "shared.tmem": 1}
_COPY_HINTS = frozenset(
    {
        "coalesced_width",
        "disable_tma",
        "eviction_policy",
        "prefer_instruction",
        "parallel_loop_layout",
        "emit_arrive",
        "barrier",
        "leader_scope_threads",
        "tl.ws_op_id",
        "force_cp_async",
        "is_async_copy",
        "no_implicit_async_commit_wait",
        "force_async_copy",
    }
)


def check_annotations(call: Any, known: frozenset[str], site: Site) -> None:
    """Refuse a tile operation with an annotation that may change its meaning."""
    for name in call.annotations or {}:
        if str(name) not in known:
            raise UnsupportedError(f"the annotation {name} of `{site.operation}` is not modelled")


def compile_copy(compiler: Compiler, call: Any, site: Site) -> Step:
    """``dst = src``, converted to the dtype of ``dst``; extents are matched without their ones, as TileLang does."""
    check_annotations(call, _COPY_HINTS, site)
    if names_registers(call.args[0]) or names_registers(call.args[1]):
        return copy_registers(compiler, call.args[0], call.args[1], site)
    source, target = compile_region(compiler, call.args[0], site), compile_region(compiler, call.args[1], site)
    source_leads = _LEVELS.get(source.plan.scope, 0) >= _LEVELS.get(target.plan.scope, 0)
    compiler.note_write(target.plan)

    shares_memory = source.plan.origin is target.plan.origin
    fixed: list[tuple[int, ...]] = []

    def run(frame: Frame) -> Signal | None:
        if fixed:
            from_shape, to_shape = fixed
        else:
            extents = (source if source_leads else target).dense_shape(frame)
            from_shape, to_shape = _stretched(source, extents, frame), _stretched(target, extents, frame)
            _note_extents(frame, source, target, from_shape, to_shape)
            if source.fixed_shape and target.fixed_shape:
                fixed[:] = from_shape, to_shape
        tile = source.read(frame, from_shape)
        if shares_memory:
            _check_apart(frame, source, from_shape, target, to_shape)
        copy_tile(frame, source, target, tile, to_shape)
        return None

    return run


def _note_extents(
    frame: Frame, source: Region, target: Region, from_shape: tuple[int, ...], to_shape: tuple[int, ...]
) -> None:
    """Note a slice of other extents than the tile that it is copied to or from: TileLang copies what the tile has."""
    for region, shape in ((source, from_shape), (target, to_shape)):
        given = region.shape(frame)
        if given != shape:
            message = (
                f"the slice of {region.plan.name} has the extents {given}, and {shape} are copied: the other side's"
            )
            frame.report("extents", region.site, message, region.plan.name)


def _check_apart(
    frame: Frame, source: Region, from_shape: tuple[int, ...], target: Region, to_shape: tuple[int, ...]
) -> None:
    """Report a copy onto a part of its own source: threads copy in no order, so some read what others wrote."""
    read = source.storage(frame).data[source.key(frame, from_shape)[0]]
    written = target.storage(frame).data[target.key(frame, to_shape)[0]]
    in_place = read.__array_interface__["data"] == written.__array_interface__["data"] and from_shape == to_shape
    if not in_place and np.shares_memory(read, written):
        message = f"the two regions of {target.plan.name} overlap: a part of what is read is written by the same copy"
        frame.report("iteration-race", source.site, message, target.plan.name)


def copy_tile(frame: Frame, source: Region, target: Region, tile: Array, shape: tuple[int, ...]) -> None:
    """Convert a tile and store it in ``target`` as ``shape``."""
    value = convert(tile, source.dtype, target.dtype)
    if is_float(source.dtype) and is_integer(target.dtype) and out_of_integer_range(tile, target.dtype):
        flat = int(np.argmax(outside_of_integer_range(tile, target.dtype)))
        place = source.element(frame)(np.unravel_index(flat, tile.shape), tile.shape)  # type: ignore[arg-type]
        frame.report(
            "float-to-int",
            source.site,
            f"{source.plan.name}[{', '.join(map(str, place))}] = {tile.reshape(-1)[flat]!s} is converted to {target.dtype}, "
            "whose range it is out of",
            source.plan.name,
            place,
        )
    if is_narrow_float(target.dtype) and source.dtype != target.dtype and is_float(source.dtype):
        _note_overflow(frame, source, target, tile, value)
    target.write(frame, value.reshape(shape), shape)


def _note_overflow(frame: Frame, source: Region, target: Region, tile: Array, value: Array) -> None:
    block = frame.block
    if block.diagnostics and len(block.non_finite) < 2 and not all_finite(value):
        note_event(frame, source.site, value, [(source.plan.name, tile)], target.plan.name, source.element(frame))


def _stretched(region: Region, extents: tuple[int, ...], frame: Frame) -> tuple[int, ...]:
    """The extents of ``region`` with those other than one replaced by ``extents``, in order."""
    shape = region.shape(frame)
    if sum(extent != 1 for extent in shape) != len(extents):
        raise UnsupportedError(
            f"the extents of the two sides of `{region.site.operation}` do not match: {shape} and {extents}"
        )
    remaining = iter(extents)
    return tuple(1 if extent == 1 else next(remaining) for extent in shape)


@operation("tl.tileop.copy")
def _copy(compiler: Compiler, call: Any, site: Site) -> Step:
    return compile_copy(compiler, call, site)


@operation("tl.tileop.fill")
def _fill(compiler: Compiler, call: Any, site: Site) -> Step:
    if names_registers(call.args[0]):
        return fill_registers(compiler, call.args[0], call.args[1], site)
    target = compile_region(compiler, call.args[0], site)
    compiler.note_write(target.plan)
    value = compiler.expression(call.args[1], site)
    _check_reducer_start(compiler, target, value, site)

    def run(frame: Frame) -> Signal | None:
        scalar = as_scalar(value.run(frame))
        if isinstance(scalar, np.ndarray):
            frame.report("divergent-value", site, f"the value that fills {target.plan.name} differs between threads")
            scalar = scalar.reshape(-1)[0]
        target.write(frame, convert(scalar, value.dtype, target.dtype))
        return None

    return run


def _check_reducer_start(compiler: Compiler, target: Region, value: Code, site: Site) -> None:
    """Refuse to fill a reducer of the oldest form with a number that each thread would add."""
    slot = target.plan.slot
    if slot in compiler.replicated_reducers and compiler.reducer_kinds[slot] == "sum" and value.const != 0:
        raise UnsupportedError(
            f"`{site.operation}` starts the reducer {target.plan.name} at other than 0: with replication= each thread "
            "would add that"
        )


@operation("tl.tileop.transpose")
def _transpose(compiler: Compiler, call: Any, site: Site) -> Step:
    source, target = compile_region(compiler, call.args[0], site), compile_region(compiler, call.args[1], site)

    def run(frame: Frame) -> Signal | None:
        rows, columns = _matrix_extents(source, frame)
        tile = source.read(frame).reshape(rows, columns).T
        target.write(frame, convert(tile, source.dtype, target.dtype).reshape(target.shape(frame)))
        return None

    return run


def _matrix_extents(region: Region, frame: Frame) -> tuple[int, int]:
    shape = region.shape(frame)
    if any(extent != 1 for extent in shape[:-2]) or len(shape) < 2:
        raise UnsupportedError(f"`{render(region.site.node)}` is no matrix: its extents are {shape}")
    return shape[-2], shape[-1]
