"""The plan of stream-K and of its swapped form, `skinny`.

The K steps of all output tiles stand in one line, which is cut into equal runs, one for each block. A tile of several
runs is summed by the block that arrives last, from the float32 workspace `partial`; `arrived` counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilegen.expr import ceil_div, floor_div, multiply, symbol
from tilegen.families.gemm.operands import (
    SWIZZLED,
    epilogue_tensors,
    global_buffers,
    is_transposed,
    loads,
    operand_shapes,
)
from tilegen.families.gemm.persistent import GROUP_THREADS
from tilegen.plan.model import (
    Buffer,
    Copy,
    Elementwise,
    Fill,
    Gemm,
    KernelPlan,
    Launch,
    Loop,
    LoopKind,
    Op,
    Role,
    Scope,
)

if TYPE_CHECKING:
    from tilegen.spec.model import Spec


def stream_k(spec: Spec, dtypes: Mapping[str, str], tiles: Mapping[str, Any], *, swapped: bool = False) -> KernelPlan:
    """The kernel of :file:`stream_k.jinja`, or of :file:`skinny.jinja` where the operands are ``swapped``."""
    k_steps = ceil_div(symbol("K"), tiles["BLOCK_K"])
    consume = _consume(spec, dtypes, tiles, swapped, k_steps)
    produce = Loop(LoopKind.SERIAL, "k", k_steps, loads(spec, tiles, explicit_tma=True), runtime_trips=True)
    return KernelPlan(
        name=spec.kernel,
        launch=Launch(
            # At most: the host takes as many as one wave holds with every tile cut into as many runs.
            grid=(symbol("sm_count"),),
            threads=tiles["threads"],
            producer_threads=GROUP_THREADS,
            decided_by=("tile.threads",),
            names=("blocks",),
        ),
        buffers=(*global_buffers(spec, dtypes), *_workspace(tiles, swapped), *_tiles(spec, dtypes, tiles, swapped)),
        body=(*consume, produce),
        barriers=2 * tiles["stages"],
        roles=(Role("consumers", tiles["threads"], len(consume)), Role("producer", GROUP_THREADS, 1)),
    )


def accumulator_shape(tiles: Mapping[str, Any], *, swapped: bool) -> tuple[Any, Any]:
    """Rows and columns of the accumulator: those of the output tile, or of its transpose."""
    shape = (tiles["BLOCK_M"], tiles["BLOCK_N"])
    return shape[::-1] if swapped else shape


def _workspace(tiles: Mapping[str, Any], swapped: bool) -> tuple[Buffer, ...]:
    blocks = symbol("sm_count")
    shape = (multiply(2, blocks), *accumulator_shape(tiles, swapped=swapped))
    sizes = ("tile.BLOCK_M", "tile.BLOCK_N")
    return (
        Buffer("partial", Scope.GLOBAL, shape, "float32", 1, sizes, "incomplete tiles: two for each block"),
        Buffer("arrived", Scope.GLOBAL, (blocks,), "int32", 1, sizes, "runs of a tile that are there"),
    )


def _tiles(spec: Spec, dtypes: Mapping[str, str], tiles: Mapping[str, Any], swapped: bool) -> tuple[Buffer, ...]:
    stages = tiles["stages"]
    a_shape, b_shape = operand_shapes(spec, tiles)
    staged = (tiles["BLOCK_M"], tiles["BLOCK_N"] if swapped else tiles["STORE_N"])
    m, n, k, s = "tile.BLOCK_M", "tile.BLOCK_N", "tile.BLOCK_K", "tile.stages"
    store = n if swapped else "tile.STORE_N"
    return (
        Buffer("a_shared", Scope.SHARED, (stages, *a_shape), dtypes["a"], 1, (s, m, k), "tiles of a", (1, 1), SWIZZLED),
        Buffer("b_shared", Scope.SHARED, (stages, *b_shape), dtypes["b"], 1, (s, n, k), "tiles of b", (1, 1), SWIZZLED),
        Buffer(
            "c_shared", Scope.SHARED, staged, dtypes["c"], 1, (m, store), "part of c on its way out", (1, 1), SWIZZLED
        ),
        Buffer("before", Scope.SHARED, (1,), "int32", 1, (), "runs that arrived before this one", (1, 1)),
        Buffer(
            "acc",
            Scope.FRAGMENT,
            accumulator_shape(tiles, swapped=swapped),
            spec.compute.accum,  # type: ignore[attr-defined]
            decided_by=(m, n),
            holds="the product",
            owners=tiles["threads"],
        ),
    )


def _consume(
    spec: Spec, dtypes: Mapping[str, str], tiles: Mapping[str, Any], swapped: bool, k_steps: Any
) -> tuple[Op, ...]:
    block_m, block_n, block_k = tiles["BLOCK_M"], tiles["BLOCK_N"], tiles["BLOCK_K"]
    shape = accumulator_shape(tiles, swapped=swapped)
    sizes = ("tile.BLOCK_N", "tile.BLOCK_M") if swapped else ("tile.BLOCK_M", "tile.BLOCK_N")
    product = Gemm(
        "b_shared" if swapped else "a_shared",
        "a_shared" if swapped else "b_shared",
        "acc",
        *shape,
        block_k,
        dtypes["a"],
        spec.compute.accum,  # type: ignore[attr-defined]
        transpose_a=not is_transposed(spec, "b") if swapped else is_transposed(spec, "a"),
        transpose_b=not is_transposed(spec, "a") if swapped else is_transposed(spec, "b"),
        policy="full_row",
        threads=tiles["threads"],
        decided_by=(*sizes, "tile.BLOCK_K", "tile.threads"),
        dtype_at="tensors.a.dtype",
        operand_at="tensors.a.shape" if swapped else "tensors.b.shape",
    )
    fix_up: tuple[Op, ...] = (
        Copy("acc", "partial", shape),
        Fill("acc"),
        Loop(LoopKind.SERIAL, "run", k_steps, (Elementwise("acc", ("acc", "partial"), shape),), runtime_trips=True),
    )
    return (
        Loop(LoopKind.SERIAL, "k", k_steps, (product,), decided_by=("tile.BLOCK_K",), runtime_trips=True),
        *fix_up,
        Elementwise(
            "acc",
            ("acc", *(tensor.name for tensor in epilogue_tensors(spec))),
            shape,
            what=spec.compute.c.text,  # type: ignore[attr-defined]
        ),
        _store(tiles, block_m, block_n, swapped),
    )


def _store(tiles: Mapping[str, Any], block_m: Any, block_n: Any, swapped: bool) -> Loop:
    width = block_n if swapped else tiles["STORE_N"]
    stores: tuple[Op, ...] = (
        Elementwise("c_shared", ("acc",), (block_n, block_m)) if swapped else Copy("acc", "c_shared", (block_m, width)),
        Copy(
            "c_shared",
            "c",
            (block_m, width),
            row_pitch=symbol("N"),
            may_overrun=True,
            explicit_tma=True,
            decided_by=("tile.BLOCK_M", "tile.BLOCK_N" if swapped else "tile.STORE_N"),
        ),
    )
    return Loop(LoopKind.UNROLLED, "part", floor_div(block_n, width), stores)
