"""Matrix products: the warp partition, the instruction, the accumulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tilegen.check.claim import pointwise, value_at
from tilegen.check.rule import Obligation, rule
from tilegen.expr import Size, at_most, to_text
from tilegen.lowering.instruction import GemmPath, GemmRefusal, accumulator_ok, gemm_path
from tilegen.lowering.partition import legal_warps
from tilegen.lowering.registers import register_budget
from tilegen.plan.model import Gemm, KernelPlan
from tilegen.plan.resources import fragment_registers
from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan


def _gemms(plan: TilePlan) -> Iterator[tuple[KernelPlan, Gemm, Size]]:
    """Every gemm with the threads that run it."""
    for kernel in plan.kernels:
        for gemm, _ in kernel.find(Gemm):
            yield kernel, gemm, kernel.launch.threads if gemm.threads is None else gemm.threads


def _path(plan: TilePlan, gemm: Gemm) -> Callable[[int, int, int, int], GemmPath | GemmRefusal]:
    def path(m: int, n: int, k: int, threads: int) -> GemmPath | GemmRefusal:
        return gemm_path(
            plan.target,
            m,
            n,
            k,
            threads,
            gemm.policy,  # type: ignore[arg-type]
            gemm.dtype,
            gemm.accum,
            transpose_a=gemm.transpose_a,
            transpose_b=gemm.transpose_b,
        )

    return path


def _sizes(gemm: Gemm, threads: Size, values: Mapping[str, int]) -> tuple[Any, ...]:
    return tuple(value_at(size, values) for size in (gemm.m, gemm.n, gemm.k, threads))


def _refusal(plan: TilePlan, id: str, parameter_order: tuple[int, ...]) -> Iterator[Obligation]:
    """Obligations that no gemm is refused for rule ``id``; the finding points at the first of the keys that decide."""
    for _, gemm, threads in _gemms(plan):
        path = _path(plan, gemm)

        def fine(m: int, n: int, k: int, t: int, path: Any = path) -> bool:
            found = path(m, n, k, t)
            return not (isinstance(found, GemmRefusal) and found.rule == id)

        def label(values: Mapping[str, int], gemm: Gemm = gemm, threads: Size = threads, path: Any = path) -> str:
            sizes = _sizes(gemm, threads, values)
            found = path(*sizes)
            text = f"the accumulator `{gemm.acc}` is {sizes[0]} x {sizes[1]}, K = {sizes[2]}, {sizes[3]} threads"
            return f"{text}: {found.reason}" if isinstance(found, GemmRefusal) else text

        keys = [gemm.decided_by[i] for i in parameter_order if i < len(gemm.decided_by)]
        at = keys[0] if keys else "tile"
        yield Obligation(
            pointwise(fine, gemm.m, gemm.n, gemm.k, threads),
            at=at,
            label=label,
            parameter=at.removeprefix("tile.") if at.startswith("tile.") else None,
            related=tuple(path for path in (*gemm.decided_by, "tile.threads") if path != at),
            help=_partition_help(plan, gemm, threads) if id == "D3" else (),
        )


def _partition_help(plan: TilePlan, gemm: Gemm, threads: Size) -> tuple[str, ...]:
    if not all(isinstance(size, int) for size in (gemm.m, gemm.n)):
        return ()
    warp = plan.target.launch.warp_size
    wgmma = gemm.m >= 64 and plan.target.instruction("wgmma", gemm.dtype) is not None
    legal = [w * warp for w in legal_warps(gemm.m, gemm.n, gemm.policy, wgmma=wgmma, limit=16)]  # type: ignore[arg-type]
    return (f"threads that this accumulator can be shared by: {', '.join(map(str, legal))}",) if legal else ()


@rule(
    "D3",
    "warp-partition",
    sentence="the warps of a block can share the accumulator evenly",
    source="tilelang src/cuda/op/gemm.cc, ComputeWarpPartition",
    severity=Severity.ERROR,
    today="TileLang stops with `No valid warp partition for T.gemm`, after tracing, without a suggestion",
)
def partition(plan: TilePlan) -> Iterator[Obligation]:
    yield from _refusal(plan, "D3", (3, 0))


@rule(
    "D4",
    "accumulator-16-by-8",
    sentence="the accumulator is a whole number of 16 x 8 tiles (16 x 16 on AMD)",
    source="tilelang src/cuda/op/gemm.cc",
    severity=Severity.ERROR,
    today="TileLang stops with `M must be divisible by 16`",
)
def whole_tiles(plan: TilePlan) -> Iterator[Obligation]:
    yield from _refusal(plan, "D4", (0, 1))


@rule(
    "D5",
    "wgmma-mn-major-b",
    sentence="with B not transposed, each warp group owns a multiple of 16 columns",
    source="tilelang cuda/intrinsics/macro/wgmma_macro_generator.py",
    severity=Severity.ERROR,
    today="TileLang stops with `Not a canonical GMMA_MN layout`",
)
def mn_major_b(plan: TilePlan) -> Iterator[Obligation]:
    yield from _refusal(plan, "D5", (1,))


@rule(
    "D8",
    "k-step",
    sentence="the K of a tile is a multiple of the instruction's K",
    source="tilelang cuda/intrinsics/macro/mma_macro_generator.py; tl_templates/cuda/instruction/mma.h",
    severity=Severity.ERROR,
    today="TileLang stops with `block_K must be a multiple of micro_size_k`; 8-bit operands fail in nvcc instead",
)
def k_step(plan: TilePlan) -> Iterator[Obligation]:
    yield from _refusal(plan, "D8", (2,))


@rule(
    "I1",
    "whole-waves",
    sentence="a block on AMD has at least one whole wave of 64 threads",
    source="tilelang src/rocm/op/gemm.cc",
    severity=Severity.ERROR,
    today="TileLang stops with `T.gemm needs at least one full wavefront`",
)
def whole_waves(plan: TilePlan) -> Iterator[Obligation]:
    yield from _refusal(plan, "I1", (3,))


@rule(
    "I2",
    "mfma-k",
    sentence="on AMD the K of a tile is a multiple of the MFMA's K",
    source="tilelang src/rocm/op/gemm.cc",
    severity=Severity.ERROR,
    today="TileLang stops on a failed check",
)
def mfma_k(plan: TilePlan) -> Iterator[Obligation]:
    yield from _refusal(plan, "I2", (2,))


@rule(
    "D9",
    "accumulator-dtype",
    sentence="the chip has a matrix instruction for these operand and accumulator dtypes",
    source="PTX ISA, mma shapes; tilelang tl_templates/cuda/instruction/mma.h",
    severity=Severity.ERROR,
    today="TileLang lowers it; nvcc stops on a static assertion",
)
def accumulator_dtype(plan: TilePlan) -> Iterator[Obligation]:
    for _, gemm, _threads in _gemms(plan):
        known = gemm.dtype in plan.target.operand_dtypes
        yield Obligation(
            not known or accumulator_ok(plan.target, gemm.dtype, gemm.accum),
            at="compute.accum",
            label=f"{gemm.dtype} operands have no {gemm.accum} accumulator on {plan.target.name}",
            help=('use accum = "float32" (int32 for int8 operands)',),
        )


@rule(
    "D11",
    "operand-dtype",
    sentence="the tensor cores of the chip take the operand dtype",
    source="CUDA Programming Guide, tensor core data types by compute capability",
    severity=Severity.ERROR,
    today="fp8 on sm_80 lowers and compiles; the kernel traps at run time. Others become scalar code",
)
def operand_dtype(plan: TilePlan) -> Iterator[Obligation]:
    for _, gemm, _threads in _gemms(plan):
        yield Obligation(
            gemm.dtype in plan.target.operand_dtypes,
            at=gemm.dtype_at,
            label=f"{plan.target.name} has no {gemm.dtype} matrix instruction; "
            f"it has {', '.join(plan.target.operand_dtypes)}",
            help=(f"drop [target.{plan.target.name}] or the dtype",),
        )


@rule(
    "D1",
    "wgmma-select",
    sentence="a gemm on sm_90a uses WGMMA",
    source="tilelang src/cuda/op/gemm.cc, SelectInst",
    severity=Severity.SLOW,
    today="TileLang silently uses mma.sync",
    cost="block_M 32: 197 TFLOPS, 64: 345, 128: 521 (fp16 GEMM 4096 cubed, H200)",
)
def wgmma_select(plan: TilePlan) -> Iterator[Obligation]:
    yield from _not_slower(plan, tn_only=False)


@rule(
    "D2",
    "eight-bit-tn",
    sentence="8-bit operands of WGMMA are A not transposed and B transposed",
    source="PTX ISA, wgmma: only K-major operands for 8-bit types",
    severity=Severity.SLOW,
    today="TileLang silently uses mma.sync",
    cost="282 TFLOPS with B not transposed, 967 transposed (fp8 GEMM, H200)",
)
def eight_bit_tn(plan: TilePlan) -> Iterator[Obligation]:
    yield from _not_slower(plan, tn_only=True)


def _not_slower(plan: TilePlan, *, tn_only: bool) -> Iterator[Obligation]:
    for _, gemm, threads in _gemms(plan):
        shape = plan.target.instruction("wgmma", gemm.dtype)
        layout = shape is not None and shape.tn_only and (gemm.transpose_a or not gemm.transpose_b)
        if layout is not tn_only:
            continue
        path = _path(plan, gemm)

        def fast(m: int, n: int, k: int, t: int, path: Any = path) -> bool:
            found = path(m, n, k, t)
            return isinstance(found, GemmRefusal) or not found.slower_because

        def label(values: Mapping[str, int], gemm: Gemm = gemm, threads: Size = threads, path: Any = path) -> str:
            found = path(*_sizes(gemm, threads, values))
            why = found.slower_because if isinstance(found, GemmPath) else ""
            return f"`{gemm.acc}` runs on {getattr(found, 'instruction', 'mma.sync')}: {why}"

        at = f"tensors.{gemm.b}" if tn_only and gemm.operand_at is None else gemm.operand_at if tn_only else None
        keys = gemm.decided_by or ("tile",)
        yield Obligation(
            pointwise(fast, gemm.m, gemm.n, gemm.k, threads),
            at=at or keys[0],
            label=label,
            parameter=None if tn_only or not keys[0].startswith("tile.") else keys[0].removeprefix("tile."),
            help=("store B as (N, K): `b = { shape = \"N K\" }`",) if tn_only else (),
        )


@rule(
    "D16",
    "accumulator-registers",
    sentence="the accumulators of a thread stay in registers",
    source="ptxas 13.0 on sm_90a: no spill at 192 fp32 accumulators a thread, 896 B of stack at 224",
    severity=Severity.SLOW,
    today="only an nvcc info line: ptxas spills, and serialises WGMMA (C7511, C7512)",
    cost="224 accumulators a thread: 128 TFLOPS, 192: 533 (fp16 GEMM 4096 cubed, H200)",
)
def accumulator_registers(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        accumulators = dict.fromkeys(gemm.acc for gemm, _ in kernel.find(Gemm))
        if not accumulators or not isinstance(kernel.launch.threads, int):
            continue
        threads = kernel.launch.threads
        budget = register_budget(plan.target, threads, warp_specialised=bool(kernel.launch.producer_threads))
        limit = budget - ADDRESSING
        for name in accumulators:
            buffer = kernel.buffer(name)
            count = fragment_registers(kernel, buffer)
            shape = " x ".join(to_text(extent) for extent in buffer.shape)
            owners = threads if buffer.owners is None else buffer.owners
            yield Obligation(
                at_most(count, limit),
                at=buffer.decided_by[-1] if buffer.decided_by else "tile",
                label=lambda values, s=shape, c=count, o=owners, b=buffer: (
                    f"`{b.name}` is {s} {b.dtype} over {to_text(o)} threads = {to_text(value_at(c, values))} registers "
                    f"a thread; {budget} are to be had, and addresses and operands need {ADDRESSING}"
                ),
                parameter="threads",
                related=("tile.threads",),
            )


ADDRESSING = 48
"""Registers that a gemm loop needs beside its accumulators: 192 of 240 do not spill, 224 do."""


@rule(
    "D7",
    "wgmma-n",
    sentence="WGMMA runs at an N of at least 64",
    source="tilelang cuda/intrinsics/macro/wgmma_macro_generator.py, select_wgmma_inst_n",
    severity=Severity.SLOW,
    today="TileLang silently picks a narrow instruction: 272 columns run at n16",
)
def wgmma_width(plan: TilePlan) -> Iterator[Obligation]:
    for _, gemm, threads in _gemms(plan):
        path = _path(plan, gemm)

        def wide(m: int, n: int, k: int, t: int, path: Any = path) -> bool:
            found = path(m, n, k, t)
            return not isinstance(found, GemmPath) or found.instruction != "wgmma" or found.n >= min(64, n)

        def label(values: Mapping[str, int], gemm: Gemm = gemm, threads: Size = threads, path: Any = path) -> str:
            sizes = _sizes(gemm, threads, values)
            return f"{sizes[1]} columns over {path(*sizes).partition.n} warps in n run at n{path(*sizes).n}"

        at = gemm.decided_by[1] if len(gemm.decided_by) > 1 else "tile"
        yield Obligation(
            pointwise(wide, gemm.m, gemm.n, gemm.k, threads),
            at=at,
            label=label,
            parameter=at.removeprefix("tile.") if at.startswith("tile.") else None,
        )


@rule(
    "E1",
    "row-softmax-warps",
    sentence="a softmax whose probabilities stay in registers has all warps along the rows",
    source="tilelang src/op/parallel.cc: layouts of two gemms that share a fragment must agree",
    severity=Severity.ERROR,
    today="TileLang stops with `Layout infer conflict between acc_s and acc_s_cast`",
)
def probabilities_in_registers(plan: TilePlan) -> Iterator[Obligation]:
    for _, gemm, threads in _gemms(plan):
        if not gemm.a_in_registers:
            continue
        path = _path(plan, gemm)

        def rowwise(m: int, n: int, k: int, t: int, path: Any = path) -> bool:
            found = path(m, n, k, t)
            return isinstance(found, GemmRefusal) or found.partition.n == 1

        yield Obligation(
            pointwise(rowwise, gemm.m, gemm.n, gemm.k, threads),
            at="tile.policy",
            label=f"the warps of `{gemm.acc}` stand side by side along N",
            help=('use policy = "full_row" with 16 rows a warp, or stage the probabilities through shared memory',),
        )


