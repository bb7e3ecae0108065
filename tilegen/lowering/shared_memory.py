"""How many bytes of shared memory a kernel takes.

Rule (dynamic). TileLang merges all shared buffers of a kernel into one arena. The program is read as the sequence of
statements at the level where the buffers are allocated: a loop, an `if`, a `with T.ws(...)` is one statement, whatever
lies inside. The two branches that warp specialisation makes are read one after the other, producer first. A buffer
lives from the first statement that touches it to the last. Buffers are placed by first statement, larger before
smaller, name before name: into the free block that is left the least over, else onto the free block at the end of the
arena, else at the end. The total is rounded up to 16 bytes. A kernel with one buffer takes exactly its size.

Hence the C tile of a gemm, first touched after the loop, reuses what A and B leave; two tiles that are touched in the
same loop never share. A kernel that is one big `if` over thread ranges (hand-written warp specialisation) reuses
nothing.

Rule (stages). A buffer that a `T.Pipelined` loop fills by copies has `num_stages` versions, one at least, on CUDA,
also where the loop runs fewer trips. gfx942 drops the stages.

Rule (static). Barriers are static, 8 bytes each; since the arena starts at a multiple of 1024 bytes, a kernel with
barriers takes a multiple of 1024 more. Dynamic and static together must stay under the cap of the chip; neither
TileLang nor nvcc checks it.

Rule (workspace). A reduction across more than 32 threads takes one element for each thread, live where it stands.

Source: tilelang src/transform/merge_shared_memory_allocations.cc, LivenessAnalysis, PlanMemory and LinearScanPack;
src/transform/pipeline_planning.cc; src/cuda/op/reduce.cc; src/cuda/codegen/codegen_cuda.cc (`__align__(1024)`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tilegen.lowering.legal import align_up
from tilegen.targets import Target

ARENA_ALIGNMENT = 16
BASE_ALIGNMENT = 1024
BARRIER_BYTES = 8
SHUFFLE_THREADS = 32


@dataclass(frozen=True)
class SharedBuffer:
    """A buffer with its life, counted in statements of the allocation level, both ends included."""

    name: str
    bytes: int
    first: int
    last: int
    alignment: int = ARENA_ALIGNMENT


@dataclass(frozen=True)
class Arena:
    """The shared memory of a block: all of its bytes, and where each buffer starts."""

    bytes: int
    offsets: dict[str, int]


def dynamic_bytes(buffers: Iterable[SharedBuffer]) -> int:
    """Dynamic shared memory of a kernel with these buffers."""
    return _dynamic_bytes(tuple(buffers))


@lru_cache(maxsize=8192)
def _dynamic_bytes(buffers: tuple[SharedBuffer, ...]) -> int:
    return arena(buffers).bytes


def arena(buffers: Iterable[SharedBuffer]) -> Arena:
    """Where each buffer lies, and how far the arena reaches."""
    waiting = sorted((b for b in buffers if b.bytes > 0), key=lambda b: (b.first, -b.bytes, b.name))
    if len(waiting) == 1:
        return Arena(waiting[0].bytes, {waiting[0].name: 0})
    free = _FreeList()
    top = 0
    live: list[SharedBuffer] = []
    offsets: dict[str, int] = {}
    for buffer in waiting:
        for gone in sorted((b for b in live if b.last < buffer.first), key=lambda b: b.last):
            free.release(offsets[gone.name], gone.bytes)
            live.remove(gone)
        offset = free.take(buffer.bytes, buffer.alignment)
        if offset is None:
            offset = free.take_tail(buffer.alignment, top)
            if offset is None:
                offset = align_up(top, buffer.alignment)
                free.release(top, offset - top)
            top = offset + buffer.bytes
        offsets[buffer.name] = offset
        live.append(buffer)
    return Arena(align_up(top, ARENA_ALIGNMENT), offsets)


def versions(target: Target, stages: int) -> int:
    """How many copies of a buffer a pipelined loop of so many stages keeps."""
    return max(stages, 1) if target.kind == "cuda" else 1


def static_bytes(barriers: int) -> int:
    """Static shared memory of a kernel with so many mbarriers; 0 barriers for a kernel that has none."""
    return align_up(barriers * BARRIER_BYTES, BASE_ALIGNMENT)


def workspace_bytes(lanes: int, threads: int, itemsize: int = 4) -> int:
    """Workspace of one reduction across so many threads, in a block of `threads` (the consumers' alone)."""
    return threads * itemsize if lanes > SHUFFLE_THREADS else 0


def accumulator_workspace_bytes(n_warp: int, threads: int, itemsize: int = 4) -> int:
    """Workspace of one reduction along the rows of a gemm accumulator that `n_warp` warps share by columns.

    With one warp along N a row lies across 4 lanes; with more, the reduction crosses warps.
    """
    return threads * itemsize if n_warp > 1 else 0


def fits(target: Target, dynamic: int, static: int = 0) -> bool:
    """Whether the chip gives one block so much."""
    return dynamic + static <= target.shared_memory.per_block


def most_stages(target: Target, per_stage: int, fixed: int, static: int = 0, limit: int = 16) -> int:
    """The most stages that fit, where each takes `per_stage` bytes on top of `fixed`; 0 if one does not."""
    room = target.shared_memory.per_block - static - fixed
    return max(0, min(limit, room // per_stage)) if per_stage else limit


def gemm_buffers(
    block_m: int, block_n: int, block_k: int, itemsize: int, copies: int, staged_itemsize: int = 0
) -> tuple[SharedBuffer, ...]:
    """The buffers of a pipelined gemm: A and B live in the loop, the staged C (if its item size is given) after it."""
    loop, epilogue = 1, 2
    return (
        SharedBuffer("A", copies * block_m * block_k * itemsize, loop, loop),
        SharedBuffer("B", copies * block_k * block_n * itemsize, loop, loop),
        SharedBuffer("C", block_m * block_n * staged_itemsize, epilogue, epilogue),
    )


def at_alignment(buffers: Sequence[SharedBuffer], alignment: int) -> tuple[SharedBuffer, ...]:
    """The same buffers with bases at a multiple of `alignment`, as TMA and matrix descriptors need."""
    return tuple(replace(b, alignment=max(b.alignment, alignment)) for b in buffers)


@dataclass(frozen=True)
class _Block:
    """A free part of the arena."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size


class _FreeList:
    """Free blocks of the arena, in order of address, neighbours joined."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []

    def release(self, offset: int, size: int) -> None:
        if size == 0:
            return
        self._blocks.append(_Block(offset, size))
        self._blocks.sort(key=lambda b: b.offset)
        joined: list[_Block] = []
        for block in self._blocks:
            if joined and joined[-1].end >= block.offset:
                last = joined.pop()
                block = _Block(last.offset, max(last.end, block.end) - last.offset)
            joined.append(block)
        self._blocks = joined

    def take(self, size: int, alignment: int) -> int | None:
        """The start of a hole in the free block that is left the least over; None where no block holds it."""
        fitting = [b for b in self._blocks if align_up(b.offset, alignment) + size <= b.end]
        if not fitting:
            return None
        block = min(fitting, key=lambda b: b.size)
        offset = align_up(block.offset, alignment)
        self._blocks.remove(block)
        self.release(block.offset, offset - block.offset)
        self.release(offset + size, block.end - offset - size)
        return offset

    def take_tail(self, alignment: int, top: int) -> int | None:
        """The aligned start of the free block that ends the arena; None where the arena ends in a live buffer."""
        if not self._blocks or self._blocks[-1].end != top:
            return None
        block = self._blocks[-1]
        offset = align_up(block.offset, alignment)
        if offset >= top:
            return None
        self._blocks.pop()
        self.release(block.offset, offset - block.offset)
        return offset
