"""Row fragments: which tiles have a layout, which reductions lower, and the cliff of a replicated layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tilegen.check.claim import pointwise, text_at
from tilegen.check.rule import Obligation, parameter_of, rule, text_of
from tilegen.expr import any_of, at_most, divides, multiply, to_text
from tilegen.lowering.legal import is_power_of_two
from tilegen.lowering.reduction import row_reduction
from tilegen.plan.model import Buffer, Copy, Gemm, KernelPlan, Reduce, RowPass, Scope
from tilegen.plan.registers import Demand, row_demands
from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan


def _row_fragments(plan: TilePlan) -> Iterator[tuple[KernelPlan, Buffer]]:
    """Two-dimensional fragments that no gemm gives a layout."""
    for kernel in plan.kernels:
        laid_out = {name for gemm, _ in kernel.find(Gemm) for name in (gemm.acc, gemm.a)}
        for buffer in kernel.scope(Scope.FRAGMENT):
            if len(buffer.shape) == 2 and buffer.name not in laid_out:
                yield kernel, buffer


def _shape(buffer: Buffer, values: object) -> str:
    return " x ".join(text_at(extent, values) for extent in buffer.shape)  # type: ignore[arg-type]


@rule(
    "F1",
    "fragment-tile",
    sentence="the elements of a fragment are a multiple of the threads, or at most as many",
    source="tilelang src/transform/layout_inference.cc",
    severity=Severity.ERROR,
    today="TileLang stops with `no available layout found`",
)
def fragment_tile(plan: TilePlan) -> Iterator[Obligation]:
    for kernel, buffer in _row_fragments(plan):
        if buffer.annotated or any(True for _ in kernel.find(Reduce)):
            continue  # its layout is given, and rule F18 speaks of it; or it follows from a reduction, as rule F2 says
        at = buffer.at
        yield Obligation(
            any_of(at_most(buffer.elements, kernel.launch.threads), divides(kernel.launch.threads, buffer.elements)),
            at=at,
            label=text_of(
                lambda values, b, k: (
                    f"`{b.name}` is {_shape(b, values)} = {text_at(b.elements, values)} elements over "
                    f"{to_text(k.launch.threads)} threads"
                ),
                buffer,
                kernel,
            ),
            parameter=parameter_of(at),
            related=("tile.threads",),
        )


@rule(
    "F2",
    "row-reduction",
    sentence="a reduction along rows whose layout is left to TileLang has one over the threads",
    source="tilelang src/op/reduce.cc, ComputeReducerLayout; src/transform/layout_inference.cc; tilelang 2399, 2542",
    severity=Severity.ERROR,
    today="TileLang stops with `no available layout found`, or `logical_width ... to be a positive power of two`",
    unless=("A3", "F1"),
)
def row_reductions(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        for reduce, _ in kernel.find(Reduce):
            buffer = kernel.buffer(reduce.src)
            if buffer.annotated or buffer.name not in {b.name for k, b in _row_fragments(plan) if k is kernel}:
                continue
            row_loop = reduce.kind == "sum"  # a maximum is used in loops over the tile alone
            itemsize, wide = plan.io_itemsize, plan.target.copy.vector_bytes_global_only
            beside = any(b.shape == buffer.shape[1:] for b in kernel.scope(Scope.FRAGMENT))

            pitch = next(
                copy.row_pitch for copy, _ in kernel.find(Copy) if kernel.buffer(copy.dst).shape == buffer.shape
            )
            assert pitch is not None  # one side of the copy is global

            def lowers(
                rows: int,
                columns: int,
                threads: int,
                pitch: int,
                i: int = itemsize,
                w: int = wide,
                loop: bool = row_loop,
                beside: bool = beside,
                term: int = buffer.itemsize,
            ) -> bool:
                found = row_reduction(
                    rows,
                    columns,
                    threads,
                    i,
                    row_loop=loop,
                    vector_bytes=w,
                    pitch=pitch,
                    term_itemsize=term,
                    beside=beside,
                )
                return found.outcome != "refused"

            at = buffer.at
            yield Obligation(
                pointwise(lowers, *buffer.shape, kernel.launch.threads, pitch),
                at=at,
                label=text_of(
                    lambda values, b, k: (
                        f"a row of `{b.name}`, {_shape(b, values)}, has no power of two of "
                        f"{to_text(k.launch.threads)} threads to be reduced by"
                    ),
                    buffer,
                    kernel,
                ),
                parameter=parameter_of(at),
                related=("tile.threads", *buffer.decided_by[:-1]),
                help=("a BLOCK_C of a power of two of 16-byte vectors is laid out by the source",),
            )


@rule(
    "F18",
    "row-lanes",
    sentence="the lanes of a row are a power of two of neighbouring threads, and blocks hold whole passes of rows, or "
    "whole sweeps of a chunk",
    source="tilelang tl_templates/cuda/reduce.h: the butterfly needs a power of two of lanes",
    severity=Severity.ERROR,
    today="TileLang stops in the XOR butterfly, or in layout inference",
)
def row_lanes(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        for rows in kernel.row_passes:
            if rows.chunk is not None:
                yield from _whole_sweeps(rows)
                continue
            yield Obligation(
                pointwise(_whole_passes, rows.block_rows, rows.lanes, kernel.launch.threads),
                at=rows.rows_at,
                label=text_of(_passes, rows, kernel),
                parameter=parameter_of(rows.rows_at),
                related=("tile.threads",),
                help=("BLOCK_M must be a multiple of threads // lanes, and the lanes must divide the threads",),
            )


def _whole_sweeps(rows: RowPass) -> Iterator[Obligation]:
    """Of a row in chunks: all threads share it, and take a chunk in whole sweeps."""
    yield Obligation(
        pointwise(is_power_of_two, rows.lanes),
        at="tile.threads",
        label=text_of(
            lambda values, lanes: f"{text_at(lanes, values)} threads share a row, which is no power of two", rows.lanes
        ),
        parameter="threads",
    )
    sweep = multiply(rows.lanes, VECTOR_BYTES // rows.itemsize)
    at = rows.rows_at
    yield Obligation(
        divides(sweep, rows.chunk),
        at=at,
        label=text_of(
            lambda values, r, s: (
                f"{text_at(r.lanes, values)} threads take {text_at(s, values)} columns in one sweep, 16 bytes each; a "
                f"chunk is {text_at(r.chunk, values)}"
            ),
            rows,
            sweep,
        ),
        parameter=parameter_of(at),
        related=("tile.threads",),
        help=(f"BLOCK_C must be a multiple of {to_text(sweep)}",),
    )


def _passes(values: Mapping[str, int], rows: RowPass, kernel: KernelPlan) -> str:
    lanes, threads = text_at(rows.lanes, values), to_text(kernel.launch.threads)
    rows_of_block = text_at(rows.block_rows, values)
    return f"{lanes} lanes a row over {threads} threads do {threads} / {lanes} rows a pass, BLOCK_M is {rows_of_block}"


def _whole_passes(block_rows: int, lanes: int, threads: int) -> bool:
    """Whole passes, or a part of one; but of a row alone that does not fill its pass TileLang loses the layout."""
    if lanes > threads or not is_power_of_two(lanes):
        return False
    left_over = block_rows % (threads // lanes)
    return left_over == 0 or 1 < left_over == block_rows


@rule(
    "F20",
    "row-threads-idle",
    sentence="every thread of a block has a row",
    source="arithmetic: a pass of the block takes threads // lanes rows",
    severity=Severity.SLOW,
    today="accepted: the threads past the last row of the block do nothing",
    unless=("F18",),
)
def threads_idle(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        for rows in kernel.row_passes:
            yield Obligation(
                pointwise(_no_thread_idle, rows.block_rows, rows.lanes, kernel.launch.threads),
                at=rows.rows_at,
                label=text_of(_passes, rows, kernel),
                parameter=parameter_of(rows.rows_at),
                related=("tile.threads",),
            )


def _no_thread_idle(block_rows: int, lanes: int, threads: int) -> bool:
    return block_rows >= threads // lanes


@rule(
    "F19",
    "row-16-bytes",
    sentence="a row starts at a multiple of 16 bytes",
    source="PTX ISA, ld and st: a vector access is aligned to its size; tilelang src/transform/loop_vectorize.cc",
    severity=Severity.SLOW,
    today="TileLang narrows the vectors to what divides the row, silently: 8, 4 or 2 bytes an access",
)
def row_alignment(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        for rows in kernel.row_passes:
            nbytes = rows.length * rows.itemsize
            yield Obligation(
                divides(VECTOR_BYTES, nbytes),
                at=rows.length_at,
                label=text_of(
                    lambda values, r, b: (
                        f"a row is {text_at(r.length, values)} x {r.itemsize} B = {text_at(b, values)} B, "
                        f"not a multiple of {VECTOR_BYTES}"
                    ),
                    rows,
                    nbytes,
                ),
                help=(
                    f"pad the rows to a multiple of {VECTOR_BYTES // rows.itemsize} elements, or leave the value out",
                ),
            )


VECTOR_BYTES = 16


@rule(
    "F17",
    "row-fragment-power-of-two",
    sentence="the width of a row fragment is a power of two",
    source="measured: layout inference replicates the fragment otherwise",
    severity=Severity.SLOW,
    today="the values are right; every lane holds a copy of what others hold",
    cost="C = 160: 0.60 TB/s, 320: 0.31, 640: 0.10, against 3.9 to 4.1 in power-of-two chunks (RMS-SiLU, H200)",
)
def power_of_two_width(plan: TilePlan) -> Iterator[Obligation]:
    for _, buffer in _row_fragments(plan):
        if buffer.annotated:
            continue
        at = buffer.at
        yield Obligation(
            pointwise(is_power_of_two, buffer.shape[-1]),
            at=at,
            label=text_of(
                lambda values, b: (
                    f"`{b.name}` is {_shape(b, values)}: {text_at(b.shape[-1], values)} columns get a replicated layout"
                ),
                buffer,
            ),
            parameter=parameter_of(at),
            help=("hold the row as several fragments, each a power of two wide",),
        )


@rule(
    "F9",
    "row-registers",
    sentence="the row fragments of a thread stay in registers",
    source="ptxas 13.0, RMS norm of 16 float16 rows over 128 threads: 1,536 columns take 254 registers, 1,664 spill",
    severity=Severity.SLOW,
    today="ptxas spills without a word from TileLang",
)
def row_registers(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        for demand in row_demands(plan, kernel):
            held = [kernel.buffer(name) for name in demand.held]
            keys = held[0].decided_by or ("tile",)
            yield Obligation(
                demand.fits,
                at=keys[0],
                label=text_of(_row_arithmetic, held, demand),
                parameter=parameter_of(keys[0]),
                related=(*keys[1:], "tile.threads"),
                help=('schedule = "two_pass" holds a chunk of a row at a time',) if plan.schedule == "one_pass" else (),
            )


def _row_arithmetic(values: Mapping[str, int], held: list[Buffer], demand: Demand) -> str:
    return (
        "; ".join(f"`{row.name}` is {_shape(row, values)} {row.dtype}" for row in held)
        + f" = {text_at(demand.total, values)} registers a thread; beside them about {demand.beside} are needed"
        + (
            f", or {text_at(demand.converted, values)} in all once converted for the sum"
            if demand.converted != 0
            else ""
        )
        + f", and there are {demand.available}"
    )


@rule(
    "F8",
    "reduce-accumulator",
    sentence="a sum of squares is accumulated in float32",
    source="tilelang src/cuda/op/reduce.cc: the reduction runs in the dtype of its destination",
    severity=Severity.ERROR,
    today="accepted silently: 4096 x 4.0^2 = 65536 is over the largest float16, 65504; 4096 x 1.0^2 sums to 2048",
)
def reduce_accumulator(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        for reduce, _ in kernel.find(Reduce):
            if reduce.kind != "sum":
                continue
            dtype = kernel.buffer(reduce.dst).dtype
            yield Obligation(
                dtype in ("float32", "float64"),
                at="compute.accum",
                label=text_of(
                    lambda values, r, d: (
                        f"`{r.dst}` sums {text_at(r.length, values)} terms in {d}: "
                        + ("inputs of 4.0 overflow at 4096 terms" if d == "float16" else "it keeps 8 bits of the sum")
                    ),
                    reduce,
                    dtype,
                ),
                help=('use accum = "float32"',),
            )
