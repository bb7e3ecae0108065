"""What a kernel plan spends: shared memory, fragment registers. Numbers where sizes are known, expressions elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilegen.expr import ceil_div, maximum
from tilegen.plan.model import Buffer, KernelPlan, Scope

if TYPE_CHECKING:
    from tilegen.expr import Size

REGISTER_BYTES = 4


def shared_bytes(kernel: KernelPlan) -> Size:
    """Dynamic shared memory of a block in bytes: the largest set of buffers that are live at once.

    TileLang lays shared buffers out by lifetime, so that a staging tile of the epilogue reuses the pipeline's
    (``merge_shared_memory_allocations.cc``).
    """
    sizes = {buffer.name: buffer.nbytes for buffer in kernel.scope(Scope.SHARED)}
    groups = kernel.shared_groups or (tuple(sizes),)
    totals: list[Size] = [sum((sizes[name] for name in group), start=0) for group in groups]
    return maximum(*totals) if totals else 0


def static_shared_bytes(kernel: KernelPlan) -> int:
    """Bytes that barriers take before the dynamic part, which starts at a multiple of 1,024 (rule TG-B5)."""
    return 1024 if kernel.predicted.get("mbarriers") else 0


def fragment_registers(kernel: KernelPlan, buffer: Buffer) -> Size:
    """32-bit registers that a fragment takes in each thread that owns a part of it."""
    return ceil_div(buffer.elements * buffer.itemsize, kernel.launch.threads * REGISTER_BYTES)
