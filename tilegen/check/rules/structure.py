"""The shape of a tile program: what each operation may touch, and what a pipelined loop owns.

Most of these no spec can break, only the plan of a family: they are there so that none does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilegen.check.rule import Obligation, rule
from tilegen.check.rules.copies import tma_loads, tma_stores
from tilegen.plan.model import Copy, Elementwise, Fill, Gemm, KernelPlan, Loop, LoopKind, Op, Reduce, Scope
from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan

GRID_AXES = 3


@rule(
    "A6",
    "grid-rank",
    sentence="a grid has at most three axes",
    source="CUDA Programming Guide: dim3; tilelang src/ir.cc",
    severity=Severity.ERROR,
    today="TileLang stops with `Check failed: (grid_size.size() <= 3) is false`",
    of_family=True,
)
def grid_rank(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        axes = len(kernel.launch.grid)
        yield Obligation(1 <= axes <= GRID_AXES, at="tile", label=f"the grid of {kernel.name} has {axes} axes")


@rule(
    "C6",
    "tma-rank-dtype",
    sentence="TMA moves a tile of at most five axes into a buffer of the tensor's own dtype",
    source="CUDA driver API, cuTensorMapEncodeTiled: tensorRank; tilelang src/cuda/op/copy_analysis.cc",
    severity=Severity.ERROR,
    today="an explicit copy stops with `TMA is not available`, without saying why; a store falls back to plain ones, and what "
    "was rounded to the buffer's dtype is converted again",
)
def tma_rank_and_dtype(plan: TilePlan) -> Iterator[Obligation]:
    transfers = [(kernel, copy) for kernel, copy, _ in tma_loads(plan)] + list(tma_stores(plan))
    for kernel, copy in transfers:
        source, destination = kernel.buffer(copy.src), kernel.buffer(copy.dst)
        tensor = source if source.scope is Scope.GLOBAL else destination
        assert plan.target.tma is not None
        yield Obligation(
            source.dtype == destination.dtype and len(tensor.shape) <= plan.target.tma.max_rank,
            at=f"tensors.{tensor.name}",
            label=f"`{copy.src}` is {source.dtype}, `{copy.dst}` {destination.dtype}; `{tensor.name}` has "
            f"{len(tensor.shape)} axes",
            help=(f"give `{tensor.name}` the dtype of the other tensors, or use another schedule",),
        )


@rule(
    "D13",
    "operand-scope",
    sentence="a product reads shared memory, or a left operand in registers, and accumulates in a fragment",
    source="tilelang src/cuda/op/gemm.cc; cuda/op/gemm/gemm_mma.py",
    severity=Severity.ERROR,
    today="TileLang stops with `Unsupported gemm combination`, or `local_buf must be a fragment`",
    of_family=True,
)
def operand_scope(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        for gemm, _ in kernel.find(Gemm):
            a, b, acc = (kernel.buffer(name).scope for name in (gemm.a, gemm.b, gemm.acc))
            expected = Scope.FRAGMENT if gemm.a_in_registers else Scope.SHARED
            yield Obligation(
                (a, b, acc) == (expected, Scope.SHARED, Scope.FRAGMENT),
                at="tile",
                label=f"`{gemm.a}` is {a}, `{gemm.b}` {b}, `{gemm.acc}` {acc}",
            )


def pipelined(kernel: KernelPlan) -> Iterator[tuple[Loop, set[str]]]:
    """Every loop that TileLang pipelines, with the buffers that its copies fill, one version a stage."""
    for loop in kernel.loops():
        if loop.kind is LoopKind.PIPELINED and loop.stages != 1:
            filled = {
                op.dst for op in loop.body if isinstance(op, Copy) and kernel.buffer(op.dst).scope is Scope.SHARED
            }
            yield loop, filled


@rule(
    "G1",
    "pipeline-owns-buffers",
    sentence="a buffer that a pipelined loop fills is not touched outside of it",
    source="tilelang src/transform/inject_pipeline.cc: it has a version for each stage; tilelang 2309, 3039",
    severity=Severity.ERROR,
    today="TileLang stops with `InputShape() = (2, 16, 32) shape = (16, 32)`, on some chips only",
    of_family=True,
)
def pipeline_owns(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        for loop, filled in pipelined(kernel):
            outside = {
                name for op, loops in kernel.ops() if loop not in loops and op is not loop for name in touched(op)
            }
            both = sorted(filled & outside)
            yield Obligation(
                not both,
                at="tile.stages",
                label=f"{', '.join(both)}: filled by the loop over {loop.variable}, and used",
            )


@rule(
    "G2",
    "pipeline-overwrites",
    sentence="a loop that cp.async pipelines overwrites no tile that its copies fill",
    source="tilelang 2668: no wait stands between the copy and what is written",
    severity=Severity.ERROR,
    today="accepted; the copy of a later iteration and the statement race, and the numbers are wrong now and then",
)
def pipeline_overwrites(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        if kernel.launch.producer_threads != 0:
            continue
        for loop, filled in pipelined(kernel):
            if not plan.target.copy.cp_async_bytes:
                return
            written = sorted({op.writes for op in loop.body if isinstance(op, Elementwise)} & filled)
            yield Obligation(
                not written,
                at="tile.stages",
                label=f"`{', '.join(written)}` is filled by cp.async {loop.stages} stages ahead and overwritten in the "
                "same iteration",
                parameter="stages",
                help=("use stages = 1 on this target: the loop then waits for every copy",),
            )


@rule(
    "G5",
    "one-pipelined-loop",
    sentence="a kernel has one pipelined loop",
    source="tilelang src/cuda/transform/producer_consumer_ws.cc: only the first gets TMA; tilelang 2249",
    severity=Severity.SLOW,
    today="TileLang silently carries the second loop's tiles by cp.async",
    of_family=True,
)
def one_pipelined_loop(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        loops = [loop for loop in kernel.loops() if loop.kind is LoopKind.PIPELINED]
        yield Obligation(len(loops) <= 1, at="tile.stages", label=f"{kernel.name} has {len(loops)} pipelined loops")


def touched(op: Op) -> tuple[str, ...]:
    """The buffers that an operation reads or writes itself, without those of a loop's body."""
    if isinstance(op, Gemm):
        return (op.a, op.b, op.acc)
    if isinstance(op, (Copy, Reduce)):
        return (op.src, op.dst)
    if isinstance(op, Elementwise):
        return (op.writes, *op.reads)
    return (op.buffer,) if isinstance(op, Fill) else ()
