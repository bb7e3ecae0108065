"""How warps share products: several accumulators of one kernel, warp groups beyond the table, waves that leave columns out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tilegen.check.claim import pointwise, text_at, value_at
from tilegen.check.rule import Obligation, parameter_of, rule, text_of
from tilegen.check.rules.gemm import gemms, path_of, refusals, whether
from tilegen.lowering.instruction import GemmPath, GemmRefusal
from tilegen.lowering.partition import rows_agree
from tilegen.lowering.reduction import accumulator_reduction_ok
from tilegen.lowering.registers import consumer_registers
from tilegen.plan.model import Gemm, KernelPlan, LoopKind, Reduce
from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan


@rule(
    "I3",
    "waves-cover-tile",
    sentence="on AMD the waves of a block cover the whole accumulator",
    source="tilelang src/rocm/op/gemm.cc: without the check that tilelang 2724 added for CUDA",
    severity=Severity.ERROR,
    today="TileLang accepts 3 waves on 128 x 128; columns that no wave owns are not computed",
    unless=("A3", "D3", "D4", "I1"),
)
def waves_cover(plan: TilePlan) -> Iterator[Obligation]:
    if any(kernel.find(Gemm) for kernel in plan.kernels) and plan.target.kind == "hip":
        yield from refusals(plan, "I3", lambda gemm: (gemm.warps_at, gemm.m_at, gemm.n_at))


@rule(
    "D6",
    "wgmma-n8",
    sentence="with B transposed, each warp group owns a multiple of 16 columns",
    source="tilelang cuda/intrinsics/macro/wgmma_macro_generator.py, select_wgmma_inst_n; tilelang 2593",
    severity=Severity.SLOW,
    today="TileLang silently issues WGMMA with n8, 32 times as many as n256; older versions gave wrong values",
    unless=("A3", "A4", "D3", "D4", "C2"),
)
def wgmma_n8(plan: TilePlan) -> Iterator[Obligation]:
    for _, gemm, threads in gemms(plan):
        if not gemm.transpose_b:
            continue
        path = path_of(plan, gemm)

        def label(values: Mapping[str, int], gemm: Gemm = gemm, threads: Any = threads, path: Any = path) -> str:
            n = value_at(gemm.n, values)
            found = path(*(value_at(size, values) for size in (gemm.m, gemm.n, gemm.k, threads)))
            columns = n // found.partition.n
            return f"{n} columns over {found.partition.n} warp groups are {columns} each: WGMMA of n{found.n}"

        at = gemm.n_at
        yield Obligation(
            pointwise(whether(plan, _whole_columns, gemm), gemm.m, gemm.n, gemm.k, threads),
            at=at,
            label=label,
            parameter=parameter_of(at),
            related=(gemm.warps_at,),
        )


def _whole_columns(path: GemmPath | GemmRefusal, _m: int, n: int, _k: int, _threads: int) -> bool:
    return not isinstance(path, GemmPath) or path.instruction != "wgmma" or n // path.partition.n % 16 == 0


@rule(
    "D17",
    "register-reallocation",
    sentence="a warp-specialised block has a number of warp groups that TileLang reallocates registers for",
    source="tilelang src/cuda/transform/annotate_warp_group_reg_alloc.cc: one, two or three consumer groups",
    severity=Severity.NOTE,
    today="TileLang logs a warning and leaves setmaxnreg out: consumers keep what the launch gives every thread",
    unless=("A2", "A3", "A4"),
)
def register_reallocation(plan: TilePlan) -> Iterator[Obligation]:
    specialised = [
        kernel
        for kernel in plan.kernels
        if kernel.launch.producer_threads and LoopKind.PIPELINED in {loop.kind for loop in kernel.loops()}
    ]
    for kernel in specialised:
        group = plan.target.launch.warp_group_size
        if not group:
            continue

        def known(threads: int, group: int = group) -> bool:
            return consumer_registers(plan.target, threads // group) is not None

        yield Obligation(
            pointwise(known, kernel.launch.threads),
            at="tile.threads",
            label=text_of(
                lambda values, t, group: (
                    f"{text_at(t, values)} consumer threads are {text_at(t // group, values)} warp groups; "
                    "registers are reallocated for 1, 2 and 3"
                ),
                kernel.launch.threads,
                group,
            ),
            parameter="threads",
        )


@rule(
    "D22",
    "accumulator-rows-agree",
    sentence="accumulators that share row vectors, as a softmax does, share their rows out over the warps alike",
    source="tilelang src/op/parallel.cc: a fragment has one layout in the whole kernel",
    severity=Severity.ERROR,
    today="TileLang stops with `Layout infer conflict ... in T.Parallel loop` and two dumps of layouts",
    unless=("A3", "A4", "D3", "D4", "D8"),
)
def rows_of_accumulators(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        reduced = {op.src for op, _ in kernel.find(Reduce)}
        shared = [gemm for gemm, _ in kernel.find(Gemm) if gemm.threads is None]
        first = next((gemm for gemm in shared if gemm.acc in reduced), None)
        if first is None:
            continue
        for gemm in dict.fromkeys(shared):
            if gemm.acc != first.acc:
                yield _agree(plan, kernel, first, gemm)


def _agree(plan: TilePlan, kernel: KernelPlan, first: Gemm, other: Gemm) -> Obligation:
    threads = kernel.launch.threads
    one, two = path_of(plan, first), path_of(plan, other)

    def agree(m: int, n: int, k: int, m2: int, n2: int, k2: int, t: int) -> bool:
        paths = (one(m, n, k, t), two(m2, n2, k2, t))
        return rows_agree(*(path.partition for path in paths if isinstance(path, GemmPath)))

    def label(values: Mapping[str, int]) -> str:
        texts = []
        for gemm, path in ((first, one), (other, two)):
            m, n, k, t = (value_at(size, values) for size in (gemm.m, gemm.n, gemm.k, threads))
            found = path(m, n, k, t)
            assert isinstance(found, GemmPath)  # a refusal agrees with everything
            texts.append(f"`{gemm.acc}`, {m} x {n}, is shared by {found.partition.m} x {found.partition.n} warps")
        return " and ".join(texts)

    at = first.n_at
    return Obligation(
        pointwise(agree, first.m, first.n, first.k, other.m, other.n, other.k, threads),
        at=at,
        label=label,
        parameter=parameter_of(at),
        related=("tile.threads", first.m_at, "tile.policy"),
        help=('use policy = "full_row", or so few warps that both products have them along the rows alike',),
    )


@rule(
    "F3",
    "score-row-warps",
    sentence="the warps that share a row of an accumulator which is reduced are one, two or four, or more with 8 columns each",
    source="tilelang src/op/reduce.cc: the part of a row that a thread owns must follow from its index",
    severity=Severity.ERROR,
    today="TileLang stops with `ReduceOp cannot lower a layout where a source index depends on a thread-owned reduce "
    "segment`",
    unless=("A3", "D3", "D4", "D8"),
)
def reduced_rows(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        reduced = {op.src for op, _ in kernel.find(Reduce)}
        shared = [gemm for gemm, _ in kernel.find(Gemm) if gemm.threads is None and gemm.acc in reduced]
        for gemm in {gemm.acc: gemm for gemm in reversed(shared)}.values():
            yield _reducible(plan, kernel, gemm)


def _reducible(plan: TilePlan, kernel: KernelPlan, gemm: Gemm) -> Obligation:
    path, threads = path_of(plan, gemm), kernel.launch.threads

    def label(values: Mapping[str, int]) -> str:
        m, n, k, t = (value_at(size, values) for size in (gemm.m, gemm.n, gemm.k, threads))
        found = path(m, n, k, t)
        assert isinstance(found, GemmPath)  # a refusal is fine
        return (
            f"`{gemm.acc}`, {m} x {n}, has {found.partition.n} warps along a row, {n // found.partition.n} columns each"
        )

    return Obligation(
        pointwise(whether(plan, _row_reducible, gemm), gemm.m, gemm.n, gemm.k, threads),
        at=gemm.n_at,
        label=label,
        parameter=parameter_of(gemm.n_at),
        related=("tile.threads", "tile.policy"),
    )


def _row_reducible(path: GemmPath | GemmRefusal, _m: int, n: int, _k: int, _threads: int) -> bool:
    return not isinstance(path, GemmPath) or accumulator_reduction_ok(path.partition.n, n // path.partition.n)
