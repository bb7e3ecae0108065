"""Matrix products: the warp partition, the instruction, the accumulator."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from tilegen.check.claim import Pointwise, pointwise, text_at, value_at
from tilegen.check.rule import Obligation, parameter_of, rule, text_of
from tilegen.expr import Size, any_of, at_most, free_names
from tilegen.lowering.instruction import GemmPath, GemmRefusal, accumulator_ok, gemm_path
from tilegen.lowering.partition import Policy, legal_warps
from tilegen.lowering.registers import (
    WGMMA_OVERHEAD,
    launch_limit,
    wgmma_registers,
)
from tilegen.plan.model import ITEMSIZE, Gemm, KernelPlan
from tilegen.plan.pipeline import producer_threads
from tilegen.plan.registers import Demand, accumulator_demands
from tilegen.spec.diagnostic import Severity
from tilegen.targets.facts import answer, bare

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan
    from tilegen.targets import Target


def gemms(plan: TilePlan) -> Iterator[tuple[KernelPlan, Gemm, Size]]:
    """Every gemm with the threads that run it."""
    for kernel in plan.kernels:
        for gemm, _ in kernel.find(Gemm):
            yield kernel, gemm, kernel.launch.threads if gemm.threads is None else gemm.threads


def path_of(plan: TilePlan, gemm: Gemm) -> Callable[[int, int, int, int], GemmPath | GemmRefusal]:
    """What a gemm becomes, as a function of its M, N, K and threads."""
    kind = _kind(gemm)

    def path(m: int, n: int, k: int, threads: int) -> GemmPath | GemmRefusal:
        return _path(plan.target, kind, m, n, k, threads)

    return path


Kind = tuple[Policy, str, str, bool, bool]


def _kind(gemm: Gemm) -> Kind:
    return gemm.policy, gemm.dtype, gemm.accum, gemm.transpose_a, gemm.transpose_b


def _path(chip: Target, kind: Kind, m: int, n: int, k: int, threads: int) -> GemmPath | GemmRefusal:
    policy, dtype, accum, transpose_a, transpose_b = kind
    return gemm_path(chip, m, n, k, threads, policy, dtype, accum, transpose_a=transpose_a, transpose_b=transpose_b)


def whether(plan: TilePlan, question: Callable[..., bool], gemm: Gemm, *more: Hashable) -> Callable[..., bool]:
    """``question(path, *sizes, *more)`` of the path of a gemm, as a function of its M, N, K and threads: one fact of the chip,
    however much of the chip decides it.
    """
    kind = _kind(gemm)
    return lambda *sizes: answer(plan.target, _of_path, question, kind, sizes, more)


def _of_path(
    chip: Target, question: Callable[..., bool], kind: Kind, sizes: tuple[int, int, int, int], more: tuple[Any, ...]
) -> bool:
    return question(_path(chip, kind, *sizes), *sizes, *more)


def _sizes(gemm: Gemm, threads: Size, values: Mapping[str, int]) -> tuple[Any, ...]:
    return tuple(value_at(size, values) for size in (gemm.m, gemm.n, gemm.k, threads))


def refusals(plan: TilePlan, id: str, keys_of: Callable[[Gemm], tuple[str, ...]]) -> Iterator[Obligation]:
    """Obligations that no gemm is refused for rule ``id``. The finding points at the first of the keys; the others are
    those that may take part in the conflict.
    """
    for _, gemm, threads in gemms(plan):
        path = path_of(plan, gemm)
        at, *others = keys_of(gemm)
        yield Obligation(
            pointwise(whether(plan, _not_refused, gemm, id), gemm.m, gemm.n, gemm.k, threads),
            at=at,
            label=text_of(_refusal_text, gemm, threads, path),
            parameter=parameter_of(at),
            related=tuple(dict.fromkeys(others)),
            help=partial(_partition_help, plan, gemm) if id == "D3" else (),
        )


def _not_refused(path: GemmPath | GemmRefusal, _m: int, _n: int, _k: int, _threads: int, id: str) -> bool:
    return not (isinstance(path, GemmRefusal) and path.rule == id)


def _refusal_text(values: Mapping[str, int], gemm: Gemm, threads: Size, path: Any) -> str:
    sizes = _sizes(gemm, threads, values)
    found = path(*sizes)
    text = f"`{gemm.acc}` is {sizes[0]} x {sizes[1]} over {sizes[3]} threads"
    return f"{text}: {found.reason}" if isinstance(found, GemmRefusal) else text


def _k_refusals(plan: TilePlan, id: str) -> Iterator[Obligation]:
    """Obligations that no gemm is refused for its K. The rest of the tile takes no part, so the least tile is asked."""
    for _, gemm, _threads in gemms(plan):
        path, kind = path_of(plan, gemm), _kind(gemm)

        def fine(k: int, kind: Kind = kind) -> bool:
            return answer(plan.target, _k_not_refused, kind, k, id)

        def label(values: Mapping[str, int], gemm: Gemm = gemm, path: Any = path) -> str:
            k = value_at(gemm.k, values)
            reason = path(LEAST_TILE, LEAST_TILE, k, plan.target.launch.warp_size).reason
            return f"`{gemm.acc}` adds up {k} at a time: {reason}"

        dim = gemm.k_at.removeprefix("dims.")
        yield Obligation(
            pointwise(fine, gemm.k),
            at=gemm.k_at,
            label=label,
            parameter=parameter_of(gemm.k_at),
            help=(f"fill the tensors up with zeros, to a multiple for {dim}",) if gemm.k_at != dim else (),
        )


def _k_not_refused(chip: Target, kind: Kind, k: int, id: str) -> bool:
    path = _path(chip, kind, LEAST_TILE, LEAST_TILE, k, chip.launch.warp_size)
    return not (isinstance(path, GemmRefusal) and path.rule == id)


LEAST_TILE = 16
"""Rows and columns that one warp of any chip can have."""


def _partition_help(plan: TilePlan, gemm: Gemm) -> tuple[str, ...]:
    if not all(isinstance(size, int) for size in (gemm.m, gemm.n)):
        return ()
    warp = plan.target.launch.warp_size
    shape = plan.target.instruction("wgmma", gemm.dtype)
    wgmma = shape is not None and gemm.m >= shape.m
    most = (plan.target.launch.max_threads_per_block - producer_threads(plan.target)) // warp
    legal = [w * warp for w in legal_warps(gemm.m, gemm.n, gemm.policy, wgmma=wgmma, limit=most)]
    return (f"threads that this accumulator can be shared by: {', '.join(map(str, legal))}",) if legal else ()


@rule(
    "D3",
    "warp-partition",
    sentence="the warps of a block can share the accumulator evenly",
    source="tilelang src/cuda/op/gemm.cc, ComputeWarpPartition",
    severity=Severity.ERROR,
    today="TileLang stops with `No valid warp partition for T.gemm`, after tracing, without a suggestion",
    unless=("A3", "D4"),
)
def partition(plan: TilePlan) -> Iterator[Obligation]:
    yield from refusals(plan, "D3", lambda gemm: (gemm.warps_at, gemm.m_at, gemm.n_at))


@rule(
    "D4",
    "accumulator-16-by-8",
    sentence="the accumulator is a whole number of 16 x 8 tiles (16 x 16 on AMD)",
    source="tilelang src/cuda/op/gemm.cc",
    severity=Severity.ERROR,
    today="TileLang stops with `M must be divisible by 16`",
)
def whole_tiles(plan: TilePlan) -> Iterator[Obligation]:
    yield from refusals(plan, "D4", lambda gemm: (gemm.m_at, gemm.n_at))


@rule(
    "D5",
    "wgmma-mn-major-b",
    sentence="with B not transposed, each warp group owns a multiple of 16 columns",
    source="tilelang cuda/intrinsics/macro/wgmma_macro_generator.py",
    severity=Severity.ERROR,
    today="TileLang stops with `Not a canonical GMMA_MN layout`",
    unless=("D4",),
)
def mn_major_b(plan: TilePlan) -> Iterator[Obligation]:
    yield from refusals(plan, "D5", lambda gemm: (gemm.n_at, gemm.warps_at))


@rule(
    "D8",
    "k-step",
    sentence="the K of a tile is a multiple of the instruction's K",
    source="tilelang cuda/intrinsics/macro/mma_macro_generator.py; tl_templates/cuda/instruction/mma.h",
    severity=Severity.ERROR,
    today="TileLang stops with `block_K must be a multiple of micro_size_k`; 8-bit operands fail in nvcc instead",
)
def k_step(plan: TilePlan) -> Iterator[Obligation]:
    yield from _k_refusals(plan, "D8")


@rule(
    "I1",
    "whole-waves",
    sentence="a block on AMD has at least one whole wave of 64 threads",
    source="tilelang src/rocm/op/gemm.cc",
    severity=Severity.ERROR,
    today="TileLang stops with `T.gemm needs at least one full wavefront`",
)
def whole_waves(plan: TilePlan) -> Iterator[Obligation]:
    yield from refusals(plan, "I1", lambda gemm: (gemm.warps_at,))


@rule(
    "I2",
    "mfma-k",
    sentence="on AMD the K of a tile is a multiple of the MFMA's K",
    source="tilelang src/rocm/op/gemm.cc",
    severity=Severity.ERROR,
    today="TileLang stops on a failed check",
)
def mfma_k(plan: TilePlan) -> Iterator[Obligation]:
    yield from _k_refusals(plan, "I2")


@rule(
    "D9",
    "accumulator-dtype",
    sentence="the chip has a matrix instruction for these operand and accumulator dtypes",
    source="PTX ISA, mma shapes; tilelang tl_templates/cuda/instruction/mma.h",
    severity=Severity.ERROR,
    today="TileLang lowers it; nvcc stops on a static assertion",
    unless=("D11",),
)
def accumulator_dtype(plan: TilePlan) -> Iterator[Obligation]:
    for _, gemm, _threads in gemms(plan):
        known = plan.target.takes(gemm.dtype)
        yield Obligation(
            not known or accumulator_ok(plan.target, gemm.dtype, gemm.accum),
            at="compute.accum",
            label=text_of(
                lambda _, gemm: f"{gemm.dtype} operands have no {gemm.accum} accumulator on {plan.target.name}", gemm
            ),
            help=('use accum = "float32" (int32 for int8 operands)',),
        )


@rule(
    "D10",
    "operands-alike",
    sentence="both operands of a matrix product have one dtype",
    source="tilelang language/dtypes.py: mixed operands only for f8f6f4 on sm_100",
    severity=Severity.ERROR,
    today="TileLang stops with `Mixed-dtype GEMM only supports f8f6f4 family operands`",
)
def operands_alike(plan: TilePlan) -> Iterator[Obligation]:
    for kernel, gemm, _threads in gemms(plan):
        a, b = kernel.buffer(gemm.a).dtype, kernel.buffer(gemm.b).dtype
        yield Obligation(
            a == b,
            at=gemm.dtype_at.replace(".a.", ".b."),
            label=f"`{gemm.a}` is {a}, `{gemm.b}` is {b}",
            related=(gemm.dtype_at,),
            help=('write dtype = "same_as(a)"',),
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
    for _, gemm, _threads in gemms(plan):
        yield Obligation(
            plan.target.takes(gemm.dtype),
            at=gemm.dtype_at,
            label=text_of(
                lambda _, gemm: (
                    f"{plan.target.name} has no {gemm.dtype} matrix instruction; "
                    f"it has {', '.join(plan.target.operand_dtypes)}"
                ),
                gemm,
            ),
            help=lambda: (f"drop [target.{plan.target.name}] or the dtype",),
        )


@rule(
    "D1",
    "wgmma-select",
    sentence="a gemm on sm_90a uses WGMMA",
    source="tilelang src/cuda/op/gemm.cc, SelectInst",
    severity=Severity.SLOW,
    today="TileLang silently uses mma.sync",
    cost="block_M 32: 197 TFLOPS, 64: 345, 128: 521 (fp16 GEMM 4096 cubed, H200)",
    unless=("A3", "A4", "D3", "D4", "D8", "D11"),
)
def wgmma_select(plan: TilePlan) -> Iterator[Obligation]:
    """A tile under 64 rows that holds all the rows there are is as it should be: on WGMMA it would be padded to 64."""
    for _, gemm, threads in gemms(plan):
        if not _has(plan, "wgmma"):
            return
        if _operands_misplaced(plan, gemm):
            continue  # rule D2 speaks of it
        path = path_of(plan, gemm)

        def fast(m: int, n: int, k: int, t: int, *rows: int, path: Any = path) -> bool:
            found = path(m, n, k, t)
            return isinstance(found, GemmRefusal) or not found.slower_because or any(m >= count for count in rows)

        def label(values: Mapping[str, int], gemm: Gemm = gemm, threads: Size = threads, path: Any = path) -> str:
            found = path(*_sizes(gemm, threads, values))
            return f"`{gemm.acc}` runs on {found.instruction}: {found.slower_because}"

        at = _obstacle_at(plan, gemm, threads)
        rows = () if gemm.rows is None or at != gemm.m_at else (gemm.rows,)
        claim = pointwise(fast, gemm.m, gemm.n, gemm.k, threads)
        if isinstance(claim, Pointwise):
            claim = pointwise(fast, gemm.m, gemm.n, gemm.k, threads, *rows)
        yield Obligation(
            any_of(claim, *(at_most(size, gemm.m) for size in rows)) if isinstance(claim, bool) else claim,
            at=at,
            label=label,
            parameter=parameter_of(at),
            related=tuple(f"dims.{name}" for size in rows for name in sorted(free_names(size))),
        )


def _has(plan: TilePlan, instruction: str) -> bool:
    return plan.target.has_instruction(instruction)


def _operands_misplaced(plan: TilePlan, gemm: Gemm) -> bool:
    """Whether WGMMA takes the operands' dtype in one layout only, and not in this one."""
    shape = plan.target.instruction("wgmma", gemm.dtype)
    return shape is not None and shape.tn_only and (gemm.transpose_a or not gemm.transpose_b)


