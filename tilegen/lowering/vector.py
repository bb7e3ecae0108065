"""How many bytes one thread moves at once.

Rule. A global access is vectorised over the innermost dimension: the widest power of two up to 16 bytes (32 from
sm_100 on, in a loop that touches no shared memory) that divides the tile's row, the tensor's row and, for a fragment,
leaves every thread the same share of the tile. A copy into shared memory may become `cp.async` where that width is
4, 8 or 16 bytes; below that it is a plain copy, silently.

Source: tilelang src/transform/loop_vectorize.cc, VectorizePlanner; src/op/parallel.cc, ComputePlanCandidate and
SelectMinPaddingVectorSize; src/cuda/transform/ptx_async_copy_injector.cc.
"""

from tilegen.targets import Target


def contiguous_bytes(columns: int, row_stride: int, itemsize: int, limit: int) -> int:
    """Widest power-of-two bytes that every row start and row end of a tile is a multiple of, up to `limit`."""
    width = limit
    while width > itemsize and (columns * itemsize % width or row_stride * itemsize % width):
        width //= 2
    return width


def fragment_vector_bytes(rows: int, columns: int, row_stride: int, itemsize: int, threads: int, target: Target) -> int:
    """Bytes of one access of a copy between a global tensor and a (rows, columns) fragment."""
    width = contiguous_bytes(columns, row_stride, itemsize, target.copy.vector_bytes_global_only)
    while width > itemsize and rows * columns * itemsize % (threads * width):
        width //= 2
    return width


def shared_vector_bytes(rows: int, columns: int, row_stride: int, itemsize: int, threads: int, target: Target) -> int:
    """Bytes of one access of a plain copy between a global tensor and a (rows, columns) tile in shared memory.

    Of the widths that divide, the one that leaves the fewest idle lanes in the last round, the widest winning a tie.
    """
    widest = contiguous_bytes(columns, row_stride, itemsize, target.copy.vector_bytes)
    widths = [w for w in (16, 8, 4, 2, 1) if itemsize <= w <= widest]
    total = rows * columns * itemsize
    return min(widths, key=lambda w: -total % (threads * w))


def cp_async_bytes(rows: int, columns: int, row_stride: int, itemsize: int, threads: int, target: Target) -> int | None:
    """Bytes of the `cp.async` of a tile into shared memory; None where it is a plain copy."""
    width = shared_vector_bytes(rows, columns, row_stride, itemsize, threads, target)
    return width if width in target.copy.cp_async_bytes else None
