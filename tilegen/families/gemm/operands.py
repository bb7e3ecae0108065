"""What every schedule of a gemm shares: its tensors in global memory, and how tiles of a and b are loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilegen.expr import free_names, symbol
from tilegen.plan.model import Buffer, Copy, Scope

if TYPE_CHECKING:
    from tilegen.spec.model import Scalar, Spec, Tensor

SWIZZLED = 1024
"""Base alignment of a tile that TMA writes with a 128-byte swizzle."""


def epilogue_tensors(spec: Spec) -> tuple[Tensor, ...]:
    """The tensors that the epilogue reads beside the accumulator, in the order of the spec."""
    used = free_names(spec.compute.c.expr)  # type: ignore[attr-defined]
    return tuple(tensor for tensor in spec.tensors if tensor.role is None and tensor.name in used)


def epilogue_scalars(spec: Spec) -> tuple[Scalar, ...]:
    """The scalars that the epilogue reads, in the order of the spec."""
    used = free_names(spec.compute.c.expr)  # type: ignore[attr-defined]
    return tuple(scalar for scalar in spec.scalars if scalar.name in used)


def is_transposed(spec: Spec, name: str) -> bool:
    """Whether operand ``a`` is stored as (K, M), or ``b`` as (N, K)."""
    first = spec.tensor(name).shape[0]
    return first == symbol("K" if name == "a" else "N")


def global_buffers(spec: Spec, dtypes: Mapping[str, str]) -> tuple[Buffer, ...]:
    """a, b, what the epilogue reads, and c."""

    def rows(name: str) -> str:
        last = spec.tensor(name).shape[-1]
        return f"dims.{last}" if getattr(last, "is_Symbol", False) else f"tensors.{name}"

    names = ("a", "b", *(tensor.name for tensor in epilogue_tensors(spec)), "c")
    return tuple(
        Buffer(name, Scope.GLOBAL, spec.tensor(name).shape, dtypes[name], decided_by=(rows(name),)) for name in names
    )


def operand_shapes(spec: Spec, tiles: Mapping[str, Any]) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The tiles of a and b as they are stored."""
    block_m, block_n, block_k = (tiles[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
    return (
        (block_k, block_m) if is_transposed(spec, "a") else (block_m, block_k),
        (block_n, block_k) if is_transposed(spec, "b") else (block_k, block_n),
    )


def loads(spec: Spec, tiles: Mapping[str, Any], *, explicit_tma: bool = False) -> tuple[Copy, Copy]:
    """The copies of one tile of a and one of b into shared memory."""

    def load(name: str, extents: tuple[Any, Any]) -> Copy:
        outer = "tile.BLOCK_M" if name == "a" else "tile.BLOCK_N"
        along_k = is_transposed(spec, name) == (name == "b")
        return Copy(
            name,
            f"{name}_shared",
            extents,
            row_pitch=spec.tensor(name).shape[-1],
            may_overrun=True,
            explicit_tma=explicit_tma,
            decided_by=(outer, "tile.BLOCK_K") if along_k else ("tile.BLOCK_K", outer),
        )

    a_shape, b_shape = operand_shapes(spec, tiles)
    return load("a", a_shape), load("b", b_shape)