def _obstacle_at(plan: TilePlan, gemm: Gemm, threads: Size) -> str:
    """The spec key behind the first thing that keeps a gemm off WGMMA."""
    shape = plan.target.instruction("wgmma", gemm.dtype)
    if shape is None:
        return gemm.dtype_at
    if isinstance(gemm.m, int) and gemm.m < shape.m:
        return gemm.m_at
    if not isinstance(threads, int) or threads % plan.target.launch.warp_group_size:
        return gemm.warps_at
    return gemm.k_at if isinstance(gemm.m, int) else gemm.m_at


@rule(
    "D2",
    "eight-bit-tn",
    sentence="8-bit operands of WGMMA are A not transposed and B transposed",
    source="PTX ISA, wgmma: only K-major operands for 8-bit types",
    severity=Severity.SLOW,
    today="TileLang silently uses mma.sync",
    cost="282 TFLOPS with B not transposed, 967 transposed (fp8 GEMM, H200)",
    unless=("D11",),
)
def eight_bit_tn(plan: TilePlan) -> Iterator[Obligation]:
    for _, gemm, _threads in gemms(plan):
        shape = plan.target.instruction("wgmma", gemm.dtype)
        if shape is None or not shape.tn_only:
            continue
        wrong = [
            text
            for text, holds in (
                (f"A is transposed (`{gemm.a}` is stored as K x M)", gemm.transpose_a),
                (f"B is not transposed (`{gemm.b}` is stored as K x N)", not gemm.transpose_b),
            )
            if holds
        ]
        yield Obligation(
            not _operands_misplaced(plan, gemm),
            at=gemm.operand_at or f"tensors.{gemm.b}",
            label=f"`{gemm.acc}` runs on mma.sync: for {gemm.dtype} operands {' and '.join(wrong)}",
            help=('store B as (N, K): `b = { shape = "N K" }`',),
        )


