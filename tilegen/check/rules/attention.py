"""Attention: the run-time loop over keys, masked keys and rows, head blocks, splits, and schedules written by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from tilegen.check.claim import pointwise, text_at, value_at
from tilegen.check.rule import Obligation, rule, text_of
from tilegen.check.rules.shared_memory import is_runtime
from tilegen.expr import any_of, at_most, ceil_div, divides, equal, less, maximum, multiply, negate, symbol, to_text
from tilegen.lowering.pipeline import planned_schedule
from tilegen.plan.model import Copy, Elementwise, Fill, Gemm, KernelPlan, Loop, LoopKind, Reduce, Scope
from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.plan.model import Op, TilePlan


@rule(
    "E4",
    "runtime-trips-stages",
    sentence="a loop that cp.async pipelines over a run-time number of trips runs at most one iteration ahead",
    source="tilelang src/transform/inject_pipeline.cc, EmitImpl; src/cuda/codegen/codegen_cuda.cc, ptx_wait_group",
    severity=Severity.ERROR,
    today="TileLang stops with `Downcast from tirx.Sub to ir.IntImm failed`",
)
def runtime_trips(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        for loop, _ in kernel.find(Loop):
            if not is_runtime(plan, loop) or kernel.launch.producer_threads != 0:
                continue
            if not plan.target.copy.cp_async_bytes:
                return
            ahead = partial(_iterations_ahead, len(loop.body), _last_uses(kernel, loop))
            yield Obligation(
                pointwise(lambda stages, ahead=ahead: ahead(stages) <= 1, loop.stages),
                at="tile.stages",
                label=text_of(
                    lambda values, loop, ahead: (
                        f"{text_at(loop.stages, values)} stages issue copies {ahead(value_at(loop.stages, values))} "
                        f"iterations ahead; the loop over {to_text(loop.trips)} blocks, a number that a call decides, can "
                        f"have one left over"
                    ),
                    loop,
                    ahead,
                ),
                parameter="stages",
                related=loop.decided_by,
                help=("use stages = 1 on this target: `[target.<arch>]` with `tile = { stages = 1 }`",),
            )


def _iterations_ahead(statements: int, last_uses: Mapping[int, int], stages: int) -> int:
    return planned_schedule(statements, last_uses, stages).ahead


def _last_uses(kernel: KernelPlan, loop: Loop) -> dict[int, int]:
    """For each statement that copies into shared memory, the last statement that reads the copy."""
    found = {}
    for index, op in enumerate(loop.body):
        if not isinstance(op, Copy) or kernel.buffer(op.src).scope is not Scope.GLOBAL:
            continue
        readers = [later for later, other in enumerate(loop.body) if op.dst in _reads(other)]
        if readers:
            found[index] = max(readers)
    return found


def _reads(op: Op) -> tuple[str, ...]:
    if isinstance(op, Gemm):
        return (op.a, op.b)
    if isinstance(op, (Copy, Reduce)):
        return (op.src,)
    return op.reads if isinstance(op, Elementwise) else ()


def _softmaxes(plan: TilePlan) -> Iterator[tuple[KernelPlan, Reduce]]:
    """The first reduction over the scores of a product, their maximum: where a softmax begins. One for each kernel."""
    for kernel in plan.kernels:
        scores = {gemm.acc for gemm, _ in kernel.find(Gemm)}
        first = next((op for op, _ in kernel.find(Reduce) if op.src in scores), None)
        if first is not None:
            yield kernel, first


def _does(kernel: KernelPlan, what: str) -> list[Elementwise]:
    return [op for op, _ in kernel.find(Elementwise) if op.what.startswith(what)]


@rule(
    "E5",
    "key-tail",
    sentence="keys past the end are masked, or every number of keys is a whole number of blocks",
    source="tilelang src/cuda/op/copy.cc: elements outside the tensor load as zero, and a score of zero is a score",
    severity=Severity.ERROR,
    today="accepted; 65 keys in blocks of 64: relative error 0.37, 1000 keys: 0.014 (MLA decode, H200)",
    of_family=True,
)
def key_tail(plan: TilePlan) -> Iterator[Obligation]:
    for kernel, maximum_ in _softmaxes(plan):
        masked = any(op.writes == maximum_.src for op in _does(kernel, "mask"))
        yield Obligation(
            masked or divides(maximum_.length, symbol("S")),
            at="tile.BLOCK_N",
            label=text_of(
                lambda values, reduce: (
                    f"S = {to_text(value_at(symbol('S'), values))} is no multiple of {to_text(reduce.length)}, and nothing "
                    f"masks `{reduce.src}`"
                ),
                maximum_,
            ),
        )


@rule(
    "E6",
    "masked-row",
    sentence="a running maximum starts finite, and a row sum is not divided by where it is zero",
    source="IEEE 754: -inf minus -inf and 0 / 0 are NaN",
    severity=Severity.ERROR,
    today="accepted; rows whose first block is masked are NaN (9 of 32 rows, a window of 8 keys in blocks of 16)",
    of_family=True,
)
def masked_row(plan: TilePlan) -> Iterator[Obligation]:
    for kernel, _ in _softmaxes(plan):
        running = {op.writes for op in _does(kernel, "running maximum")}
        starts = [op for op, _ in kernel.find(Fill) if op.buffer in running]
        finite = bool(starts) and math.isfinite(min(op.value for op in starts))
        yield Obligation(
            finite and bool(_does(kernel, "divisor")),
            at="tile.BLOCK_N",
            label=f"{kernel.name}: "
            + ("a row sum may be zero where it divides" if finite else "a running maximum starts at -inf"),
        )


@rule(
    "E14",
    "split-without-keys",
    sentence="a split without keys weighs nothing: its LSE is -inf, and the maximum over splits starts finite",
    source="IEEE 754: -inf minus -inf and 0 / 0 are NaN; seq_lens decides at run time which splits have keys",
    severity=Severity.ERROR,
    today="accepted; a sequence shorter than the first split is NaN",
    of_family=True,
)
def split_without_keys(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        merges = [op for op, _ in kernel.find(Elementwise) if "o_partial" in op.reads]
        if merges:
            yield Obligation(
                all(op.what.startswith("running maximum: finite") for op in merges) and bool(_does(kernel, "divisor")),
                at="tile.num_split",
                label=f"{kernel.name} merges partial results, and nothing keeps those without keys out",
            )


@rule(
    "E15",
    "split-block-threads",
    sentence="a warp-specialised block of a split has at most 512 threads, the producers included, or all heads; of 256 "
    "consumers it has no 128 keys of 16 rotary columns",
    source="measured: TileLang counts the threads that reach a barrier under a solver's limit of work, and comes to 401 to "
    "467 of 640, and to 28 of 384 with 128 keys of 16 rotary columns; 64, 80, 96, 112 and 192 keys are fine there",
    severity=Severity.ERROR,
    today="TileLang stops with `[ThreadSync] Cannot lower a required shared-memory sync inside a divergent region`",
    unless=("A2", "A3", "D3", "D4", "F3"),
)
def split_block_threads(plan: TilePlan) -> Iterator[Obligation]:
    if not plan.tiles.get("split"):
        return
    for kernel, _ in _softmaxes(plan):
        launch = kernel.launch
        if launch.producer_threads == 0 or LoopKind.PIPELINED not in {loop.kind for loop in kernel.loops()}:
            continue
        every_head = at_most(symbol("H"), plan.tiles["BLOCK_H"])
        yield Obligation(
            any_of(every_head, at_most(launch.block_threads, MOST_SPLIT_THREADS)),
            at="tile.threads",
            label=text_of(
                lambda values, launch: (
                    f"{text_at(launch.threads, values)} threads and {text_at(launch.producer_threads, values)} of the "
                    f"producer, on one part of the keys"
                ),
                launch,
            ),
            parameter="threads",
            related=("tile.num_split",),
        )
        threads, keys, rotary = MISCOUNTED
        yield Obligation(
            any_of(
                every_head,
                negate(equal(launch.threads, threads)),
                negate(equal(plan.tiles["BLOCK_N"], keys)),
                negate(equal(symbol("D_rope"), rotary)),
            ),
            at="tile.threads",
            label=f"{threads} threads on {keys} keys of {rotary} rotary columns, on one part of the keys",
            parameter="threads",
            related=("tile.BLOCK_N", "dims.D_rope", "tile.num_split"),
        )


MOST_SPLIT_THREADS = 512
MISCOUNTED = (256, 128, 16)
"""Threads, keys and rotary columns."""


@rule(
    "E8",
    "head-blocks",
    sentence="a block of heads is not mostly empty",
    source="tilelang src/cuda/op/gemm.cc: 16 rows are the least of a product",
    severity=Severity.SLOW,
    today="the rows without a head are multiplied all the same",
    cost="16 heads on 64 rows: 3.84 TB/s, on 16 rows 4.25 (MLA decode 128 x 8192, H200)",
)
def head_blocks(plan: TilePlan) -> Iterator[Obligation]:
    block = plan.tiles.get("BLOCK_H")
    if block is None:
        return
    heads = symbol("H")
    yield Obligation(
        at_most(block, maximum(LEAST_ROWS, heads)),
        at="tile.BLOCK_H",
        label=text_of(
            lambda values, block: (
                f"a block has rows for {to_text(value_at(block, values))} heads, and there are "
                f"{to_text(value_at(symbol('H'), values))}"
            ),
            block,
        ),
        parameter="BLOCK_H",
        related=("dims.H",),
    )


LEAST_ROWS = 16


@rule(
    "E11",
    "schedule-tiles",
    sentence="a schedule that is written by hand gets the tiles that it is written for",
    source="the schedule's own source: its barriers, parities and warp groups are those of one tiling",
    severity=Severity.ERROR,
    today="TileLang knows nothing of it: the kernel hangs, or its numbers are wrong",
)
def schedule_tiles(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        for requirement in kernel.requires:
            yield Obligation(
                requirement.claim,
                at=requirement.at,
                label=requirement.otherwise,
                related=("schedule",) if plan.spec.has("schedule") else (),
                help=('use schedule = "plain", which takes any tiles',),
            )


@rule(
    "E12",
    "named-barriers",
    sentence="named barriers have ids of their own, above those that TileLang counts up and below 16",
    source="PTX ISA, barrier: 16 a block, 0 is __syncthreads; tilelang src/cuda/transform: partial syncs count up from 1",
    severity=Severity.ERROR,
    today="TileLang gives the same id out again: two groups of threads wait for each other's barrier",
    of_family=True,
)
def named_barriers(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        ids = kernel.named_barriers
        if ids:
            yield Obligation(
                len(set(ids)) == len(ids) and min(ids) >= OWN_BARRIERS and max(ids) < BARRIERS,
                at="schedule",
                label=f"{kernel.name} uses the named barriers {', '.join(map(str, ids))}",
            )


OWN_BARRIERS, BARRIERS = 8, 16
"""The ids from 1 to 7 are left to TileLang; the schedules here need up to 4 of them."""


@rule(
    "E13",
    "split-only-costs",
    sentence="keys are split only where blocks are too few to fill the SMs",
    source="arithmetic: a split adds a kernel, and writes and reads a float32 partial for each",
    severity=Severity.SLOW,
    today="accepted",
    cost="66 even parts instead of 64 whole sequences: 0.164 ms, 0.138 whole (64 x 4096, 128 heads, H200)",
)
def split_only_costs(plan: TilePlan) -> Iterator[Obligation]:
    split = plan.tiles.get("num_split")
    block = plan.tiles.get("BLOCK_H")
    if split is None or block is None or isinstance(split, str):
        return
    blocks = multiply(symbol("B"), ceil_div(symbol("H"), block))
    yield Obligation(
        any_of(at_most(split, 1), less(blocks, symbol("sm_count"))),
        at="tile.num_split",
        label=text_of(
            lambda values, split, blocks: (
                f"num_split = {to_text(value_at(split, values))}, though {to_text(blocks)} = "
                f"{to_text(value_at(blocks, values))} blocks keep {to_text(value_at(symbol('sm_count'), values))} SMs busy"
            ),
            split,
            blocks,
        ),
        help=('use num_split = "auto", or add `when = "B * ceildiv(H, BLOCK_H) < sm_count"`',),
    )
