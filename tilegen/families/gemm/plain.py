"""The plan of the plain schedule: one block for each output tile, its loop pipelined by TileLang."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilegen.check.domain import domain_of
from tilegen.expr import ceil_div, multiply, symbol
from tilegen.families.gemm.operands import (
    SWIZZLED,
    epilogue_tensors,
    global_buffers,
    is_transposed,
    loads,
    operand_shapes,
)
from tilegen.lowering.shared_memory import versions
from tilegen.plan.model import (
    ITEMSIZE,
    Buffer,
    Case,
    Copy,
    Elementwise,
    Fill,
    Gemm,
    KernelPlan,
    Launch,
    Loop,
    LoopKind,
    Op,
    Scope,
)
from tilegen.plan.pipeline import specialisation

if TYPE_CHECKING:
    from tilegen.spec.model import Spec
    from tilegen.targets import Target


def plain(spec: Spec, target: Target, dtypes: Mapping[str, str], case: Case) -> KernelPlan:
    """The kernel of :file:`plain.jinja`."""
    m, n, k = symbol("M"), symbol("N"), symbol("K")
    tiles = case.tiles
    stages, operands = tiles["stages"], loads(spec, tiles)
    domain = domain_of(spec).restricted(case.condition)
    specialised = specialisation(spec, target, domain, tiles["threads"], operands, ITEMSIZE[dtypes["a"]])
    return KernelPlan(
        name=spec.kernel,
        launch=Launch(
            grid=(ceil_div(n, tiles["BLOCK_N"]), ceil_div(m, tiles["BLOCK_M"])),
            threads=tiles["threads"],
            producer_threads=specialised.producer_threads,
            decided_by=("tile.BLOCK_N", "dims.M"),
            swizzle=(tiles["swizzle"].order, tiles["swizzle"].panel) if tiles["swizzle"] else None,
        ),
        buffers=(*global_buffers(spec, dtypes), *_tiles(spec, target, dtypes, tiles)),
        body=(
            Fill("acc"),
            Loop(
                LoopKind.PIPELINED,
                "k",
                ceil_div(k, tiles["BLOCK_K"]),
                (*operands, _product(spec, dtypes, tiles)),
                stages=stages,
                decided_by=("tile.BLOCK_K",),
            ),
            *_epilogue(spec, tiles["BLOCK_M"], tiles["BLOCK_N"]),
        ),
        barriers=multiply(2, stages, specialised.barriers),
    )


def _tiles(spec: Spec, target: Target, dtypes: Mapping[str, str], tiles: Mapping[str, Any]) -> tuple[Buffer, ...]:
    a_shape, b_shape = operand_shapes(spec, tiles)
    c_shape, stages = (tiles["BLOCK_M"], tiles["BLOCK_N"]), tiles["stages"]
    if isinstance(stages, int):
        stages = versions(target, stages)
    m, n, k = "tile.BLOCK_M", "tile.BLOCK_N", "tile.BLOCK_K"
    return (
        Buffer("a_shared", Scope.SHARED, a_shape, dtypes["a"], stages, (m, k), "a tile of a", (1, 1), SWIZZLED),
        Buffer("b_shared", Scope.SHARED, b_shape, dtypes["b"], stages, (n, k), "a tile of b", (1, 1), SWIZZLED),
        Buffer("c_shared", Scope.SHARED, c_shape, dtypes["c"], 1, (m, n), "c on its way out", (3, 4), SWIZZLED),
        Buffer("acc", Scope.FRAGMENT, c_shape, spec.compute.accum, 1, (m, n), "the product"),  # type: ignore[attr-defined]
    )


def _product(spec: Spec, dtypes: Mapping[str, str], tiles: Mapping[str, Any]) -> Gemm:
    return Gemm(
        "a_shared",
        "b_shared",
        "acc",
        tiles["BLOCK_M"],
        tiles["BLOCK_N"],
        tiles["BLOCK_K"],
        dtypes["a"],
        spec.compute.accum,  # type: ignore[attr-defined]
        transpose_a=is_transposed(spec, "a"),
        transpose_b=is_transposed(spec, "b"),
        policy=tiles["policy"],
        decided_by=("tile.BLOCK_M", "tile.BLOCK_N", "tile.BLOCK_K", "tile.threads"),
        dtype_at="tensors.a.dtype",
        operand_at="tensors.b.shape",
    )


def _epilogue(spec: Spec, block_m: Any, block_n: Any) -> tuple[Op, ...]:
    extra = tuple(tensor.name for tensor in epilogue_tensors(spec))
    return (
        Elementwise("acc", ("acc", *extra), (block_m, block_n), what=spec.compute.c.text),  # type: ignore[attr-defined]
        Copy("acc", "c_shared", (block_m, block_n)),
        Copy(
            "c_shared",
            "c",
            (block_m, block_n),
            row_pitch=symbol("N"),
            may_overrun=True,
            decided_by=("tile.BLOCK_M", "tile.BLOCK_N"),
        ),
    )
