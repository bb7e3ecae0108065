"""Loops: serial ones run their trips in order, T.Parallel and T.vectorized ones run them all in lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tilegen.interp.findings import Site, UnsupportedError, render
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import as_scalar, combine_masks, is_lane_array, lane_numbers
from tilegen.interp.number_formats import Array
from tilegen.interp.roles import compile_body
from tilegen.interp.steps import Signal, Step, leave, statement, without_gone
from tilegen.interp.structure import touches_registers
from tilegen.interp.threads import thread_index

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler

#: ``tirx.ForKind`` of loops whose iterations run in lanes.
_PARALLEL, _VECTORIZED = 1, 2
THREAD_AXES = {"threadIdx.x": 0, "threadIdx.y": 1, "threadIdx.z": 2}
#: Loops that never end stop after this many trips.
MAXIMUM_TRIPS = 10_000_000


@statement("For")
def _loop(compiler: Compiler, node: Any) -> Step:
    kind = int(node.kind)
    if node.thread_binding is not None:
        return _thread_loop(compiler, node)
    if kind == _PARALLEL or (kind == _VECTORIZED and not touches_registers(compiler, node.body)):
        return _lane_loop(compiler, node)
    return _serial_loop(compiler, node)


def _thread_loop(compiler: Compiler, node: Any) -> Step:
    """A loop bound to a thread axis: every thread runs the body once, with its own index."""
    tag, extent = str(node.thread_binding.thread_tag), int(node.extent)
    axis = THREAD_AXES.get(tag)
    if axis is None or extent != compiler.threads[axis]:
        raise UnsupportedError(
            f"`for {node.loop_var.name} in T.thread_binding({extent}, {tag})` is no number of a thread of a block of "
            f"{compiler.threads} threads"
        )
    slot, index = compiler.variable_slot(node.loop_var), thread_index(compiler, axis)
    compiler.note_thread_variable(node.loop_var, axis)
    body = compile_body(compiler, node.body)

    def run(frame: Frame) -> Signal | None:
        frame.environment[slot] = index(frame)
        return body(frame)

    return run


def _serial_loop(compiler: Compiler, node: Any) -> Step:
    site = compiler.site(f"for {node.loop_var.name} in range({render(node.min)}, {render(node.min + node.extent)})")
    start = compiler.index_expression(node.min, site)
    extent = compiler.index_expression(node.extent, site)
    stride = compiler.index_expression(node.step, site) if node.step is not None else None
    slot = compiler.variable_slot(node.loop_var)
    is_fixed = compiler.is_same_in_all_blocks(node.extent)
    stages = int(node.annotations["num_stages"]) if "num_stages" in node.annotations else 0
    with compiler.serial_loop(str(node.loop_var.name), slot):
        body = compile_body(compiler, node.body)

    def run(frame: Frame) -> Signal | None:
        first, count = as_scalar(start.run(frame)), as_scalar(extent.run(frame))
        step = 1 if stride is None else stride.run(frame)
        if isinstance(first, np.ndarray) or isinstance(count, np.ndarray):
            return _lane_trips(frame, slot, np.asarray(first), np.asarray(count), body)
        if 0 < count < stages and stages > 1 and is_fixed:
            _report_stages(frame, site, stages, count)
        return _trips(frame, slot, range(first, first + count, step), body)

    return run


def _report_stages(frame: Frame, site: Site, stages: int, count: int) -> None:
    frame.report(
        "stages",
        site,
        f"the loop has {stages} stages and {count} trip{'s' if count > 1 else ''}: "
        f"the tiles of {stages - count} of the stages are never used",
    )


def _trips(frame: Frame, slot: int, numbers: range, body: Step) -> Signal | None:
    """A serial loop whose bounds all lanes agree on."""
    if frame.mask is None:
        for number in numbers:
            frame.environment[slot] = number
            signal = body(frame)
            if signal is not None and signal is not Signal.CONTINUE:
                return None if signal is Signal.BREAK else signal
            if frame.mask is not None or frame.returned is not None:
                # Lanes parted within the body: go on with the rest of the trips under a mask.
                return _masked_trips(frame, slot, numbers[numbers.index(number) + 1 :], body, None)
        return None
    return _masked_trips(frame, slot, numbers, body, frame.mask)


def _masked_trips(frame: Frame, slot: int, numbers: range, body: Step, entry: Array | None) -> Signal | None:
    outer, frame.skipped = (None if entry is None else frame.broken, frame.skipped), None
    if entry is not None:
        frame.broken = None
    for number in numbers:
        frame.skipped = None
        frame.mask = without_gone(entry, frame)
        if frame.mask is not None and not frame.mask.any():
            break
        frame.environment[slot] = number
        signal = body(frame)
        if signal is not None and leave(frame, signal) is not None:
            if signal is Signal.BREAK:
                break
            if signal is Signal.RETURN:
                return signal
    frame.broken, frame.skipped = outer
    frame.mask = without_gone(entry, frame)
    return None


def _lane_trips(frame: Frame, slot: int, first: Array, count: Array, body: Step) -> Signal | None:
    """A serial loop whose bounds differ between lanes: lanes drop out as they finish."""
    entry, outer = frame.mask, (frame.broken, frame.skipped)
    frame.broken = None
    for trip in range(int(count.max(initial=0))):
        frame.skipped = None
        frame.mask = without_gone(combine_masks(entry, count > trip), frame)
        if frame.mask is not None and not frame.mask.any():
            break
        frame.environment[slot] = as_scalar(first + trip)
        signal = body(frame)
        if signal is not None:
            leave(frame, signal)
    frame.broken, frame.skipped = outer
    frame.mask = without_gone(entry, frame)
    return None


@statement("While")
def _while(compiler: Compiler, node: Any) -> Step:
    site = compiler.site(node.condition)
    with compiler.buffers_written() as written:
        condition = compiler.expression(node.condition, site)
        body = compile_body(compiler, node.body)

    def run(frame: Frame) -> Signal | None:
        entry, outer = frame.mask, (frame.broken, frame.skipped)
        frame.broken = None
        result = None
        for trip in range(MAXIMUM_TRIPS + 1):
            if trip == MAXIMUM_TRIPS:
                raise UnsupportedError(f"`while {site.operation}` has not ended after {MAXIMUM_TRIPS} trips")
            frame.skipped = None
            frame.mask = without_gone(entry, frame)
            flag = as_scalar(condition.run(frame))
            active = combine_masks(frame.mask, flag) if is_lane_array(flag) else frame.mask
            if not is_lane_array(flag) and not flag:
                break
            if active is not None and not active.any():
                break
            frame.mask = active
            signal = body(frame)
            if signal is not None and leave(frame, signal) is not None and signal is not Signal.CONTINUE:
                result = None if signal is Signal.BREAK else signal
                break
            if frame.task is not None:
                frame.task.breathe()
            elif trip and not written:
                _stop_spinning(frame, site)
            if is_lane_array(flag):
                gone = ~flag if frame.broken is None else frame.broken | ~flag
                frame.broken = gone
        frame.broken, frame.skipped = outer
        frame.mask = without_gone(entry, frame)
        return result

    return run


def _stop_spinning(frame: Frame, site: Site) -> NoReturn:
    """A loop that changes nothing ends only by what others write, and no other block or role runs meanwhile."""
    frame.stop(
        "deadlock",
        site,
        f"the loop `while {site.operation}` changes nothing and waits for what no block before this one writes; "
        "a block that waits for a later one needs all blocks to run at the same time (T.sync_grid)",
    )


def _lane_loop(compiler: Compiler, node: Any) -> Step:
    kind = int(node.kind)
    site = compiler.site(f"for {node.loop_var.name} in T.Parallel({render(node.extent)})")
    start = compiler.index_expression(node.min, site)
    extent = compiler.index_expression(node.extent, site)
    slot = compiler.variable_slot(node.loop_var)
    axes = compiler.axes
    with compiler.lane_loop(node.loop_var, start, kind == _PARALLEL) as axis, compiler.locals_written() as written:
        body = compile_body(compiler, node.body)
    extent_slot = compiler.extent_slots[axis]
    cache: dict[tuple[int, int], Array] = {}

    def run(frame: Frame) -> Signal | None:
        first, count = as_scalar(start.run(frame)), as_scalar(extent.run(frame))
        if not isinstance(first, int) or not isinstance(count, int):
            raise UnsupportedError(f"the bounds of `{site.operation}` differ between threads or iterations")
        if count <= 0:
            return None
        numbers = cache.get((first, count))
        if numbers is None:
            numbers = cache[first, count] = lane_numbers(count, axis, axes, first)
        frame.environment[slot] = numbers
        frame.environment[extent_slot] = count
        before = (frame.broken, frame.skipped, frame.returned)
        signal = body(frame)
        left = any(
            now is not then for now, then in zip((frame.broken, frame.skipped, frame.returned), before, strict=True)
        )
        if signal is not None or left:
            raise UnsupportedError(f"break, continue and return inside `{site.operation}` are not modelled")
        for local in written:
            frame.memory[local].collapse(axis)
        return None

    return run
