"""Operations on threads and warps: indices, votes, shuffles, warp and block reductions."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.elementwise import Function
from tilegen.interp.expressions import intrinsic, neighbours
from tilegen.interp.findings import Site
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import THREAD_AXIS, Code, as_scalar
from tilegen.interp.number_formats import Array, convert
from tilegen.interp.steps import Signal, Step, operation
from tilegen.interp.thread_order import new_warp_epoch

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler

WARP = 32


def thread_column(frame: Frame, values: Array, axes: int) -> Array:
    """One value a thread, on the thread axis."""
    return values.astype(np.int64).reshape((-1,) + (1,) * (axes - 1))


def per_thread(frame: Frame, value: Any, axes: int) -> Array:
    """A value with one entry a thread of the frame on axis 0."""
    array = np.asarray(value)
    if array.ndim == 0:
        array = array.reshape((1,) * axes)
    return np.broadcast_to(array, (frame.threads.size, *array.shape[1:]))


def _active(frame: Frame, axes: int) -> Array:
    if frame.mask is None:
        return np.ones(frame.threads.size, dtype=np.bool_)
    mask = np.broadcast_to(frame.mask, (frame.threads.size, *frame.mask.shape[1:]))
    return np.asarray(mask.reshape(frame.threads.size, -1).any(axis=1))


@intrinsic("tl.launch_thread_idx")
def _thread_index(compiler: Compiler, node: Any, site: Site) -> Code:
    return Code(thread_index(compiler, int(node.args[0].value)), "int32")


def thread_index(compiler: Compiler, dimension: int) -> Callable[[Frame], Any]:
    """The index of each thread along one axis of the block."""
    x, y, _ = compiler.threads
    axes = compiler.axes

    known: list[tuple[Array, Any]] = []

    def run(frame: Frame) -> Any:
        linear = frame.threads
        if known and known[0][0] is linear:  # every block of a grid has the same threads
            return known[0][1]
        values = (linear % x, linear // x % y, linear // (x * y))[dimension]
        value = as_scalar(thread_column(frame, values, axes))
        known[:] = [(linear, value)]
        return value

    return run


def _from_thread(names: tuple[str, ...], value: Callable[[Array, list[int]], Array]) -> None:
    """Register intrinsics that are a function of the thread number and constant arguments."""

    @intrinsic(*names)
    def compile_it(compiler: Compiler, node: Any, site: Site) -> Code:
        arguments = [int(argument.value) for argument in node.args]
        axes = compiler.axes

        def run(frame: Frame) -> Any:
            return as_scalar(thread_column(frame, value(frame.threads, arguments), axes))

        return Code(run, str(node.dtype))


_from_thread(("tl.get_lane_idx",), lambda threads, given: threads % (given[0] if given else WARP))
_from_thread(
    ("tl.get_warp_idx", "tl.get_warp_idx_sync"), lambda threads, given: threads // (given[0] if given else WARP)
)
_from_thread(
    ("tl.get_warp_group_idx",),
    lambda threads, given: threads // ((given[0] if given else WARP) * (given[1] if len(given) > 1 else 4)),
)


@intrinsic("tl.tl_shuffle_elect")
def _elect(compiler: Compiler, node: Any, site: Site) -> Code:
    extent = int(node.args[0].value)
    axes = compiler.axes

    def run(frame: Frame) -> Any:
        size = extent or frame.block.threads
        return as_scalar(thread_column(frame, frame.threads % size == 0, axes).astype(np.bool_))

    return Code(run, "bool")


def _by_warp(frame: Frame) -> Array:
    """The warp number of each thread of the frame, counted from 0."""
    return np.unique(frame.threads // WARP, return_inverse=True)[1].reshape(-1)


def _vote(name: str, function: Callable[[Array], Any]) -> None:
    @intrinsic(name)
    def compile_it(compiler: Compiler, node: Any, site: Site) -> Code:
        predicate = compiler.expression(node.args[-1], site)
        axes = compiler.axes

        def run(frame: Frame) -> Any:
            flags = per_thread(frame, predicate.run(frame), axes)
            flags = flags.reshape(frame.threads.size, -1)[:, 0] != 0
            active, warps = _active(frame, axes), _by_warp(frame)
            result = np.zeros(frame.threads.size, dtype=np.int64)
            for warp in np.unique(warps):
                members = warps == warp
                voters = members & active
                result[members] = function(np.stack([flags[voters], frame.threads[voters] % WARP]))
            return as_scalar(thread_column(frame, result, axes))

        return Code(run, str(node.dtype))


_vote("tl.any_sync", lambda votes: int(votes[0].any()))
_vote("tl.all_sync", lambda votes: int(votes[0].all()))
_vote("tl.ballot_sync", lambda votes: sum(1 << int(lane) for flag, lane in votes.T if flag))
_vote("tl.ballot", lambda votes: sum(1 << int(lane) for flag, lane in votes.T if flag))


@intrinsic("tl.match_any_sync", "tl.match_all_sync")
def _match(compiler: Compiler, node: Any, site: Site) -> Code:
    """The lanes of the warp with the same value (``any``); all of them if all agree, else none (``all``)."""
    value = compiler.expression(node.args[1], site)
    axes, every = compiler.axes, "all" in node.op.name

    def run(frame: Frame) -> Any:
        values = per_thread(frame, value.run(frame), axes).reshape(frame.threads.size, -1)[:, 0]
        active, warps = _active(frame, axes), _by_warp(frame)
        result = np.zeros(frame.threads.size, dtype=np.int64)
        for warp in np.unique(warps):
            members = np.flatnonzero((warps == warp) & active)
            same = values[members][:, None] == values[members][None, :]
            lanes = 1 << (frame.threads[members] % WARP)
            result[members] = np.where(same.all(), lanes.sum(), 0) if every else (same * lanes).sum(axis=1)
        return as_scalar(thread_column(frame, result, axes))

    return Code(run, str(node.dtype))


@intrinsic("tl.activemask")
def _active_mask(compiler: Compiler, node: Any, site: Site) -> Code:
    axes = compiler.axes

    def run(frame: Frame) -> Any:
        active, warps = _active(frame, axes), _by_warp(frame)
        result = np.zeros(frame.threads.size, dtype=np.int64)
        for warp in np.unique(warps):
            result[warps == warp] = sum(1 << int(lane) for lane in frame.threads[(warps == warp) & active] % WARP)
        return as_scalar(thread_column(frame, result, axes))

    return Code(run, str(node.dtype))


def _block_vote(name: str, function: Callable[[Array], Any]) -> None:
    @intrinsic(name)
    def compile_it(compiler: Compiler, node: Any, site: Site) -> Code:
        predicate = compiler.expression(node.args[0], site)
        axes = compiler.axes

        def run(frame: Frame) -> Any:
            flags = per_thread(frame, predicate.run(frame), axes).reshape(frame.threads.size, -1)[:, 0] != 0
            return int(function(flags[_active(frame, axes)]))

        return Code(run, str(node.dtype))


_block_vote("tl.syncthreads_count", np.count_nonzero)
_block_vote("tl.syncthreads_and", np.all)
_block_vote("tl.syncthreads_or", np.any)


def _source_lane(kind: str, lane: Array, offset: Array, width: int) -> Array:
    """The lane each thread reads in a shuffle; one outside its segment reads its own."""
    base: Array = lane // width * width
    if kind == "xor":
        partner = lane ^ offset
        return np.where(partner < base + width, partner, lane)
    if kind == "up":
        return np.where(lane - offset >= base, lane - offset, lane)
    if kind == "down":
        return np.where(lane + offset < base + width, lane + offset, lane)
    source: Array = base + offset % width
    return source


@intrinsic(
    *("tl.shfl_sync", "tl.shfl_xor_sync", "tl.shfl_up_sync", "tl.shfl_down_sync"),
    *("tirx.tvm_warp_shuffle", "tirx.tvm_warp_shuffle_up", "tirx.tvm_warp_shuffle_down"),
)
def _shuffle(compiler: Compiler, node: Any, site: Site) -> Code:
    """``shuffle(mask, value, lane or distance, width)``; TVM's own form has the width of a warp besides."""
    kind = node.op.name.removeprefix("tl.shfl_").removeprefix("tirx.tvm_warp_shuffle").removesuffix("sync").strip("_")
    value, offset, width = (compiler.expression(argument, site) for argument in node.args[1:4])
    axes = compiler.axes

    def run(frame: Frame) -> Any:
        values = per_thread(frame, value.run(frame), axes)
        offsets = per_thread(frame, offset.run(frame), axes).reshape(frame.threads.size, -1)[:, 0]
        lane = frame.threads % WARP
        source = _source_lane(kind, lane, offsets, int(width.run(frame))) + frame.threads // WARP * WARP
        position = np.searchsorted(frame.threads, source)
        position = np.clip(position, 0, frame.threads.size - 1)
        present = frame.threads[position] == source
        return as_scalar(values[np.where(present, position, np.arange(frame.threads.size))])

    return Code(run, str(node.dtype))


