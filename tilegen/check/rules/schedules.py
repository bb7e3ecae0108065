"""Hand-written warp specialisation: explicit TMA, warp groups that own rows, and sums through a workspace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tilegen.check.claim import pointwise, text_at
from tilegen.check.domain import SM_COUNT
from tilegen.check.rule import Obligation, rule, text_of
from tilegen.check.rules.copies import tma_stores
from tilegen.expr import Size, add, all_of, any_of, at_most, divides, equal, less, multiply, to_text
from tilegen.plan.model import Copy, Gemm, KernelPlan, Scope
from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan

INT32_MAX = 2**31 - 1
MAX_BOX = 256
GROUP_ROWS = 64


def _explicit(plan: TilePlan) -> Iterator[KernelPlan]:
    """The kernels that issue TMA themselves."""
    return (kernel for kernel in plan.kernels if any(copy.explicit_tma for copy, _ in kernel.find(Copy)))


def _is_output_tile(plan: TilePlan) -> bool:
    """Whether a block owns a tile of rows and columns of a product, as these rules take it."""
    return all(name in plan.tiles for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))


def _schedule_at(plan: TilePlan) -> str:
    own = f"target.{plan.target.name}.schedule"
    path = own if plan.spec.has(own) else "schedule"
    rule_path = f"{path}[{plan.case.chosen.get('schedule')}].use"
    return rule_path if plan.spec.has(rule_path) else path


@rule(
    "S1",
    "explicit-schedule-chip",
    sentence="the chip has the instructions of the schedule: TMA, WGMMA and register reallocation",
    source="PTX ISA: wgmma and setmaxnreg need sm_90a, cp.async.bulk.tensor sm_90",
    severity=Severity.ERROR,
    today="TileLang stops while lowering, or nvcc does on the generated instructions",
)
def chip_of_schedule(plan: TilePlan) -> Iterator[Obligation]:
    explicit = list(_explicit(plan))
    if not explicit:
        return
    target = plan.target
    has = {
        "TMA": target.tma is not None,
        "WGMMA": target.has_instruction("wgmma"),
        "setmaxnreg": target.register_reallocation is not None,
    }
    lacking = " and ".join(name for name, there in has.items() if not there)
    for _ in explicit:
        yield Obligation(
            not lacking,
            at=_schedule_at(plan),
            label=f"`{plan.schedule}` on {target.name}, which has no {lacking}",
            help=(f'give [target.{target.name}] schedule = "plain"',),
        )


@rule(
    "S2",
    "schedule-gemm-is-wgmma",
    sentence="a product that a schedule issues as WGMMA has operands and an accumulator that WGMMA takes",
    source="PTX ISA, wgmma.mma_async: types and shapes; tilelang src/cuda/op/gemm.cc",
    severity=Severity.ERROR,
    today="TileLang stops: T.wgmma_gemm does not fall back to mma.sync",
    unless=("A3", "D3", "D4", "D5", "D8", "D9", "D11", "S1"),
)
def product_is_wgmma(plan: TilePlan) -> Iterator[Obligation]:
    from tilegen.check.rules.gemm import path_of
    from tilegen.lowering.instruction import GemmPath

    for kernel in _explicit(plan):
        for gemm, _ in kernel.find(Gemm):
            threads = kernel.launch.threads if gemm.threads is None else gemm.threads
            path = path_of(plan, gemm)

            def fine(m: int, n: int, k: int, t: int, path: Any = path) -> bool:
                found = path(m, n, k, t)
                return isinstance(found, GemmPath) and found.instruction == "wgmma"

            yield Obligation(
                pointwise(fine, gemm.m, gemm.n, gemm.k, threads),
                at=gemm.m_at,
                label=text_of(
                    lambda values, g, t: (
                        f"`{g.acc}` is {text_at(g.m, values)} x {text_at(g.n, values)} of {g.dtype} with "
                        f"{g.accum} over {text_at(t, values)} threads, which is no WGMMA"
                    ),
                    gemm,
                    threads,
                ),
                related=(gemm.n_at, gemm.k_at),
            )


@rule(
    "S3",
    "store-part-of-tile",
    sentence="the output tile leaves in whole parts, each a TMA box with rows of a multiple of 16 bytes",
    source="CUDA driver API, cuTensorMapEncodeTiled: boxDim; the loop over the parts runs BLOCK_N // STORE_N times",
    severity=Severity.ERROR,
    today="columns are not stored, silently; TileLang refuses a row that is no multiple of 16 bytes",
)
def store_parts(plan: TilePlan) -> Iterator[Obligation]:
    for kernel, copy in tma_stores(plan):
        if not copy.explicit_tma or not _is_output_tile(plan):
            continue
        rows, columns = copy.extents
        itemsize = kernel.buffer(copy.dst).itemsize
        width: Size = plan.tiles["BLOCK_N"]
        staged = plan.tiles.get("STORE_N") is not None
        parameter = "STORE_N" if staged else "BLOCK_N"
        yield Obligation(
            all_of(
                divides(columns, width),
                divides(16, multiply(columns, itemsize)),
                at_most(columns, MAX_BOX),
                at_most(rows, MAX_BOX),
            ),
            at=f"tile.{parameter}",
            label=text_of(
                lambda values, c, w, i, r, d: (
                    f"parts of {text_at(r, values)} x {text_at(c, values)} {d} of a tile of "
                    f"{text_at(w, values)} columns: a part divides them, has at most 256 of them, and "
                    f"{text_at(c, values)} x {i} B is a multiple of 16"
                ),
                columns,
                width,
                itemsize,
                rows,
                kernel.buffer(copy.dst).dtype,
            ),
            parameter=parameter,
            related=("tile.BLOCK_N",) if staged else (),
        )


@rule(
    "S4",
    "warp-group-rows",
    sentence="a persistent tile has 64 rows, or 128 in two groups: a warp group for every 64 rows",
    source="PTX ISA, wgmma: 64 rows; the register file holds the accumulators of two groups of 64 x 256",
    severity=Severity.ERROR,
)
def group_rows(plan: TilePlan) -> Iterator[Obligation]:
    if plan.schedule != "persistent":
        return
    rows = plan.tiles["BLOCK_M"]
    yield Obligation(
        isinstance(rows, int) and rows in (GROUP_ROWS, 2 * GROUP_ROWS),
        at="tile.BLOCK_M",
        label=f"BLOCK_M = {to_text(rows)}, allowed are {GROUP_ROWS} and {2 * GROUP_ROWS}",
        parameter="BLOCK_M",
    )


@rule(
    "S5",
    "consumers-of-a-run",
    sentence="the consumers of a stream-K block are one or two warp groups",
    source="PTX ISA, setmaxnreg: 24 registers for the producer and 240 for each of two groups are what the file holds; "
    "setmaxnreg.inc waits until there are enough",
    severity=Severity.ERROR,
)
def run_consumers(plan: TilePlan) -> Iterator[Obligation]:
    if plan.schedule not in ("stream_k", "skinny"):
        return
    threads = plan.tiles["threads"]
    yield Obligation(
        any_of(equal(threads, 128), equal(threads, 256)),
        at="tile.threads",
        label=text_of(lambda values, t: f"{text_at(t, values)} consumer threads, allowed are 128 and 256", threads),
        parameter="threads",
    )


@rule(
    "S6",
    "workspace-float32",
    sentence="parts of a product are added up in float32",
    source="the workspace is float32; a sum in another dtype would depend on how a tile was cut",
    severity=Severity.ERROR,
)
def workspace_dtype(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        for gemm, _ in kernel.find(Gemm):
            if _adds_up_parts(kernel):
                yield Obligation(
                    gemm.accum == "float32",
                    at="compute.accum",
                    label=f"`{plan.schedule}` with an accumulator of {gemm.accum}",
                    help=('accum = "float32", or another schedule',),
                )


@rule(
    "S7",
    "workspace-index-int32",
    sentence="the K steps of all tiles, by which a block finds its run and its workspace, fit a 32-bit integer",
    source="T.int32 arithmetic of the kernel; sm_count is read at run time, up to 512",
    severity=Severity.ERROR,
    today="the index wraps around and the kernel reads elsewhere",
)
def workspace_index(plan: TilePlan) -> Iterator[Obligation]:
    from tilegen.expr import ceil_div, symbol

    if not _is_output_tile(plan):
        return
    for _ in _explicit(plan):
        steps = multiply(
            ceil_div(symbol("M"), plan.tiles["BLOCK_M"]),
            ceil_div(symbol("N"), plan.tiles["BLOCK_N"]),
            ceil_div(symbol("K"), plan.tiles["BLOCK_K"]),
        )
        # One run more than there are steps: the last block's run starts there.
        yield Obligation(
            less(add(steps, SM_COUNT.hi), INT32_MAX),
            at="dims.M",
            label=text_of(
                lambda values, s: f"{to_text(s)} = {text_at(s, values)} K steps of all tiles, over 2^31 - 1", steps
            ),
        )


def _adds_up_parts(kernel: KernelPlan) -> bool:
    return any(buffer.name == "partial" for buffer in kernel.scope(Scope.GLOBAL))
