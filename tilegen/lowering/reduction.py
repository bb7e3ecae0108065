"""Which fragment tiles a block can hold, and which row reductions over them lower.

Rule (fragment). Elements are dealt to threads in vectors: M * N must be a multiple of the threads, or at most as many.

Rule (row reduction of a tile copied from global memory). The vector is 16 bytes of the tensor, halved until M * N is a
multiple of threads * vector and N of the vector; a tile of at most `threads` elements is dealt one by one. A row then
lies across N / vector lanes: a whole number of times the block, or so many threads of it. The threads that share a row
must be a power of two and divide the block.

Source: tilelang src/op/parallel.cc, ComputePlanCandidate; src/transform/loop_partition.cc; src/cuda/op/reduce.cc;
tl_templates/cuda/reduce.h (the butterfly needs a power of two of lanes).
"""

from dataclasses import dataclass

from tilegen.lowering.legal import is_power_of_two


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


def row_reduce_ok(rows: int, columns: int, threads: int, itemsize: int, vector_bytes: int = 16) -> bool:
    """Whether a reduction along the rows of a (rows, columns) fragment lowers."""
    if not fragment_tile_ok(rows, columns, threads):
        return False
    lanes = row_layout(rows, columns, threads, itemsize, vector_bytes).lanes
    sharing = min(lanes, threads)
    return lanes % sharing == 0 and threads % sharing == 0 and is_power_of_two(sharing)
