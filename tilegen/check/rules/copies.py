"""Tiles between global and shared memory: whether TMA carries them, and what happens where it cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tilegen.check.claim import pointwise, text_at, value_at
from tilegen.check.rule import Obligation, parameter_of, rule, text_of
from tilegen.expr import all_of, any_of, divides, equal, free_names, less, mod, to_text
from tilegen.lowering.tma import tma_plan
from tilegen.lowering.vector import cp_async_bytes
from tilegen.plan.model import Copy, KernelPlan, LoopKind
from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan


def tma_loads(plan: TilePlan) -> Iterator[tuple[KernelPlan, Copy, bool]]:
    """Global-to-shared copies that TMA carries, or should: with whether the compiler refuses where it cannot."""
    for kernel in plan.kernels:
        for copy, loops in kernel.loads:
            pipelined = any(loop.kind is LoopKind.PIPELINED for loop in loops)
            if (copy.explicit_tma or pipelined) and plan.target.tma is not None:
                yield kernel, copy, copy.explicit_tma


def tma_stores(plan: TilePlan) -> Iterator[tuple[KernelPlan, Copy]]:
    """Shared-to-global copies: TileLang makes them TMA stores where it can."""
    for kernel in plan.kernels:
        for copy, _ in kernel.stores:
            if plan.target.tma is None:
                return
            yield kernel, copy


@rule(
    "C2",
    "tma-box-256",
    sentence="the tile can be loaded by TMA in boxes of at most 256 elements a side",
    source="tilelang src/cuda/op/copy.cc, AnalyzeTMABulkCopy; CUDA driver API, cuTensorMapEncodeTiled: boxDim",
    severity=Severity.ERROR,
    today='TileLang stops in LowerBulk with "T.tma_copy() cannot fall back to normal copy"; outside a pipelined loop '
    "it would silently use plain loads",
)
def tma_box(plan: TilePlan) -> Iterator[Obligation]:
    loads = list(tma_loads(plan))
    tma = plan.target.tma if loads else None
    for kernel, copy, _ in loads:
        assert tma is not None
        rows, columns, itemsize = copy.rows, copy.columns, kernel.buffer(copy.src).itemsize

        def boxes(r: int, c: int, itemsize: int = itemsize) -> Any:
            # What an operand's swizzle span must divide changes the boxes, never whether there are any.
            return tma_plan(r, c, itemsize, tma)

        def splits(r: int, c: int, itemsize: int = itemsize, boxes: Any = boxes) -> bool:
            if c * itemsize % tma.inner_bytes_multiple:
                return True  # rule C3 speaks of it
            return not isinstance(boxes(r, c), str)

        def label(values: Mapping[str, int], kernel: KernelPlan = kernel, copy: Copy = copy, boxes: Any = boxes) -> str:
            r, c = value_at(copy.rows, values), value_at(copy.columns, values)
            reason = boxes(r, c) if isinstance(r, int) and isinstance(c, int) else ""
            return f"the tile of `{copy.src}` is ({r}, {c}) {kernel.buffer(copy.src).dtype}: {reason}"

        at = copy.rows_at
        yield Obligation(
            pointwise(splits, rows, columns),
            at=at,
            label=label,
            parameter=parameter_of(at),
            statement=f"the tile of `{copy.src}` cannot be loaded by TMA",
            help=("an extent over 256 must split into equal boxes whose own bytes are a multiple of 128",),
        )


@rule(
    "C3",
    "tma-inner-16-bytes",
    sentence="a row of a TMA tile is a multiple of 16 bytes",
    source="CUDA driver API, cuTensorMapEncodeTiled: boxDim[0] times the element size",
    severity=Severity.SLOW,
    today="TileLang silently uses plain copies; an explicit T.tma_copy stops with `TMA is not available`",
    cost="596 down to 144 TFLOPS (fp16 GEMM 4096 cubed, H200) when one of two TMA loads is lost",
)
def tma_inner(plan: TilePlan) -> Iterator[Obligation]:
    loads = list(tma_loads(plan))
    tma = plan.target.tma if loads else None
    for kernel, copy, explicit in loads:
        assert tma is not None
        columns, itemsize = copy.columns, kernel.buffer(copy.src).itemsize
        at = copy.columns_at
        yield Obligation(
            divides(tma.inner_bytes_multiple, columns * itemsize),
            at=at,
            label=text_of(
                lambda values, c, i: (
                    f"a row is {text_at(c, values)} elements x {i} B = {text_at(c * i, values)} B, "
                    f"not a multiple of {tma.inner_bytes_multiple}"
                ),
                columns,
                itemsize,
            ),
            parameter=parameter_of(at),
            severity=Severity.ERROR if explicit else None,
        )


@rule(
    "C4",
    "tma-global-stride",
    sentence="the row pitch of a tensor that TMA carries is a multiple of 16 bytes, below 2^40",
    source="CUDA driver API, cuTensorMapEncodeTiled: globalStrides; tilelang src/cuda/op/copy_analysis.cc",
    severity=Severity.SLOW,
    today="TileLang silently loads with plain copies and drops the register reallocation",
    cost="596 TFLOPS at N = 4096, 144 at N = 4100 (fp16 GEMM, H200)",
)
def tma_stride(plan: TilePlan) -> Iterator[Obligation]:
    yield from _strides(plan, at_run_time=False)


@rule(
    "C5",
    "tma-dynamic-stride",
    sentence="a row pitch that TMA learns at run time is always a multiple of 16 bytes, below 2^40",
    source="CUDA driver API, cuTensorMapEncodeTiled: globalStrides; tilelang issue 460",
    severity=Severity.ERROR,
    today="TileLang emits the tensor map; the first call stops with `Invalid TMA descriptor arguments`",
)
def tma_dynamic_stride(plan: TilePlan) -> Iterator[Obligation]:
    yield from _strides(plan, at_run_time=True)


def _strides(plan: TilePlan, *, at_run_time: bool) -> Iterator[Obligation]:
    dynamic = {dim.name for dim in plan.spec.dims if dim.dynamic}
    transfers = [(kernel, copy, copy.src, explicit) for kernel, copy, explicit in tma_loads(plan)]
    transfers += [(kernel, copy, copy.dst, copy.explicit_tma) for kernel, copy in tma_stores(plan)]
    tma = plan.target.tma if transfers else None
    for kernel, copy, name, explicit in transfers:
        pitch = copy.row_pitch
        assert tma is not None
        assert pitch is not None  # one side of the copy is global
        if bool(free_names(pitch) & dynamic) is not at_run_time:
            continue
        tensor = kernel.buffer(name)
        nbytes = pitch * tensor.itemsize
        multiple = tma.stride_bytes_multiple // tensor.itemsize
        yield Obligation(
            all_of(divides(tma.stride_bytes_multiple, nbytes), less(nbytes, tma.stride_bytes_limit)),
            at=tensor.at,
            label=text_of(
                lambda values, name, tensor, pitch, nbytes: (
                    f"a row of `{name}` is {to_text(pitch)} x {tensor.itemsize} B = {text_at(nbytes, values)} B, "
                    f"not a multiple of {tma.stride_bytes_multiple} below 2^40"
                ),
                name,
                tensor,
                pitch,
                nbytes,
            ),
            severity=Severity.ERROR if explicit else None,
            help=(
                f"declare multiple_of = {multiple} for the dim"
                if at_run_time
                else f"pad the rows of `{name}` to a multiple of {multiple} elements",
            ),
            statement=f"the rows of `{name}` cannot be reached by TMA",
        )


@rule(
    "C10",
    "cp-async-width",
    sentence="a tile that cp.async carries is copied in vectors of 4, 8 or 16 bytes",
    source="PTX ISA, cp.async; tilelang src/cuda/transform/ptx_async_copy_injector.cc",
    severity=Severity.SLOW,
    today="TileLang silently copies through registers, without asynchrony",
)
def cp_async_width(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        for copy, loops in kernel.loads:
            if not any(loop.kind is LoopKind.PIPELINED for loop in loops):
                continue
            if plan.target.tma is not None or not plan.target.copy.cp_async_bytes:
                return
            yield _cp_async(plan, kernel, copy)


def _cp_async(plan: TilePlan, kernel: KernelPlan, copy: Copy) -> Obligation:
    rows, columns, itemsize = copy.rows, copy.columns, kernel.buffer(copy.src).itemsize
    threads, pitch = kernel.launch.threads, copy.row_pitch
    assert pitch is not None
    step = plan.target.copy.vector_bytes // itemsize

    def wide(r: int, c: int, p: int, t: int) -> bool:
        # Of the pitch only what it leaves over 16 bytes matters.
        return cp_async_bytes(r, c, p % step or step, itemsize, t, plan.target) is not None

    label = text_of(
        lambda values: (
            f"the tile of `{copy.src}` is {text_at(rows, values)} x {text_at(columns, values)} of {itemsize} B, its rows "
            f"{text_at(pitch, values)} elements apart: less than 4 bytes to a copy"
        )
    )
    sizes = (rows, columns, threads)
    if not all(isinstance(size, int) for size in sizes):
        at = copy.columns_at
        return Obligation(
            pointwise(wide, rows, columns, pitch, threads), at=at, label=label, parameter=parameter_of(at)
        )
    fine = [left for left in range(step) if wide(rows, columns, left, threads)]
    tensor = kernel.buffer(copy.src)
    # Where aligned rows would do, it is the tensor that is at fault, else the tile.
    at = tensor.at if 0 in fine else copy.columns_at
    return Obligation(
        any_of(*(equal(mod(pitch, step), left) for left in fine)),
        at=at,
        label=label,
        parameter=parameter_of(at),
        help=(f"pad the rows of `{copy.src}` to a multiple of {step} elements",) if 0 in fine else (),
    )
