"""How many blocks are resident on one SM at once.

Rule. The least of what shared memory, registers, threads and the block limit allow. Shared memory is rounded up to the
allocation unit and each block also pays what the system reserves. Registers are allocated a warp at a time, rounded
up, out of the partition that the warp runs on.

Source: cuda_occupancy.h of CUDA 13.0, cudaOccMaxBlocksPerSMSmemLimit and cudaOccMaxBlocksPerSMRegsLimit.
"""

from dataclasses import dataclass

from tilegen.lowering.legal import align_up
from tilegen.targets import Target


@dataclass(frozen=True)
class Occupancy:
    """Blocks that fit one SM, by each thing that they share."""

    by_shared_memory: int
    by_registers: int
    by_threads: int
    by_blocks: int

    @property
    def blocks_per_sm(self) -> int:
        return min(self.by_shared_memory, self.by_registers, self.by_threads, self.by_blocks)

    @property
    def limiter(self) -> str:
        limits = {
            "shared memory": self.by_shared_memory,
            "registers": self.by_registers,
            "threads": self.by_threads,
            "blocks": self.by_blocks,
        }
        return min(limits, key=lambda name: limits[name])


def occupancy(target: Target, *, threads: int, shared_bytes: int, registers: int) -> Occupancy:
    """Blocks that one SM holds.

    `threads`: the launched block, producers included. `shared_bytes`: static and dynamic together. `registers`: a
    thread, as ptxas reports them; a warp-specialised kernel is launched with this number and reallocates later.
    """
    return Occupancy(
        by_shared_memory=_by_shared_memory(target, shared_bytes),
        by_registers=_by_registers(target, threads, registers),
        by_threads=target.launch.max_threads_per_sm // align_up(threads, target.launch.warp_size),
        by_blocks=target.launch.max_blocks_per_sm,
    )


def waves(blocks: int, resident: int, sm_count: int) -> float:
    """Rounds that a grid takes: its blocks over those that run at once. Above 1, the fraction is the tail."""
    return blocks / (resident * sm_count)


def _by_shared_memory(target: Target, shared_bytes: int) -> int:
    memory = target.shared_memory
    if shared_bytes > memory.per_block:
        return 0
    used = align_up(shared_bytes + memory.reserved_per_block, memory.allocation_unit)
    return memory.per_sm // used if used else target.launch.max_blocks_per_sm


def _by_registers(target: Target, threads: int, registers: int) -> int:
    file = target.registers
    warps = -(-threads // target.launch.warp_size)
    per_warp = align_up(registers * target.launch.warp_size, file.allocation_unit_per_warp)
    if registers > file.per_thread or per_warp * align_up(warps, file.partitions) > file.per_block:
        return 0
    if per_warp == 0:
        return target.launch.max_blocks_per_sm
    return file.per_sm // file.partitions // per_warp * file.partitions // warps
