"""How TMA moves a tile: swizzle, box and number of instructions, or why it cannot.

Rule. A tile of `rows` x `columns` of `itemsize` bytes lies in shared memory in panels of the swizzle span. The span is
the widest of 128, 64, 32 bytes that divides a row of the buffer (for a WGMMA operand that does not run along K: the
extent of one instruction), and none if the rows are no multiple of 8 or if the buffer is neither a gemm operand nor
stored from. The inner box is one span (unswizzled: a whole row, 256 elements of
it where that divides, else its largest divisor up to 256 of a whole multiple of 128 bytes, and then one row at a
time). The outer box is all rows up to 256, else their largest divisor up to 256 whose *own* product with the item
size is a multiple of 128 bytes: the compiler forgets to multiply by the inner box, so 272 rows of 64 float16 do not
split although two boxes of 136 rows would be legal. Several instructions need boxes of a multiple of 128 bytes.

What happens where it cannot depends on who asked:

* in a warp-specialised `T.Pipelined` loop a row of the tile, or a global stride, that is no multiple of 16 bytes
  makes the load an ordinary one, silently; a box that does not split stops the compiler;
* a plain `T.copy` out of shared memory becomes an ordinary store, silently, in both cases;
* a plain `T.copy` into shared memory outside such a loop never uses TMA;
* `T.tma_copy` stops the compiler in every case, on a CUDA chip without TMA too; on HIP it is an ordinary copy, silently.

A stride that is only known at run time passes all of this and fails at the first call, if it is no multiple of 16
bytes: the caller must prove it.

Source: tilelang src/cuda/op/copy.cc, AnalyzeTMABulkCopy; cuda/op/gemm/gemm_wgmma.py, infer_shared_layout;
src/cuda/op/copy_analysis.cc, CheckBulkLoad, CheckBulkStore, CheckGlobalStrides; src/layout/gemm_layouts.cc,
MakeGemmABLayoutHopper; limits from the CUDA driver API.
"""

from dataclasses import dataclass
from typing import Literal

from tilegen.lowering.legal import largest_divisor
from tilegen.targets import Tma

Outcome = Literal["fits", "splits", "falls_back", "refused"]
Issuer = Literal["pipelined_load", "store", "explicit"]

SWIZZLE_ROWS = 8


@dataclass(frozen=True)
class TmaPlan:
    """The boxes that TMA moves a tile in."""

    swizzle_bytes: int
    """0 where unswizzled."""
    outer: int
    """Box extent along the rows, in elements."""
    inner: int
    """Box extent along the columns, in elements."""
    instructions: int
    smem_alignment: int
    """Bytes that the buffer's base must be a multiple of, for the swizzle pattern to start where it is expected."""


@dataclass(frozen=True)
class TmaCopy:
    """`fits`: one instruction. `splits`: several. `falls_back`: ordinary copy, silently. `refused`: compile error."""

    outcome: Outcome
    plan: TmaPlan | None
    reason: str
    """Why it falls back or is refused; empty otherwise."""


def swizzle_span(rows: int, columns: int, itemsize: int, tma: Tma) -> int:
    """Bytes of the swizzle pattern of a buffer of this shape that feeds a gemm or a TMA store; 0 for none."""
    if rows % SWIZZLE_ROWS:
        return 0
    return next((span for span in tma.swizzle_bytes if columns * itemsize % span == 0), 0)


def tma_plan(
    rows: int, columns: int, itemsize: int, tma: Tma, *, swizzled: bool = True, continuity: int | None = None
) -> TmaPlan | str:
    """The boxes of a (rows, columns) tile of a row-major tensor, or the reason why there are none.

    `swizzled`: the shared buffer is a gemm operand or is stored from. `continuity`: elements of a row that the span
    must divide, where that is not the tile's row: the width of the buffer that the tile is a slice of, or what
    `instruction.operand_continuity` says. Leading extents of 1 change nothing; a vector has one row.
    """
    width = columns if continuity is None else continuity
    span = swizzle_span(rows, width, itemsize, tma) if swizzled else 0
    if columns * itemsize % tma.inner_bytes_multiple:
        return f"a row of {columns} elements is {columns * itemsize} bytes, no multiple of {tma.inner_bytes_multiple}"
    inner = _inner_box(columns, itemsize, span, tma)
    if inner is None:
        return f"a row of {columns} elements exceeds {tma.max_box} and does not split into multiples of 128 bytes"
    whole_row = bool(span) or inner == columns or columns % tma.max_box == 0
    outer = _outer_box(rows, itemsize, tma) if whole_row else 1
    if outer is None:
        return f"{rows} rows exceed a box of {tma.max_box} and do not split into equal boxes that TileLang accepts"
    instructions = rows * columns // (outer * inner)
    if instructions > 1 and outer * inner * itemsize % tma.smem_alignment:
        return f"a box of {outer} x {inner} is {outer * inner * itemsize} bytes, no multiple of {tma.smem_alignment}"
    alignment = tma.smem_alignment * max(span // 16, 1)
    return TmaPlan(span, outer, inner, instructions, alignment)


def tma_copy(
    rows: int,
    columns: int,
    itemsize: int,
    tma: Tma | None,
    issuer: Issuer,
    *,
    row_stride: int | None = None,
    swizzled: bool = True,
    continuity: int | None = None,
) -> TmaCopy:
    """What becomes of a copy between global memory and shared memory.

    `row_stride`: elements from one row of the global tensor to the next; None where only known at run time.
    `tma`: the limits of the chip; None where it has no TMA.
    """
    if tma is None:
        return _without_plan("the chip has no TMA", issuer == "explicit")
    if columns * itemsize % tma.inner_bytes_multiple:
        reason = f"a row of {columns} elements is {columns * itemsize} bytes, no multiple of 16"
        return _without_plan(reason, issuer == "explicit")
    if row_stride is not None and not stride_ok(row_stride, itemsize, tma):
        reason = f"the global row stride of {row_stride * itemsize} bytes is no multiple of 16 below 2^40"
        return _without_plan(reason, issuer == "explicit")
    plan = tma_plan(rows, columns, itemsize, tma, swizzled=swizzled, continuity=continuity)
    if isinstance(plan, str):
        return _without_plan(plan, issuer != "store")
    return TmaCopy("fits" if plan.instructions == 1 else "splits", plan, "")


def stride_ok(stride: int, itemsize: int, tma: Tma) -> bool:
    """Whether a global stride of so many elements can stand in a tensor map."""
    return stride * itemsize % tma.stride_bytes_multiple == 0 and stride * itemsize < tma.stride_bytes_limit


def _inner_box(columns: int, itemsize: int, span: int, tma: Tma) -> int | None:
    if span:
        return min(span // itemsize, columns)
    if columns <= tma.max_box:
        return columns
    if columns % tma.max_box == 0:
        return tma.max_box
    return largest_divisor(columns, tma.max_box, lambda d: d * itemsize % tma.smem_alignment == 0)


def _outer_box(rows: int, itemsize: int, tma: Tma) -> int | None:
    if rows <= tma.max_box:
        return rows
    return largest_divisor(rows, tma.max_box, lambda d: d * itemsize % tma.smem_alignment == 0)


def _without_plan(reason: str, stops: bool) -> TmaCopy:
    return TmaCopy("refused" if stops else "falls_back", None, reason)
