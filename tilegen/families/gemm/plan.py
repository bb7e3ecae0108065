"""The tile plan of a gemm with an epilogue: ``c = f(a @ b)``, M dynamic, N and K static."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilegen.expr import ceil_div, free_names, symbol
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
    TilePlan,
)
from tilegen.plan.pipeline import most_stages, producer_threads

if TYPE_CHECKING:
    from tilegen.spec.model import Spec, Tensor
    from tilegen.targets import Target

SWIZZLED = 1024
"""Base alignment of a tile that TMA writes with a 128-byte swizzle."""


def epilogue_tensors(spec: Spec) -> tuple[Tensor, ...]:
    """The tensors that the epilogue reads beside the accumulator, in the order of the spec."""
    used = free_names(spec.compute.c.expr)  # type: ignore[attr-defined]
    return tuple(tensor for tensor in spec.tensors if tensor.role is None and tensor.name in used)


def is_transposed(spec: Spec, name: str) -> bool:
    """Whether operand ``a`` is stored as (K, M), or ``b`` as (N, K)."""
    first = spec.tensor(name).shape[0]
    return first == symbol("K" if name == "a" else "N")


def derive(spec: Spec, target: Target, dtypes: Mapping[str, str], tiles: Mapping[str, Any]) -> dict[str, Any]:
    """The tile values that the spec leaves out, from the ones it gives and the chip."""
    derived: dict[str, Any] = {"schedule": spec.schedule_for(target.arch) or "plain"}
    itemsize = ITEMSIZE[dtypes["a"]]
    given = {**derived, **tiles}
    given.setdefault("BLOCK_M", 128)
    given.setdefault("BLOCK_N", 128)
    given.setdefault("BLOCK_K", 128 // itemsize)
    if "threads" not in given:
        area = given["BLOCK_M"] * given["BLOCK_N"]
        given["threads"] = 256 if isinstance(area, int) and area > 128 * 128 else 128
    given.setdefault("policy", "square")
    given.setdefault("swizzle", None)
    if "stages" not in given:
        stage = (given["BLOCK_M"] + given["BLOCK_N"]) * given["BLOCK_K"] * itemsize
        # A stage whose size follows a dim is not known to fit more than twice.
        given["stages"] = most_stages(target, stage) if isinstance(stage, int) else 2
    return {name: value for name, value in given.items() if name not in tiles}


def plan(spec: Spec, target: Target, dtypes: Mapping[str, str], case: Case) -> TilePlan:
    """The plan of one instance. The case must hold every tile value (see :func:`derive`)."""
    m, n, k = symbol("M"), symbol("N"), symbol("K")
    return TilePlan(
        spec=spec,
        target=target,
        schedule=case.tiles["schedule"],
        dtypes=dtypes,
        case=case,
        kernels=(_plain(spec, target, dtypes, case.tiles),),
        flops=2 * m * n * k,
        bytes_moved=m * k * ITEMSIZE[dtypes["a"]] + k * n * ITEMSIZE[dtypes["b"]] + m * n * ITEMSIZE[dtypes["c"]],
    )


def _plain(spec: Spec, target: Target, dtypes: Mapping[str, str], tiles: Mapping[str, Any]) -> KernelPlan:
    m, n, k = symbol("M"), symbol("N"), symbol("K")
    block_m, block_n, block_k = tiles["BLOCK_M"], tiles["BLOCK_N"], tiles["BLOCK_K"]
    stages, threads = tiles["stages"], tiles["threads"]
    return KernelPlan(
        name=spec.kernel,
        launch=Launch(
            grid=(ceil_div(n, block_n), ceil_div(m, block_m)),
            threads=threads,
            producer_threads=producer_threads(target),
            decided_by=("tile.BLOCK_N", "dims.M"),
        ),
        buffers=(*_global(spec, dtypes), *_tiles(spec, dtypes, tiles)),
        body=(
            Fill("acc"),
            Loop(
                LoopKind.PIPELINED,
                "k",
                ceil_div(k, block_k),
                (*_loads(spec, block_m, block_n, block_k), _product(spec, dtypes, tiles)),
                stages=stages,
                decided_by=("tile.BLOCK_K",),
            ),
            *_epilogue(spec, block_m, block_n),
        ),
        barriers=2 * stages if producer_threads(target) else 0,
    )


def _global(spec: Spec, dtypes: Mapping[str, str]) -> tuple[Buffer, ...]:
    def rows(name: str) -> str:
        last = spec.tensor(name).shape[-1]
        return f"dims.{last}" if getattr(last, "is_Symbol", False) else f"tensors.{name}"

    names = ("a", "b", *(tensor.name for tensor in epilogue_tensors(spec)), "c")
    return tuple(
        Buffer(name, Scope.GLOBAL, spec.tensor(name).shape, dtypes[name], decided_by=(rows(name),)) for name in names
    )


def _tiles(spec: Spec, dtypes: Mapping[str, str], tiles: Mapping[str, Any]) -> tuple[Buffer, ...]:
    block_m, block_n, block_k, stages = (tiles[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "stages"))
    a_shape = (block_k, block_m) if is_transposed(spec, "a") else (block_m, block_k)
    b_shape = (block_n, block_k) if is_transposed(spec, "b") else (block_k, block_n)
    m, n, k = "tile.BLOCK_M", "tile.BLOCK_N", "tile.BLOCK_K"
    return (
        Buffer("a_shared", Scope.SHARED, a_shape, dtypes["a"], stages, (m, k), "a tile of a", (1, 1), SWIZZLED),
        Buffer("b_shared", Scope.SHARED, b_shape, dtypes["b"], stages, (n, k), "a tile of b", (1, 1), SWIZZLED),
        Buffer(
            "c_shared", Scope.SHARED, (block_m, block_n), dtypes["c"], 1, (m, n), "c on its way out", (3, 4), SWIZZLED
        ),
        Buffer("acc", Scope.FRAGMENT, (block_m, block_n), spec.compute.accum, 1, (m, n), "the product"),  # type: ignore[attr-defined]
    )


def _loads(spec: Spec, block_m: Any, block_n: Any, block_k: Any) -> tuple[Op, ...]:
    k, m, n = ("tile.BLOCK_K", "tile.BLOCK_M", "tile.BLOCK_N")

    def load(name: str, outer: Any, outer_key: str, transposed: bool) -> Copy:
        extents, keys = ((outer, block_k), (outer_key, k)) if transposed else ((block_k, outer), (k, outer_key))
        pitch = spec.tensor(name).shape[-1]
        return Copy(name, f"{name}_shared", extents, row_pitch=pitch, may_overrun=True, decided_by=keys)

    return (
        load("a", block_m, m, not is_transposed(spec, "a")),
        load("b", block_n, n, is_transposed(spec, "b")),
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
    n = symbol("N")
    extra = tuple(tensor.name for tensor in epilogue_tensors(spec))
    return (
        Elementwise("acc", ("acc", *extra), (block_m, block_n), what=spec.compute.c.text),  # type: ignore[attr-defined]
        Copy("acc", "c_shared", (block_m, block_n)),
        Copy(
            "c_shared",
            "c",
            (block_m, block_n),
            row_pitch=n,
            may_overrun=True,
            decided_by=("tile.BLOCK_M", "tile.BLOCK_N"),
        ),
    )
