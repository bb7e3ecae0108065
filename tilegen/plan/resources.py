"""What a kernel plan spends: shared memory and fragment registers. Numbers where sizes are known, else expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tilegen.expr import Size, add, ceil_div, maximum, minimum, multiply, substitute
from tilegen.lowering.shared_memory import ARENA_ALIGNMENT, SharedBuffer, dynamic_bytes
from tilegen.lowering.shared_memory import static_bytes as barrier_bytes
from tilegen.plan.model import Buffer, KernelPlan, Scope

if TYPE_CHECKING:
    from tilegen.targets import Target

REGISTER_BYTES = 4
DESCRIPTOR_ALIGNMENT = 1024


def shared_bytes(kernel: KernelPlan, target: Target) -> Size:
    """Dynamic shared memory of a block in bytes, as TileLang's allocator lays it out.

    Where every size is a number this is the allocator's own arithmetic (``tilegen.lowering.shared_memory``); where one
    is not, the sum of the largest set of buffers that are live at once, which is the same but for alignment.
    """
    found: Size = kernel.by_chip.of("shared bytes", target, lambda chip: _shared_bytes(kernel, chip))
    return found


def _shared_bytes(kernel: KernelPlan, target: Target) -> Size:
    buffers = kernel.scope(Scope.SHARED)
    if all(isinstance(buffer.nbytes, int) for buffer in buffers):
        return dynamic_bytes(_lives(kernel, target))
    totals = [add(*(buffer.nbytes for buffer in buffers if buffer.name in group)) for group in _groups(kernel)]
    return maximum(*totals)


def shared_group(kernel: KernelPlan, values: Mapping[str, int]) -> tuple[str, ...]:
    """The names of the buffers that are live where the kernel needs the most shared memory."""
    sizes = {buffer.name: substitute(buffer.nbytes, values) for buffer in kernel.scope(Scope.SHARED)}

    def total(group: tuple[str, ...]) -> int:
        return sum(size for name, size in sizes.items() if name in group and isinstance(size, int))

    return max(_groups(kernel), key=total)


def static_shared_bytes(kernel: KernelPlan) -> Size:
    """Bytes that the barriers take before the dynamic part, which starts at a multiple of 1,024 (rule TG-B5)."""
    if not isinstance(kernel.barriers, int):
        # A dim decides how many, or whether any: fewer than the 128 that fit the least that barriers can take.
        return multiply(barrier_bytes(1), minimum(1, kernel.barriers))
    return barrier_bytes(kernel.barriers) if kernel.barriers else 0


def fragment_registers(kernel: KernelPlan, buffer: Buffer) -> Size:
    """32-bit registers that a fragment takes in each thread of those that own it."""
    threads = multiply(kernel.launch.threads if buffer.owners is None else buffer.owners, REGISTER_BYTES)
    return ceil_div(multiply(buffer.elements, buffer.itemsize), threads)


def _groups(kernel: KernelPlan) -> tuple[tuple[str, ...], ...]:
    """Sets of shared buffers that are live at one statement."""
    buffers = kernel.scope(Scope.SHARED)
    moments = sorted({moment for buffer in buffers for moment in buffer.life})
    return tuple(
        tuple(buffer.name for buffer in buffers if buffer.life[0] <= moment <= buffer.life[1]) for moment in moments
    ) or ((),)


def alignment_of(buffer: Buffer, target: Target) -> int:
    """Of a shared buffer in bytes: only TMA and WGMMA ask for more than the allocator's own."""
    return buffer.alignment if target.tma is not None else ARENA_ALIGNMENT


def _lives(kernel: KernelPlan, target: Target) -> list[SharedBuffer]:
    return [
        SharedBuffer(buffer.name, buffer.nbytes, *buffer.life, alignment=alignment_of(buffer, target))
        for buffer in kernel.scope(Scope.SHARED)
    ]
