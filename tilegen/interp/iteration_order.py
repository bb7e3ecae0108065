"""Iterations of a T.Parallel that read what another iteration writes in the same statement.

In lanes every read of a statement comes before its write. On a device iterations run in no order, so such a statement gives
what it gives here only by luck. The check compares the elements that a statement reads and writes in one buffer; it is made at
the first execution of the statement, since the pattern hardly ever changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.access import ElementAccess
from tilegen.interp.findings import Site
from tilegen.interp.frame import Frame
from tilegen.interp.memory import Storage
from tilegen.interp.number_formats import Array, lanes
from tilegen.interp.structure import walk

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler


def iteration_check(compiler: Compiler, node: Any, access: ElementAccess, site: Site) -> Callable[[Frame], None] | None:
    """The check of ``buffer[...] = value``; None where the value loads nothing else from the buffer."""
    if not compiler.in_parallel or str(node.buffer.scope()) in ("local", "local.var"):
        return None
    from tvm.ir import structural_equal

    others: list[Any] = []

    def visit(part: Any) -> None:
        if type(part).__name__ != "BufferLoad" or not part.buffer.same_as(node.buffer):
            return
        if not all(structural_equal(a, b) for a, b in zip(part.indices, node.indices, strict=True)):
            others.append(part)

    walk(node.value, visit)
    vectors = [index for load in (node, *others) for index in load.indices if lanes(str(index.dtype)) > 1]
    if not others or vectors:
        return None
    reads = [compiler.element(load.buffer, load.indices, site) for load in others]
    active_lanes = compiler.active_lanes()
    done = False

    def check(frame: Frame) -> None:
        nonlocal done
        if done or not frame.block.diagnostics:
            return
        done = True
        storage = frame.memory[access.slot]
        shape = active_lanes(frame)
        writer = np.full(storage.data.size, -1, dtype=np.int64)
        lane = np.arange(int(np.prod(shape)))
        elements, active = _elements(frame, access, storage, shape)
        writer[elements[active]] = lane[active]
        for read in reads:
            elements, active = _elements(frame, read, storage, shape)
            clash = active & (writer[elements] != -1) & (writer[elements] != lane)
            if clash.any():
                _report(frame, site, storage, int(elements[clash][0]))
                return

    return check


def _elements(frame: Frame, access: ElementAccess, storage: Storage, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """The element (flat) of each lane, and whether the lane is active and inside the buffer."""
    indices = access.evaluate_indices(frame)
    active: Array = (
        np.ones(shape, dtype=np.bool_) if frame.mask is None else np.array(np.broadcast_to(frame.mask, shape))
    )
    for index, extent in zip(indices, storage.data.shape, strict=True):
        active &= (index >= 0) & (index < extent)
    clipped = [
        np.clip(np.broadcast_to(index, shape), 0, extent - 1)
        for index, extent in zip(indices, storage.data.shape, strict=True)
    ]
    return np.ravel_multi_index(tuple(clipped), storage.data.shape).reshape(-1), active.reshape(-1)


def _report(frame: Frame, site: Site, storage: Storage, element: int) -> None:
    place = tuple(int(part) for part in np.unravel_index(element, storage.data.shape))
    frame.report(
        "iteration-race",
        site,
        lambda: (
            f"{storage.name}[{', '.join(map(str, place))}] ({storage.scope}) is read by one iteration of the T.Parallel "
            "and written by another"
        ),
        storage.name,
        place,
    )