def _warp_reduce(name: str, function: Function) -> None:
    @intrinsic(name)
    def compile_it(compiler: Compiler, node: Any, site: Site) -> Code:
        value = compiler.expression(node.args[-1], site)
        dtype = str(node.dtype)
        axes = compiler.axes

        def run(frame: Frame) -> Any:
            values = per_thread(frame, value.run(frame), axes)
            result, warps = np.empty_like(values), _by_warp(frame)
            for warp in np.unique(warps):
                members = warps == warp
                result[members] = function(values[members], axis=THREAD_AXIS, keepdims=True)
            return convert(result, dtype, dtype)

        return Code(run, dtype)


_warp_reduce("tl.warp_reduce_sum", np.add.reduce)
_warp_reduce("tl.warp_reduce_max", np.maximum.reduce)
_warp_reduce("tl.warp_reduce_min", np.minimum.reduce)
_warp_reduce("tl.warp_reduce_bitand", np.bitwise_and.reduce)
_warp_reduce("tl.warp_reduce_bitor", np.bitwise_or.reduce)


@intrinsic("tl.any_of", "tl.all_of")
def _any_of(compiler: Compiler, node: Any, site: Site) -> Code:
    """Whether any, or all, of a run of elements are true."""
    accesses = neighbours(compiler, node.args[0], int(node.args[1].value), site)
    join = np.logical_or if node.op.name.endswith("any_of") else np.logical_and

    def run(frame: Frame) -> Any:
        found = [np.not_equal(access.load(frame), 0) for access in accesses]
        return as_scalar(reduce(join, found))

    return Code(run, "bool")


@operation("tl.sync_warp")
def _sync_warp(compiler: Compiler, call: Any, site: Site) -> Step:
    def run(frame: Frame) -> Signal | None:
        new_warp_epoch(frame)
        return None

    return run
