"""What the threads of a kernel hold in registers, beside what they may use: an estimate, for ptxas decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.expr import Size, add, ceil_div, maximum, multiply
from tilegen.lowering.instruction import GemmPath
from tilegen.lowering.registers import (
    MMA_ADDRESSING,
    ROW_OVERHEAD,
    WGMMA_OVERHEAD,
    launch_limit,
    mma_operand_registers,
    register_budget,
)
from tilegen.plan.instruction import path_of
from tilegen.plan.model import Copy, Gemm, KernelPlan, Scope
from tilegen.plan.resources import REGISTER_BYTES, fragment_registers

if TYPE_CHECKING:
    from tilegen.plan.model import Buffer, TilePlan


@dataclass(frozen=True)
class Demand:
    """32-bit registers of a thread: fragments that live at once by name, about what is needed beside them, and how many
    there are.
    """

    held: Mapping[str, Size]
    beside: int
    available: int

    @property
    def total(self) -> Size:
        return add(*self.held.values())

    @property
    def needed(self) -> int | None:
        """All that a thread would like to have; None where a size depends on dims."""
        total = self.total
        return total + self.beside if isinstance(total, int) else None


def demands(plan: TilePlan, kernel: KernelPlan) -> list[Demand]:
    """One for each group of threads that holds fragments of its own; none where nothing is known."""
    if plan.target.kind != "cuda" or not isinstance(kernel.launch.threads, int):
        return []
    found = list(accumulator_demands(plan, kernel))
    return found or list(row_demands(plan, kernel))


def accumulator_demands(plan: TilePlan, kernel: KernelPlan) -> Iterator[Demand]:
    """Of a kernel of products: the accumulators of a thread, or of each warp group."""
    threads, beside = kernel.launch.threads, beside_accumulators(plan, kernel)
    if beside is None or not isinstance(threads, int) or plan.target.kind != "cuda":
        return
    available = register_budget(plan.target, threads, warp_specialised=bool(kernel.launch.producer_threads))
    for names in together(kernel):
        yield Demand({name: fragment_registers(kernel, kernel.buffer(name)) for name in names}, beside, available)


TWICE = ("mean", "row_max")
"""Row statistics that are computed before the terms of another: the row then stays converted to float32."""


def row_demands(plan: TilePlan, kernel: KernelPlan) -> Iterator[Demand]:
    """Of a kernel that holds rows: what is loaded stays until the rows are written."""
    threads, blocks = kernel.launch.threads, plan.tiles.get("blocks_per_sm", 1)
    rows = [buffer for buffer in kernel.scope(Scope.FRAGMENT) if len(buffer.shape) == 2 and is_loaded(kernel, buffer)]
    widths = [buffer.shape[1:] for buffer in rows]
    fragments = [*rows, *(buffer for buffer in kernel.scope(Scope.FRAGMENT) if buffer.shape in widths)]
    if not fragments or not isinstance(threads, int) or not isinstance(blocks, int) or plan.target.kind != "cuda":
        return
    # More blocks than the threads of an SM allow are a hint that ptxas leaves aside.
    possible = threads * blocks <= plan.target.launch.max_threads_per_sm
    available = launch_limit(plan.target, threads * (blocks if possible else 1))
    converted = any(buffer.name in TWICE for buffer in kernel.buffers)
    counts = {buffer.name: _row_registers(kernel, buffer, converted=converted) for buffer in fragments}
    yield Demand(counts, ROW_OVERHEAD, available)


def _row_registers(kernel: KernelPlan, buffer: Buffer, *, converted: bool) -> Size:
    if len(buffer.shape) == 1 and kernel.row_passes:
        # One value a column: the lanes of every row hold them all.
        lanes = multiply(maximum(kernel.row_passes[0].lanes, 1), REGISTER_BYTES)
        return ceil_div(multiply(buffer.elements, buffer.itemsize), lanes)
    held = fragment_registers(kernel, buffer)
    wider = max(REGISTER_BYTES // buffer.itemsize, 1) if converted and len(buffer.shape) == 2 else 1
    return multiply(held, buffer.count, wider)


def is_loaded(kernel: KernelPlan, buffer: Buffer) -> bool:
    """Whether a fragment is copied from global memory."""
    copies = (copy for copy, _ in kernel.find(Copy) if copy.dst == buffer.name)
    return any(kernel.buffer(copy.src).scope is Scope.GLOBAL for copy in copies)


def together(kernel: KernelPlan) -> Iterator[list[str]]:
    """The accumulators that one thread holds together: all of them, or those of each warp group."""
    names = list(dict.fromkeys(gemm.acc for gemm, _ in kernel.find(Gemm)))
    groups = {name: _holder(kernel, name) for name in names}
    for group in dict.fromkeys(groups.values()):
        yield [name for name in names if groups[name] == group]


def _holder(kernel: KernelPlan, name: str) -> int | str | None:
    """Which warp group holds an accumulator: by number, or one of its own for each, or None for all of the block."""
    buffer = kernel.buffer(name)
    own = buffer.owners not in (None, kernel.launch.threads)
    return buffer.warp_group if buffer.warp_group is not None or not own else name


def beside_accumulators(plan: TilePlan, kernel: KernelPlan) -> int | None:
    """Registers that the products of a kernel need beside their accumulators; None where that is not known."""
    found = []
    for gemm, _ in kernel.find(Gemm):
        path = path_of(plan.target, kernel, gemm)
        if not isinstance(path, GemmPath):
            return None
        if path.instruction == "wgmma":
            found.append(WGMMA_OVERHEAD)
        else:
            found.append(mma_operand_registers(gemm.m // path.partition.m, gemm.n // path.partition.n) + MMA_ADDRESSING)
    return max(found, default=None)
