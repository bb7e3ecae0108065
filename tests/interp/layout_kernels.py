"""Kernels with explicit layouts of shared tiles: swizzles of each span, pads, columns, blocks, stages.

Each factory takes ``fault``: with it the layout, or the code that relies on it, holds the mistake that ``test_layouts`` names.
"""

import tilelang.language as T
from tilelang.layout import (
    Layout,
    make_full_bank_swizzled_layout,
    make_half_bank_swizzled_layout,
    make_linear_layout,
    make_quarter_bank_swizzled_layout,
    make_swizzled_layout,
    make_wgmma_swizzled_layout,
)

SWIZZLES = {
    128: make_full_bank_swizzled_layout,
    64: make_half_bank_swizzled_layout,
    32: make_quarter_bank_swizzled_layout,
}


def turned_tile(layout_of, rows=64, columns=64, dtype="float16", fault=False, M=100, N=70):
    """Y = X.T through one shared tile with the layout ``layout_of(tile)``; the fault forgets to turn it."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((N, M), dtype)):
        with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
            tile = T.alloc_shared((rows, columns), dtype)
            T.annotate_layout({tile: layout_of(tile)})
            T.copy(X[by * rows, bx * columns], tile)
            for i, j in T.Parallel(columns, rows):
                Y[bx * columns + i, by * rows + j] = tile[i, j] if fault else tile[j, i]

    return main


def full_swizzle(fault=False):
    return turned_tile(SWIZZLES[128], fault=fault)


def half_swizzle(fault=False):
    return turned_tile(SWIZZLES[64], columns=32, rows=32, fault=fault)


def quarter_swizzle(fault=False):
    return turned_tile(SWIZZLES[32], columns=16, rows=16, fault=fault)


def padded_pitch(fault=False):
    """A pitch of 33 words keeps the columns of a tile in different banks; a pitch of 31 overlaps its rows."""
    pitch = 31 if fault else 33
    return turned_tile(lambda tile: lambda i, j: i * pitch + j, rows=32, columns=32, dtype="float32")


def by_columns(fault=False):
    """Column by column; counted from one, the first column lies ahead of the tile."""
    first = 1 if fault else 0
    return turned_tile(lambda tile: lambda i, j: (j - first) * 32 + i, rows=32, columns=32, dtype="float32")


def own_swizzle(fault=False):
    """Groups of four words, their number xor-ed with the row; an or in its place joins groups."""

    def layout(i, j):
        group = T.bitwise_or(j // 4, i % 8) if fault else T.bitwise_xor(j // 4, i % 8)
        return i * 32 + group * 4 + j % 4

    return turned_tile(lambda tile: layout, rows=32, columns=32, dtype="float32")


def in_blocks(fault=False):
    """Core matrices of 8 x 8, each contiguous: four output axes."""

    def layout(i, j):
        return [i // 8, j // 8, i % 8, j // 8 if fault else j % 8]

    return turned_tile(lambda tile: Layout([64, 64], layout))


def wgmma_operands(fault=False):
    """The swizzles that a warp-group product reads, given by hand: A along K, B along N."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 128), "float16"), B: T.Tensor((128, 128), "float16"), C: T.Tensor((128, 128), "float32")
    ):
        with T.Kernel(1, 1, threads=128) as _:
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 128), "float16")
            acc = T.alloc_fragment((128, 128), "float32")
            T.annotate_layout({a: make_wgmma_swizzled_layout(a), b: make_wgmma_swizzled_layout(b, k_major=False)})
            if not fault:
                T.clear(acc)
            for k in T.serial(2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, acc)
            T.copy(acc, C)

    return main


def unswizzled_operands(fault=False):
    """Row-major and padded operands of a product of 32 rows, which is mma.sync's."""

    @T.prim_func
    def main(A: T.Tensor((32, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((32, 64), "float32")):
        with T.Kernel(1, threads=64) as _:
            a = T.alloc_shared((32, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((32, 64), "float32")
            T.annotate_layout({a: make_linear_layout(a), b: lambda i, j: i * 72 + j})
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, acc, transpose_B=fault, clear_accum=True)
            T.copy(acc, C)

    return main


def staged_tiles(fault=False):
    """Two stages in one tile of three axes: a layout of one stage, expanded; read one stage behind."""

    @T.prim_func
    def main(X: T.Tensor((128, 64), "float16"), Y: T.Tensor((128, 64), "float16")):
        with T.Kernel(1, threads=128) as _:
            tiles = T.alloc_shared((2, 32, 64), "float16")
            T.annotate_layout({tiles: Layout([32, 64], lambda i, j: i * 72 + j).expand([2])})
            T.copy(X[0:32, :], tiles[0, :, :])
            for k in T.serial(4):
                if k < 3:
                    T.copy(X[(k + 1) * 32 : (k + 2) * 32, :], tiles[(k + 1) % 2, :, :])
                for i, j in T.Parallel(32, 64):
                    Y[k * 32 + i, j] = tiles[(k + 1) % 2 if fault else k % 2, i, j] * 2

    return main


def swizzled_epilogue(fault=False):
    """An accumulator stored through a swizzled tile, half of its columns at a time."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "bfloat16"), B: T.Tensor((128, 64), "bfloat16"), C: T.Tensor((64, 128), "bfloat16")):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_shared((64, 64), "bfloat16")
            b = T.alloc_shared((128, 64), "bfloat16")
            out = T.alloc_shared((64, 64), "bfloat16")
            acc = T.alloc_fragment((64, 128), "float32")
            T.annotate_layout({out: make_swizzled_layout(out)})
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, acc, transpose_B=True, clear_accum=True)
            for half in T.unroll(2):
                if not fault or half == 1:
                    T.copy(acc[:, half * 64 : half * 64 + 64], out)
                T.copy(out, C[0, half * 64])

    return main


def repeated_atom(fault=False):
    """A padded layout of eight rows, repeated down the tile."""
    atom = Layout([8, 32], lambda i, j: i * 36 + j)
    return turned_tile(lambda tile: atom.repeat(0, 2 if fault else 4), rows=32, columns=32, dtype="float32")
