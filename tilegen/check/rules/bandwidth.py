"""Memory and occupancy: bank conflicts, narrow accesses, blocks that do not fill a chip or an SM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tilegen.check.claim import text_at
from tilegen.check.rule import Obligation, parameter_of, rule, text_of
from tilegen.check.rules.copies import tma_loads, tma_stores
from tilegen.expr import all_of, at_least, divides, free_names, multiply, substitute, to_text
from tilegen.lowering.occupancy import Occupancy, occupancy
from tilegen.plan.layout import PHASE, LayoutError, SharedLayout, layout_in
from tilegen.plan.model import Gemm, KernelPlan, LoopKind, Scope
from tilegen.plan.registers import accumulator_demands, resident
from tilegen.plan.resources import shared_bytes, static_shared_bytes
from tilegen.spec.diagnostic import Severity
from tilegen.targets.facts import answer

if TYPE_CHECKING:
    from tilegen.expr import Size
    from tilegen.plan.model import TilePlan


@rule(
    "J1",
    "bank-conflicts",
    sentence="8 rows x 16 bytes of a gemm operand, as matrix loads read it, lie in different banks",
    source="CUDA Programming Guide, shared memory: 32 banks of 4 bytes; tilelang src/layout/gemm_layouts.cc: a tile whose "
    "rows are no multiple of 8 is not swizzled",
    severity=Severity.SLOW,
    today="TileLang silently leaves the tile row-major: each load is replayed as often as rows meet in a bank",
    unless=("D8",),
)
def bank_conflicts(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        for name in dict.fromkeys(name for gemm, _ in kernel.find(Gemm) for name in (gemm.a, gemm.b)):
            buffer = kernel.buffer(name)
            if buffer.scope is not Scope.SHARED or plan.target.kind != "cuda":
                continue
            try:
                layout = layout_in(plan.target, kernel, buffer)
            except LayoutError:
                continue  # sizes that are not numbers, or that rule D8 speaks of
            ways = _ways(layout)
            yield Obligation(
                ways == 1,
                at=buffer.at,
                label=f"{layout.title}: 8 rows of 16 bytes meet {ways} times in one bank",
                parameter=parameter_of(buffer.at),
                related=tuple(key for key in buffer.decided_by[:-1] if key != "tile.stages"),
            )


@lru_cache(maxsize=4096)
def _ways(layout: SharedLayout) -> int:
    """The pattern of banks is the same every 8 rows."""
    return replace(layout, rows=min(layout.rows, PHASE)).down_ways


@rule(
    "J2",
    "vector-16-bytes",
    sentence="what copies between global and shared memory without TMA has rows of a multiple of 16 bytes",
    source="tilelang src/transform/loop_vectorize.cc, VectorizePlanner: the widest power of two that divides every row",
    severity=Severity.SLOW,
    today="TileLang silently copies 8, 4 or 2 bytes a thread",
    unless=("C3", "C4", "C10"),
)
def vector_width(plan: TilePlan) -> Iterator[Obligation]:
    by_tma = {copy for _, copy, _ in tma_loads(plan)} | {copy for _, copy in tma_stores(plan)}
    loads = [(kernel.buffer(copy.src), copy) for kernel in plan.kernels for copy, _ in kernel.loads]
    stores = [(kernel.buffer(copy.dst), copy) for kernel in plan.kernels for copy, _ in kernel.stores]
    others = [(tensor, copy) for tensor, copy in loads + stores if copy not in by_tma]
    for tensor, copy in others:
        wide = plan.target.copy.vector_bytes
        pitch, columns, item = copy.row_pitch, copy.extents[-1], tensor.itemsize
        assert pitch is not None  # one side of the copy is global
        yield Obligation(
            all_of(divides(wide, multiply(pitch, item)), divides(wide, multiply(columns, item))),
            at=tensor.at,
            label=text_of(
                lambda values, t, p, c, wide: (
                    f"rows of `{t.name}` are {text_at(p, values)} x {t.itemsize} B apart and the tile takes "
                    f"{text_at(c, values)} x {t.itemsize} B of each: no multiple of {wide}"
                ),
                tensor,
                pitch,
                columns,
                wide,
            ),
            help=(f"pad the rows of `{tensor.name}` to a multiple of {wide // item} elements",),
        )


@rule(
    "J8",
    "one-block-where-two-fit",
    sentence="stages do not take the shared memory of a second block that registers and threads leave room for",
    source="cuda_occupancy.h of CUDA 13.0: blocks of an SM",
    severity=Severity.SLOW,
    today="accepted; one block's waiting is not hidden by another's work",
)
def second_block(plan: TilePlan) -> Iterator[Obligation]:
    # A derived number of stages is the family's to choose; a warp-specialised block has the SM to itself.
    if "stages" not in plan.tiles or plan.case.chosen["stages"] < 0:
        return
    for kernel in plan.kernels:
        loop = next((loop for loop in kernel.loops() if loop.kind is LoopKind.PIPELINED), None)
        if loop is None:
            continue
        registers = _held_registers(plan, kernel)
        if kernel.launch.producer_threads or registers is None or not isinstance(loop.stages, int):
            continue
        now = _resident(plan, kernel, loop.stages, registers)
        alone = now.blocks_per_sm == 1 and now.limiter == "shared memory"
        fewer = _stages_of_two(plan, kernel, loop.stages, registers) if alone else None
        yield Obligation(
            fewer is None,
            at="tile.stages",
            label=f"{loop.stages} stages leave one block on an SM; with {fewer}, {'two' if fewer else 'no more'} fit",
            parameter="stages",
            related=loop.decided_by,
        )


def _held_registers(plan: TilePlan, kernel: KernelPlan) -> int | None:
    """Registers that a thread of a kernel of products needs, about; None where sizes depend on dims or it has none."""
    needed = [demand.needed for demand in accumulator_demands(plan, kernel)]
    known = [count for count in needed if isinstance(count, int)]
    return min(max(known), plan.target.registers.per_thread) if known and len(known) == len(needed) else None


def _stages_of_two(plan: TilePlan, kernel: KernelPlan, stages: int, registers: int) -> int | None:
    """The most stages below ``stages`` that leave room for a second block; None where even two do not."""
    found = {fewer: _resident(plan, kernel, fewer, registers) for fewer in range(2, stages)}
    return max((fewer for fewer, resident in found.items() if resident.blocks_per_sm >= 2), default=None)


def _resident(plan: TilePlan, kernel: KernelPlan, stages: int, registers: int) -> Occupancy:
    """What fits one SM with so many stages. All sizes are numbers, or the registers of a thread would not be known."""
    loop = next(loop for loop in kernel.loops() if loop.kind is LoopKind.PIPELINED)
    staged = replace(
        kernel,
        buffers=tuple(
            replace(buffer, stages=stages) if buffer.stages == loop.stages else buffer for buffer in kernel.buffers
        ),
    )
    dynamic, threads = shared_bytes(staged, plan.target), kernel.launch.block_threads
    assert isinstance(dynamic, int)
    assert isinstance(threads, int)
    static = static_shared_bytes(kernel)
    return occupancy(plan.target, threads=threads, shared_bytes=dynamic + static, registers=registers)


@rule(
    "J10",
    "resident-blocks",
    sentence="as many blocks as registers are to leave room for can be on one SM at once",
    source="CUDA Programming Guide, launch bounds and table of compute capabilities; ptxas 13.0",
    severity=Severity.NOTE,
    today="ptxas leaves the wish aside, and takes as many registers as it likes",
)
def resident_blocks(plan: TilePlan) -> Iterator[Obligation]:
    blocks = plan.tiles.get("blocks_per_sm")
    if blocks is None or plan.target.kind != "cuda":
        return
    for kernel in plan.kernels:
        threads = multiply(kernel.launch.threads, blocks)
        yield Obligation(
            answer(plan.target, resident, kernel.launch.threads, blocks),
            at="tile.blocks_per_sm",
            label=text_of(
                lambda values, blocks, threads: (
                    f"{text_at(blocks, values)} blocks are {text_at(threads, values)} threads; an SM of {plan.target.name} "
                    f"has {plan.target.launch.max_threads_per_sm} threads and {plan.target.launch.max_blocks_per_sm} blocks"
                ),
                blocks,
                threads,
            ),
            parameter="blocks_per_sm",
            related=("tile.threads",),
        )


@lru_cache(maxsize=4096)
def _at_largest(blocks: Any, dynamic: tuple[tuple[str, int], ...]) -> Size:
    """The blocks of a grid where dims are as large as they may be. Chips ask the same."""
    found: Size = substitute(blocks, dict(dynamic))
    return found


@rule(
    "J9",
    "grid-fills-chip",
    sentence="at its largest declared shape a kernel has a block for every SM",
    source="arithmetic: an SM without a block does nothing",
    severity=Severity.SLOW,
    today="accepted; the idle part of the chip is lost on every declared shape",
    some_shape=True,
)
def grid_fills(plan: TilePlan) -> Iterator[Obligation]:
    dynamic = tuple((dim.name, dim.range.hi) for dim in plan.spec.dims if dim.dynamic and dim.range.hi is not None)
    sms = plan.target.part.sm_count
    for kernel in plan.kernels:
        blocks: Size = multiply(*kernel.launch.grid)
        works = any(kernel.find(Gemm)) or bool(kernel.row_passes)
        if not works or "sm_count" in free_names(blocks):
            continue
        most = blocks if isinstance(blocks, int) else _at_largest(blocks, dynamic)
        at = kernel.launch.at()
        yield Obligation(
            at_least(most, sms),
            at=at,
            label=text_of(
                lambda values, most, grid: (
                    f"the grid is {to_text(grid)}, at most {text_at(most, values)} blocks; "
                    f"{plan.target.part.name} has {sms} SMs"
                ),
                most,
                blocks,
            ),
            parameter=parameter_of(at),
            related=kernel.launch.decided_by[1:],
        )
