"""The shared-memory bar: where each buffer of a block lies, as TileLang's allocator places it, against the chip's limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.lowering.occupancy import occupancy
from tilegen.lowering.shared_memory import SharedBuffer, arena
from tilegen.plan.model import KernelPlan, Scope
from tilegen.plan.resources import alignment_of, static_shared_bytes

if TYPE_CHECKING:
    from tilegen.review.page.sized import SizedPlan

KIB = 1024


@dataclass(frozen=True)
class Segment:
    """Bytes ``offset`` to ``offset + size`` of a block. Buffers that share bytes, one after the other, have other rows."""

    name: str
    offset: int
    size: int
    row: int
    tone: int
    note: str


@dataclass(frozen=True)
class SharedBar:
    """``used`` and ``limit`` in bytes; ``blocks`` is how many such blocks an SM holds as far as memory and threads go."""

    segments: tuple[Segment, ...]
    used: int
    limit: int
    per_sm: int
    blocks: int
    limiter: str
    ticks: tuple[int, ...]

    @property
    def rows(self) -> int:
        return 1 + max((segment.row for segment in self.segments), default=0)

    @property
    def fits(self) -> bool:
        return self.used <= self.limit


def shared_bar(sized: SizedPlan, kernel: KernelPlan, tones: dict[str, int]) -> SharedBar | None:
    """The bar of a kernel; None where a size is not known at this shape."""
    target = sized.plan.target
    sizes = {buffer.name: sized.number(buffer.nbytes) for buffer in kernel.scope(Scope.SHARED)}
    threads = sized.number(kernel.launch.block_threads)
    if any(size is None for size in sizes.values()) or threads is None:
        return None
    placed = arena(
        SharedBuffer(buffer.name, sizes[buffer.name] or 0, *buffer.life, alignment=alignment_of(buffer, target))
        for buffer in kernel.scope(Scope.SHARED)
    )
    static = sized.number(static_shared_bytes(kernel)) or 0
    segments = [Segment("barriers", 0, static, 0, 0, "mbarriers, to a multiple of 1,024")] if static else []
    for buffer in sorted(kernel.scope(Scope.SHARED), key=lambda entry: placed.offsets.get(entry.name, 0)):
        if buffer.name not in placed.offsets:
            continue
        offset, size = static + placed.offsets[buffer.name], sizes[buffer.name] or 0
        row = _free_row(segments, offset, size)
        segments.append(Segment(buffer.name, offset, size, row, tones.get(buffer.name, 0), buffer.holds))
    used = static + placed.bytes
    found = occupancy(target, threads=threads, shared_bytes=used, registers=0)
    limit = target.shared_memory.per_block
    return SharedBar(
        tuple(segments),
        used,
        limit,
        target.shared_memory.per_sm,
        found.blocks_per_sm,
        found.limiter,
        tuple(range(0, limit + 1, 64 * KIB)),
    )


def _free_row(segments: list[Segment], offset: int, size: int) -> int:
    row = 0
    while any(
        other.row == row and other.offset < offset + size and offset < other.offset + other.size for other in segments
    ):
        row += 1
    return row
