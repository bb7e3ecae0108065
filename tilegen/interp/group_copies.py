"""``cp.async``: copies of a few elements by each thread, or of a tile by all, that are waited for in groups.

A copy is carried out at once; until its group is waited for, or a barrier that it arrives at opens, its target is in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.access import ElementAccess
from tilegen.interp.barriers import compile_arrival
from tilegen.interp.copies import compile_copy
from tilegen.interp.expressions import element_access
from tilegen.interp.findings import Site, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.memory import Storage
from tilegen.interp.number_formats import Array
from tilegen.interp.steps import Signal, Step, operation

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler


@operation("tl.ptx_cp_async")
def _copy_of_each_thread(compiler: Compiler, call: Any, site: Site) -> Step:
    """``T.ptx_cp_async(to, from, count[, predicate])``: ``count`` neighbouring elements by each thread.

    TileLang guards the source, as it does any access of global memory; where it or the predicate fails, zeros are written.
    """
    target, source = element_access(compiler, call.args[0], site), element_access(compiler, call.args[1], site)
    for access in (target, source):
        if compiler.plans[access.slot].scope not in ("global", "shared", "shared.dyn"):
            raise UnsupportedError(f"`{site.operation}` copies from global to shared memory only")
    compiler.note_write(compiler.plans[target.slot])
    count = int(call.args[2].value)
    predicate = compiler.expression(call.args[3], site) if len(call.args) > 3 else None
    lanes = compiler.active_lanes()
    compiler.is_concurrent = True

    def run(frame: Frame) -> Signal | None:
        wanted = True if predicate is None else np.asarray(predicate.run(frame)) != 0
        shape = lanes(frame)
        active = np.ones(shape, dtype=np.bool_) if frame.mask is None else np.broadcast_to(frame.mask, shape)
        if frame.block.access_log is not None:
            frame.block.access_log.issue_group_copy(frame)
        places, inside = _runs(frame, target, count, active)
        origins, known = _runs(frame, source, count, active & wanted)
        into: Any = frame.memory[target.slot]
        values = frame.memory[source.slot].gather(frame, site, origins, known)
        values = np.where(known, values, into.data.dtype.type(0))
        into.scatter(frame, site, tuple(part[inside] for part in places), values[inside])
        frame.acting = None
        return None

    return run


def _runs(frame: Frame, access: ElementAccess, count: int, active: Array) -> tuple[tuple[Array, ...], Array]:
    """The indices of ``count`` neighbouring elements from ``access`` on, for each lane, and which may be touched."""
    storage = frame.memory[access.slot]
    assert isinstance(storage, Storage)
    outer, frame.mask = frame.mask, active
    indices, inside = access.locate(frame, storage)
    frame.mask = outer
    first = np.ravel_multi_index(
        tuple(np.broadcast_to(index, active.shape).reshape(-1) for index in indices), storage.data.shape
    )
    numbers = first[:, None] + np.arange(count)
    chosen = np.broadcast_to(inside & active, active.shape).reshape(-1)[:, None] & (numbers < storage.data.size)
    return np.unravel_index(np.minimum(numbers, storage.data.size - 1), storage.data.shape), chosen


@operation("tl.tileop.async_copy")
def _copy_of_all_threads(compiler: Compiler, call: Any, site: Site) -> Step:
    """``T.async_copy``: the copies of a tile, committed as one group."""
    copy = compile_copy(compiler, call, site)
    compiler.is_concurrent = True

    def run(frame: Frame) -> Signal | None:
        log = frame.block.access_log
        if log is None:
            return copy(frame)
        log.issue_group_copy(frame)
        copy(frame)
        frame.acting = None
        log.commit_group(frame)
        return None

    return run


@operation("tirx.ptx_commit_group")
def _commit(compiler: Compiler, call: Any, site: Site) -> Step:
    def run(frame: Frame) -> Signal | None:
        if frame.block.access_log is not None:
            frame.block.access_log.commit_group(frame)
        return None

    return run


@operation("tirx.ptx_wait_group")
def _wait(compiler: Compiler, call: Any, site: Site) -> Step:
    allowed = compiler.expression(call.args[0], site)

    def run(frame: Frame) -> Signal | None:
        if frame.block.access_log is not None:
            frame.block.access_log.wait_for_groups(frame, int(allowed.run(frame)))
        return None

    return run


@operation("tl.ptx_cp_async_barrier_noinc")
def _copies_arrive(compiler: Compiler, call: Any, site: Site) -> Step:
    """Each active thread arrives at an mbarrier once the copies that it has issued are complete."""
    compiler.is_concurrent = True
    return compile_arrival(
        compiler, call.args[0], site, learn=lambda log, frame, clock: log.copies_arrive(frame, clock)
    )
