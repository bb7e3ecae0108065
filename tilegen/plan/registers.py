"""What the threads of a kernel hold in registers, beside what they may use: an estimate, for ptxas decides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.expr import Condition, Size, add, all_of, at_most, ceil_div, maximum, multiply
from tilegen.lowering.instruction import GemmPath, GemmRefusal
from tilegen.lowering.legal import align_up
from tilegen.lowering.partition import WARP_M
from tilegen.lowering.registers import (
    CONVERTED_AGAIN,
    CONVERTED_OVERHEAD,
    DOUBLE_OVERHEAD,
    FLOAT_ROW_OVERHEAD,
    launch_limit,
    register_budget,
    row_overhead,
)
from tilegen.plan.instruction import asked_of_path, whole
from tilegen.plan.model import Copy, Elementwise, Gemm, KernelPlan, Reduce, Scope
from tilegen.plan.overhead import DIVIDES, Number, beside_accumulators
from tilegen.plan.pipeline import producer_threads
from tilegen.plan.resources import REGISTER_BYTES, fragment_registers
from tilegen.targets.facts import answer

if TYPE_CHECKING:
    from tilegen.plan.model import Buffer, TilePlan
    from tilegen.targets import Target


@dataclass(frozen=True)
class Demand:
    """32-bit registers of a thread: fragments that live at once by name, about what is needed beside them, and how many
    there are. ``converted``: what all comes to where a row stays converted to the dtype of its sum; 0 where none does.
    """

    held: Mapping[str, Size]
    beside: int
    available: int
    converted: Size = 0

    @property
    def total(self) -> Size:
        return add(*self.held.values())

    @property
    def needed(self) -> Size:
        """All that a thread would like to have."""
        return maximum(add(self.total, self.beside), self.converted)

    @property
    def fits(self) -> Condition:
        """That nothing spills."""
        held = at_most(self.total, self.available - self.beside)
        return held if self.converted == 0 else all_of(held, at_most(self.converted, self.available))


def demands(plan: TilePlan, kernel: KernelPlan, number: Number = whole) -> list[Demand]:
    """One for each group of threads that holds fragments of its own; none where nothing is known.

    ``number`` gives the value of a size at one shape.
    """
    if plan.target.kind != "cuda" or not isinstance(kernel.launch.threads, int):
        return []
    found = list(accumulator_demands(plan, kernel, number))
    return found or list(row_demands(plan, kernel))


def accumulator_demands(plan: TilePlan, kernel: KernelPlan, number: Number = whole) -> Iterator[Demand]:
    """Of a kernel of products: the accumulators of a thread, or of each warp group. Two rules ask, with ``whole`` numbers."""
    if number is not whole:
        return _accumulator_demands(plan, kernel, number)
    key = "accumulators", plan.schedule, plan.dynamic_dims
    found: tuple[Demand, ...] = kernel.by_chip.of(
        key, plan.target, lambda chip: tuple(_accumulator_demands(plan.on(chip), kernel, number))
    )
    return iter(found)


def _accumulator_demands(plan: TilePlan, kernel: KernelPlan, number: Number) -> Iterator[Demand]:
    threads, beside = kernel.launch.threads, beside_accumulators(plan, kernel, number)
    if beside is None or not isinstance(threads, int) or plan.target.kind != "cuda":
        return
    available = _available(plan, kernel, threads)
    for names in together(kernel):
        held = {name: _kept(plan, kernel, name, number) for name in names}
        yield Demand(held, beside, available)


def _kept(plan: TilePlan, kernel: KernelPlan, name: str, number: Number) -> Size:
    """Registers of an accumulator. Where it goes straight to a tensor of fewer rows than the tile has, what is left out of
    each warp's rows is never stored, and the compiler drops it.
    """
    held = fragment_registers(kernel, kernel.buffer(name))
    stores = [
        copy for copy, _ in kernel.find(Copy) if copy.src == name and kernel.buffer(copy.dst).scope is Scope.GLOBAL
    ]
    gemm = next(gemm for gemm, _ in kernel.find(Gemm) if gemm.acc == name)
    m, there = number(gemm.m), number(kernel.buffer(stores[0].dst).shape[-2]) if stores else None
    if m is None or there is None or number(stores[0].rows) != m or there >= m:
        return held
    warps = asked_of_path(plan.target, kernel, gemm, _warps_along_m, number=number)
    if not warps:
        return held
    rows = m // warps
    return ceil_div(multiply(held, min(align_up(there, WARP_M), rows)), rows)


def _warps_along_m(path: GemmPath | GemmRefusal | None) -> int:
    """0 where the instruction is not known, or is one of a whole warp group."""
    return path.partition.m if isinstance(path, GemmPath) and path.instruction != "wgmma" else 0


def _available(plan: TilePlan, kernel: KernelPlan, threads: int) -> int:
    producers = kernel.launch.producer_threads
    if kernel.roles and isinstance(producers, int) and threads <= (plan.target.launch.warp_group_size or 0):
        # A schedule of ours with one warp group of consumers has registers enough, and moves none.
        return launch_limit(plan.target, threads + producers)
    if isinstance(producers, int) and producers > producer_threads(plan.target) > 0:
        # As many producers as consumers, since TMA does not carry every tile: TileLang then moves no registers.
        return launch_limit(plan.target, threads + producers)
    return register_budget(plan.target, threads, warp_specialised=bool(producers))


TWICE = ("mean", "row_max")
"""Row statistics that are computed before the terms of another: the row then stays converted to their dtype."""


def row_demands(plan: TilePlan, kernel: KernelPlan) -> Iterator[Demand]:
    """Of a kernel that holds rows: what is loaded stays until the rows are written."""
    threads, blocks = kernel.launch.threads, plan.tiles.get("blocks_per_sm", 1)
    rows = [buffer for buffer in kernel.scope(Scope.FRAGMENT) if len(buffer.shape) == 2 and is_loaded(kernel, buffer)]
    widths = [buffer.shape[1:] for buffer in rows]
    fragments = [*rows, *(buffer for buffer in kernel.scope(Scope.FRAGMENT) if buffer.shape in widths)]
    if not fragments or not isinstance(threads, int) or not isinstance(blocks, int) or plan.target.kind != "cuda":
        return
    # More blocks than an SM can have are a hint that ptxas leaves aside.
    available = launch_limit(plan.target, threads * (blocks if answer(plan.target, resident, threads, blocks) else 1))
    counts = {buffer.name: _row_registers(kernel, buffer) for buffer in fragments}
    beside = _beside_rows(kernel, rows[0] if rows else None, available)
    yield Demand(counts, beside, available, _converted(plan, kernel, rows[0], counts, beside) if rows else 0)


def resident(chip: Target, threads: Size, blocks: Size) -> Condition:
    """That so many blocks, of so many threads each, can be on one SM at once."""
    launch = chip.launch
    return all_of(
        at_most(multiply(threads, blocks), launch.max_threads_per_sm), at_most(blocks, launch.max_blocks_per_sm)
    )


def _converted(plan: TilePlan, kernel: KernelPlan, row: Buffer, counts: Mapping[str, Size], beside: int) -> Size:
    """Registers of a row that the sum and the result convert alike, with all that is held beside it: ptxas holds what comes
    out, twice as wide. From 16 to 64 bits the second half of the way is made again.

    Where a thread has several rows, and no barrier stands between one and the next, it goes through one after the other:
    only one is converted at a time, and vectors of columns once for all of them. Where the result divides, there are
    branches between the sum and most of it: a conversion is made again rather than held across them. Vectors of float32
    need no conversion: where registers are short, their loads sink below the sum.
    """
    again = any(loops for copy, loops in kernel.find(Copy) if copy.dst == row.name)
    if _accum_bytes(kernel) <= row.itemsize or again or _wider(kernel, row) > 1:
        return 0  # as wide already, loaded again for the result, or counted as converted
    held, vectors = counts[row.name], [name for name in counts if name != row.name]
    narrow = [counts[name] for name in vectors if kernel.buffer(name).itemsize < REGISTER_BYTES]
    lanes = maximum(kernel.row_passes[0].lanes, 1) if kernel.row_passes else 1
    rows = maximum(ceil_div(multiply(row.shape[0], lanes), kernel.launch.threads), 1)
    if row.annotated and isinstance(lanes, int) and lanes <= plan.target.launch.warp_size and rows != 1:
        others = (counts[name] for name in vectors)
        return add(held, ceil_div(held, rows), *others, *narrow, 0 if vectors else beside)
    if _divides(kernel):
        return 0
    if _loads_for_results(kernel) and not vectors and row.dtype == "bfloat16":
        return add(held, held, -CONVERTED_AGAIN)
    return add(held, held, *narrow, 0 if narrow else CONVERTED_OVERHEAD)


def _beside_rows(kernel: KernelPlan, row: Buffer | None, available: int) -> int:
    """What a row norm needs beside what it holds: little where nothing is converted and nothing is divided."""
    if row is None or row.itemsize != REGISTER_BYTES or _accum_bytes(kernel) != REGISTER_BYTES or _divides(kernel):
        return row_overhead(available) + _double(kernel)
    return FLOAT_ROW_OVERHEAD + (ADDRESS if _loads_for_results(kernel) else 0)


ADDRESS = 2
"""Registers of an address in global memory."""


def _results(kernel: KernelPlan) -> Iterator[Elementwise]:
    return (op for op, _ in kernel.find(Elementwise) if kernel.buffer(op.writes).scope is Scope.GLOBAL)


def _divides(kernel: KernelPlan) -> bool:
    """Whether what is stored is divided."""
    return any(DIVIDES.search(op.what) for op in _results(kernel))


def _loads_for_results(kernel: KernelPlan) -> bool:
    """Whether what is stored is computed from more of global memory."""
    return any(kernel.buffer(name).scope is Scope.GLOBAL for op in _results(kernel) for name in op.reads)


def _accum_bytes(kernel: KernelPlan) -> int:
    """Of the widest statistic of a row."""
    return max((kernel.buffer(reduce.dst).itemsize for reduce, _ in kernel.find(Reduce)), default=REGISTER_BYTES)


def _double(kernel: KernelPlan) -> int:
    """What functions and divisions of float64 need: each is a sequence of instructions on pairs of registers, or a call."""
    formulas = (op.what for op, _ in kernel.find(Elementwise))
    return DOUBLE_OVERHEAD if _accum_bytes(kernel) > REGISTER_BYTES and any(map(COMPUTES.search, formulas)) else 0


COMPUTES = re.compile(r"/|\w\(")
"""In the text of a formula: a division or a function."""


def _row_registers(kernel: KernelPlan, buffer: Buffer) -> Size:
    rows = kernel.row_passes[0] if kernel.row_passes else None
    lanes = maximum(rows.lanes, 1) if rows else 1
    if len(buffer.shape) == 1 and rows:
        # One value a column: the lanes of every row hold them all.
        return ceil_div(multiply(buffer.elements, buffer.itemsize), multiply(lanes, REGISTER_BYTES))
    if len(buffer.shape) == 1 or not rows or not buffer.annotated:
        return multiply(fragment_registers(kernel, buffer), buffer.count, _wider(kernel, buffer))
    # Threads beyond the last row hold nothing, and the others no less for it.
    rows_held = ceil_div(multiply(buffer.shape[0], lanes), kernel.launch.threads)
    elements = multiply(rows_held, ceil_div(buffer.shape[1], lanes))
    return multiply(ceil_div(multiply(elements, buffer.itemsize), REGISTER_BYTES), buffer.count, _wider(kernel, buffer))


def _wider(kernel: KernelPlan, buffer: Buffer) -> int:
    """How many times as wide a row is in registers as in memory: it stays converted where it is read again as it was, and
    where converting is dear, from eight bits.
    """
    twice = [other for other in kernel.buffers if other.name in TWICE]
    accum = max((other.itemsize for other in twice), default=REGISTER_BYTES if buffer.itemsize == 1 else 0)
    return max(accum // buffer.itemsize, 1) if len(buffer.shape) == 2 else 1


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
