"""Which fragment tiles a block can hold, and how a reduction along their rows is laid out.

Rule (fragment). Elements are dealt to threads in vectors: M * N must be a multiple of the threads, or at most as many.

Rule (row reduction of a tile copied from global memory). The vector is 16 bytes of the tensor, no more than its rows are
aligned to, halved until M * N is a multiple of threads * vector and N of the vector; a tile of at most `threads` elements
is dealt one by one. A row then lies across N / vector lanes: a whole number of times the block, or so many threads of it.
The tile is dealt so if the threads that share a row are a power of two and divide the block.

Otherwise another loop of the kernel may give the layout. One that writes the terms of the sum has vectors of 16 bytes of
*their* dtype: 2 rows of 3,200 float16 over 32 threads do not come out even in vectors of 8, and do in the 4 of float32. A
fragment of one value a column, loaded beside the tile, is dealt over the block, and each row as it is: over all threads
if they divide N, or over N of them, one column each.

Last, where a `T.Parallel` loop over the rows touches the result (`rsqrt` of a mean, a running maximum), that loop's layout
is taken: each thread holds whole rows, every row is held by threads / M threads, and the loads are neither shared nor
coalesced. It lowers, the values are right, and it is up to 40 times slower; nothing is said. This needs more than one
row, more elements than threads, rows at most the threads or a multiple of them, and lanes that do not divide the block:
12 lanes of 96 threads find a layout, which the reduction then refuses. Of two layouts the one of fewer registers is
taken, whether the reduction can do with it or not. Where none is left the compiler stops ("no available layout found", or
"logical_width ... to be a positive power of two").

Source: tilelang src/op/parallel.cc, ComputePlanCandidate; src/transform/loop_partition.cc; src/op/reduce.cc,
ComputeReducerLayout; tl_templates/cuda/reduce.h (the butterfly needs a power of two of lanes).
"""

from dataclasses import dataclass
from typing import Literal

from tilegen.lowering.legal import is_power_of_two
from tilegen.lowering.vector import contiguous_bytes


def fragment_tile_ok(rows: int, columns: int, threads: int) -> bool:
    """Whether a (rows, columns) fragment has a layout over so many threads."""
    elements = rows * columns
    return elements <= threads or elements % threads == 0


@dataclass(frozen=True)
class RowLayout:
    """How a row of a fragment lies across the block."""

    vector: int
    """Elements that one thread holds side by side."""
    lanes: int
    """Vectors in a row: the threads that share it, when at most the block."""


def row_layout(rows: int, columns: int, threads: int, itemsize: int, vector_bytes: int = 16) -> RowLayout:
    """The layout of a fragment that is copied from a global tensor of this item size."""
    vector = max(vector_bytes // itemsize, 1) if rows * columns > threads else 1
    while vector > 1 and (rows * columns % (threads * vector) or columns % vector):
        vector //= 2
    return RowLayout(vector, columns // vector)


@dataclass(frozen=True)
class RowReduction:
    """How the rows of a tile are reduced."""

    outcome: Literal["dealt", "row_per_thread", "refused"]
    elements_per_thread: int
    """Elements of the tile in the registers of one thread, copies included; 0 where refused."""
    lanes: int = 1
    """Threads that share a row."""

    def replication(self, rows: int, columns: int, threads: int) -> float:
        """How many threads hold each element."""
        return self.elements_per_thread * threads / (rows * columns)


REFUSED = RowReduction("refused", 0)


def row_reduction(
    rows: int,
    columns: int,
    threads: int,
    itemsize: int,
    *,
    row_loop: bool,
    vector_bytes: int = 16,
    pitch: int | None = None,
    term_itemsize: int | None = None,
    beside: bool = False,
) -> RowReduction:
    """What becomes of a reduction along the rows of a (rows, columns) fragment copied from a global tensor.

    `itemsize`, `pitch`: of the tensor; `term_itemsize`: of the fragment that is reduced. `row_loop`: a `T.Parallel` over
    the rows reads or writes the result. `beside`: a fragment of one value a column is loaded too. `vector_bytes`:
    `target.copy.vector_bytes_global_only`.
    """
    aligned = contiguous_bytes(columns, columns if pitch is None else pitch, itemsize, vector_bytes)
    whole_rows = columns * max(rows // threads, 1)
    larger = rows > 1 and rows * columns > threads and fragment_tile_ok(rows, 1, threads)
    by_row = RowReduction("row_per_thread", whole_rows) if row_loop and larger else REFUSED
    if beside and columns <= threads and not is_power_of_two(columns):
        return by_row if whole_rows < rows else REFUSED
    for size, widest in ((itemsize, aligned), (term_itemsize or itemsize, vector_bytes)):
        if row_reduce_ok(rows, columns, threads, size, widest):
            lanes = min(row_layout(rows, columns, threads, size, widest).lanes, threads)
            return RowReduction("dealt", -(-rows * columns // threads), lanes)
    if _laid_out(rows, columns, threads, itemsize, aligned):
        return REFUSED
    if beside and columns % threads == 0 and rows < threads:
        held = RowReduction("dealt", rows * columns // threads, threads)
        return held if is_power_of_two(threads) else REFUSED
    return by_row


def row_reduce_ok(rows: int, columns: int, threads: int, itemsize: int, vector_bytes: int = 16) -> bool:
    """Whether a reduction along the rows of a (rows, columns) fragment is dealt evenly."""
    lanes = row_layout(rows, columns, threads, itemsize, vector_bytes).lanes
    return _laid_out(rows, columns, threads, itemsize, vector_bytes) and is_power_of_two(min(lanes, threads))


def _laid_out(rows: int, columns: int, threads: int, itemsize: int, vector_bytes: int) -> bool:
    """Whether rows and lanes come out even, be the lanes a power of two or not."""
    lanes = row_layout(rows, columns, threads, itemsize, vector_bytes).lanes
    sharing = min(lanes, threads)
    return fragment_tile_ok(rows, columns, threads) and lanes % sharing == 0 and threads % sharing == 0


MOST_SIDE_BY_SIDE = 4
"""Warps along a row that may hold more than one instruction of 8 columns each."""


def accumulator_reduction_ok(n_warp: int, columns: int) -> bool:
    """Whether a gemm's accumulator can be reduced along its rows, which `n_warp` warps share, `columns` to each.

    Seen with 2, 3, 4, 5 and 8 warps of 8 to 64 columns: three and five warps are refused, and eight with more than one
    instruction each ("ReduceOp cannot lower a layout where a source index depends on a thread-owned reduce segment").
    """
    return is_power_of_two(n_warp) and (n_warp <= MOST_SIDE_BY_SIDE or columns == 8)