@rule(
    "D19",
    "tensor-memory",
    sentence="a gemm on a chip with tensor memory accumulates there",
    source="tilelang src/cuda/op/gemm.cc, AllowTcgen5Mma",
    severity=Severity.NOTE,
    today="TileLang silently uses mma.sync for an accumulator in fragments; the kernel is right, not fast",
)
def tensor_memory(plan: TilePlan) -> Iterator[Obligation]:
    for _, gemm, _threads in gemms(plan):
        yield Obligation(
            not _has(plan, "tcgen05"),
            at=f"target.{bare(plan.target).name}",  # where it holds, nobody asks where
            label=f"the accumulator `{gemm.acc}` is a fragment, so the gemm runs on mma.sync",
        )


@rule(
    "D16",
    "accumulator-registers",
    sentence="the accumulators of a thread stay in registers",
    source="ptxas 13.0: of 240 registers, 208 fp32 accumulators a thread do not spill and 224 do (sm_90a, WGMMA)",
    severity=Severity.SLOW,
    today="only an nvcc info line: ptxas spills, and serialises WGMMA (C7511, C7512)",
    cost="224 accumulators a thread: 128 TFLOPS, 192: 533 (fp16 GEMM 4096 cubed, H200)",
    unless=("A2", "A3", "D3", "D4", "D24"),
)
def accumulator_registers(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        for demand in accumulator_demands(plan, kernel):
            keys = (key for name in demand.held for key in kernel.buffer(name).decided_by)
            yield Obligation(
                at_most(demand.total, demand.available - demand.beside),
                at="tile.threads",
                label=text_of(_register_arithmetic, kernel, demand),
                parameter="threads",
                related=tuple(dict.fromkeys(keys)),
            )


def _register_arithmetic(values: Mapping[str, int], kernel: KernelPlan, demand: Demand) -> str:
    terms = []
    for name, count in demand.held.items():
        buffer = kernel.buffer(name)
        owners = kernel.launch.threads if buffer.owners is None else buffer.owners
        shape = " x ".join(text_at(extent, values) for extent in buffer.shape)
        terms.append(
            f"`{name}` is {shape} {buffer.dtype} over {text_at(owners, values)} threads = "
            f"{text_at(count, values)} registers a thread"
        )
    return "; ".join(terms) + f"; beside them the gemm needs about {demand.beside}, and there are {demand.available}"


@rule(
    "D24",
    "wgmma-registers",
    sentence="the accumulators of one WGMMA fit the registers that the block is launched with",
    source="ptxas 13.0, message C7602; CUDA Programming Guide, registers of a block",
    severity=Severity.ERROR,
    today="lowering accepts it; ptxas stops with `Insufficient registers to compile instruction`",
    unless=("A2", "A3", "A4"),
)
def wgmma_fits_registers(plan: TilePlan) -> Iterator[Obligation]:
    for kernel, gemm, threads in gemms(plan):
        path, kind = path_of(plan, gemm), _kind(gemm)
        block = kernel.launch.block_threads
        itemsize = ITEMSIZE[gemm.accum]

        def fits(m: int, n: int, k: int, t: int, block: int, kind: Kind = kind) -> bool:
            return answer(plan.target, _wgmma_fits, kind, (m, n, k, t), block)

        def label(
            values: Mapping[str, int],
            gemm: Gemm = gemm,
            threads: Size = threads,
            block: Any = block,
            path: Any = path,
            itemsize: int = itemsize,
        ) -> str:
            found = path(*_sizes(gemm, threads, values))
            needed, given = wgmma_registers(found.n, itemsize), value_at(block, values)
            return (
                f"one WGMMA of 64 x {found.n} holds {needed - WGMMA_OVERHEAD} accumulators a thread and needs {needed} "
                f"registers; {plan.target.registers.per_block} over {given} threads leave "
                f"{launch_limit(plan.target, given)}"
            )

        yield Obligation(
            pointwise(fits, gemm.m, gemm.n, gemm.k, threads, block),
            at=gemm.warps_at,
            label=label,
            parameter=parameter_of(gemm.warps_at),
            related=(gemm.m_at, gemm.n_at),
        )


def _wgmma_fits(chip: Target, kind: Kind, sizes: tuple[int, int, int, int], block: int) -> bool:
    path = _path(chip, kind, *sizes)
    if not isinstance(path, GemmPath) or path.instruction != "wgmma":
        return True
    return wgmma_registers(path.n, ITEMSIZE[kind[2]]) <= launch_limit(chip, block)


@rule(
    "D7",
    "wgmma-n",
    sentence="WGMMA runs at an N of at least 64",
    source="tilelang cuda/intrinsics/macro/wgmma_macro_generator.py, select_wgmma_inst_n",
    severity=Severity.SLOW,
    today="TileLang silently picks a narrow instruction: 272 columns run at n16",
    unless=("A2", "A3", "A4", "D3", "C2"),
)
def wgmma_width(plan: TilePlan) -> Iterator[Obligation]:
    for _, gemm, threads in gemms(plan):
        path = path_of(plan, gemm)

        def label(values: Mapping[str, int], gemm: Gemm = gemm, threads: Size = threads, path: Any = path) -> str:
            sizes = _sizes(gemm, threads, values)
            return f"{sizes[1]} columns over {path(*sizes).partition.n} warps in n run at n{path(*sizes).n}"

        at = gemm.n_at
        yield Obligation(
            pointwise(whether(plan, _wide, gemm), gemm.m, gemm.n, gemm.k, threads),
            at=at,
            label=label,
            parameter=parameter_of(at),
        )


def _wide(path: GemmPath | GemmRefusal, _m: int, n: int, _k: int, _threads: int) -> bool:
    return (
        not isinstance(path, GemmPath)
        or path.instruction != "wgmma"
        or n // path.partition.n % 16 != 0  # rules D5 and D6 speak of it
        or path.n >= min(64, n // path.partition.n)
    )


@rule(
    "E1",
    "row-softmax-warps",
    sentence="a softmax whose probabilities stay in registers has all warps along the rows",
    source="tilelang src/op/parallel.cc: layouts of two gemms that share a fragment must agree",
    severity=Severity.ERROR,
    today="TileLang stops with `Layout infer conflict between acc_s and acc_s_cast`",
    unless=("S1", "S2", "E11"),
    of_family=True,
)
def probabilities_in_registers(plan: TilePlan) -> Iterator[Obligation]:
    for _, gemm, threads in gemms(plan):
        if not gemm.a_in_registers:
            continue
        path = path_of(plan, gemm)

        def rowwise(m: int, n: int, k: int, t: int, path: Any = path) -> bool:
            found = path(m, n, k, t)
            return isinstance(found, GemmRefusal) or found.partition.n == 1

        yield Obligation(
            pointwise(rowwise, gemm.m, gemm.n, gemm.k, threads),
            at="tile.policy",
            label=f"the warps of `{gemm.acc}` stand side by side along N",
            help=('use policy = "full_row" with 16 rows a warp, or stage the probabilities through shared memory',),
        )
