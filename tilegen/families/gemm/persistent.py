"""The plan of the persistent schedule: a block for each SM, a producer, and a warp group for every 64 rows of a tile.

The consumer groups have their own rows, accumulator, staging and store. They meet only in the stages that they share,
so one can be in its epilogue while the other keeps the tensor cores busy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilegen.expr import ceil_div, floor_div, minimum, multiply, symbol
from tilegen.families.gemm.operands import (
    SWIZZLED,
    epilogue_tensors,
    global_buffers,
    is_transposed,
    loads,
    operand_shapes,
)
from tilegen.plan.model import Buffer, Copy, Elementwise, Gemm, KernelPlan, Launch, Loop, LoopKind, Op, Role, Scope

if TYPE_CHECKING:
    from tilegen.spec.model import Spec

GROUP_ROWS = 64
"""Rows of a WGMMA, and of the output tile that one warp group owns."""

GROUP_THREADS = 128
GROUPS = ("upper", "lower")


def persistent(spec: Spec, dtypes: Mapping[str, str], tiles: Mapping[str, Any]) -> KernelPlan:
    """The kernel of :file:`persistent.jinja`."""
    k_steps = ceil_div(symbol("K"), tiles["BLOCK_K"])
    output_tiles = multiply(ceil_div(symbol("M"), tiles["BLOCK_M"]), ceil_div(symbol("N"), tiles["BLOCK_N"]))
    waves = ceil_div(output_tiles, minimum(output_tiles, symbol("sm_count")))
    groups = GROUPS[:1] if tiles["BLOCK_M"] == GROUP_ROWS else GROUPS
    consume = [_consume(spec, dtypes, tiles, group, waves, k_steps) for group in groups]
    produce = Loop(LoopKind.SERIAL, "k", k_steps, loads(spec, tiles, explicit_tma=True))
    return KernelPlan(
        name=spec.kernel,
        launch=Launch(
            grid=(minimum(output_tiles, symbol("sm_count")),),
            threads=multiply(2, tiles["BLOCK_M"]),
            producer_threads=GROUP_THREADS,
            decided_by=("tile.BLOCK_M",),
            names=("blocks",),
        ),
        buffers=(*global_buffers(spec, dtypes), *_tiles(spec, dtypes, tiles, groups)),
        body=(*consume, Loop(LoopKind.SERIAL, "wave", waves, (produce,), runtime_trips=True)),
        barriers=2 * tiles["stages"],
        roles=(
            *(Role(f"consumer, {group} rows" if groups[1:] else "consumer", GROUP_THREADS, 1) for group in groups),
            Role("producer", GROUP_THREADS, 1),
        ),
    )


def _tiles(
    spec: Spec, dtypes: Mapping[str, str], tiles: Mapping[str, Any], groups: tuple[str, ...]
) -> tuple[Buffer, ...]:
    """The program is one `if` over thread ranges, so every tile lives through all of it."""
    stages = tiles["stages"]
    a_shape, b_shape = operand_shapes(spec, tiles)
    m, n, k, store, s = "tile.BLOCK_M", "tile.BLOCK_N", "tile.BLOCK_K", "tile.STORE_N", "tile.stages"
    shared = [
        Buffer("a_shared", Scope.SHARED, (stages, *a_shape), dtypes["a"], 1, (s, m, k), "tiles of a", (1, 1), SWIZZLED),
        Buffer("b_shared", Scope.SHARED, (stages, *b_shape), dtypes["b"], 1, (s, n, k), "tiles of b", (1, 1), SWIZZLED),
    ]
    fragments = []
    for group in groups:
        rows = (GROUP_ROWS, tiles["STORE_N"])
        shared.append(
            Buffer(
                f"c_{group}", Scope.SHARED, rows, dtypes["c"], 1, (store,), "part of c on its way out", (1, 1), SWIZZLED
            )
        )
        fragments.append(
            Buffer(
                f"acc_{group}",
                Scope.FRAGMENT,
                (GROUP_ROWS, tiles["BLOCK_N"]),
                spec.compute.accum,  # type: ignore[attr-defined]
                decided_by=(n,),
                holds="the product of a warp group",
                owners=GROUP_THREADS,
            )
        )
    return (*shared, *fragments)


def _consume(
    spec: Spec, dtypes: Mapping[str, str], tiles: Mapping[str, Any], group: str, waves: Any, k_steps: Any
) -> Loop:
    block_n, store_n = tiles["BLOCK_N"], tiles["STORE_N"]
    acc, staged = f"acc_{group}", f"c_{group}"
    product = Gemm(
        "a_shared",
        "b_shared",
        acc,
        GROUP_ROWS,
        block_n,
        tiles["BLOCK_K"],
        dtypes["a"],
        spec.compute.accum,  # type: ignore[attr-defined]
        transpose_a=is_transposed(spec, "a"),
        transpose_b=is_transposed(spec, "b"),
        threads=GROUP_THREADS,
        decided_by=("tile.BLOCK_M", "tile.BLOCK_N", "tile.BLOCK_K"),
        dtype_at="tensors.a.dtype",
        operand_at="tensors.b.shape",
    )
    extra = tuple(tensor.name for tensor in epilogue_tensors(spec))
    stores: tuple[Op, ...] = (
        Copy(acc, staged, (GROUP_ROWS, store_n)),
        Copy(
            staged,
            "c",
            (GROUP_ROWS, store_n),
            row_pitch=symbol("N"),
            may_overrun=True,
            explicit_tma=True,
            decided_by=("tile.BLOCK_M", "tile.STORE_N"),
        ),
    )
    body: tuple[Op, ...] = (
        Loop(LoopKind.SERIAL, "k", k_steps, (product,), decided_by=("tile.BLOCK_K",)),
        Elementwise(acc, (acc, *extra), (GROUP_ROWS, block_n), what=spec.compute.c.text),  # type: ignore[attr-defined]
        Loop(LoopKind.UNROLLED, "part", floor_div(block_n, store_n), stores),
    )
    return Loop(LoopKind.SERIAL, "wave", waves, body, runtime_trips=True)
