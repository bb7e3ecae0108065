"""Kernels whose arguments are ``T.StridedTensor``: views of wider, transposed, permuted, repeated and overlapping memory.

Each factory takes ``fault``: with it the kernel holds the mistake that ``test_strides`` names.
"""

import tilelang.language as T


def scaled_rows(fault=False):
    """Rows of a wider matrix in, rows of another out, each with its own dynamic stride."""
    M, S, R = T.dynamic("M, S, R")

    @T.prim_func
    def main(
        X: T.StridedTensor((M, 48), (S, 1), "float16"),
        scale: T.Tensor((48,), "float32"),
        Y: T.StridedTensor((M, 48), (R, 1), "float16"),
    ):
        with T.Kernel(T.ceildiv(M, 16), threads=64) as b:
            tile = T.alloc_fragment((16, 48), "float32")
            T.copy(X[b * 16, 0], tile)
            for i, j in T.Parallel(16, 48):
                tile[i, j] *= scale[i if fault else j]
            T.copy(tile, Y[b * 16, 0])

    return main


def product_of_columns(fault=False):
    """A given column by column: strides (1, S), which a product reads as a row-major A."""
    M, S = T.dynamic("M, S")

    @T.prim_func
    def main(
        A: T.StridedTensor((M, 64), (1, S), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((M, 64), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, 64), threads=128) as b:
            a_shared = T.alloc_shared((64, 32), "float16")
            b_shared = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[b * 64, k * 32], a_shared)
                T.copy(B[(1 - k if fault else k) * 32, 0], b_shared)
                T.gemm(a_shared, b_shared, acc)
            T.copy(acc, C[b * 64, 0])

    return main


def transposed_result(fault=False, rows=40, columns=72):
    """The result is written column by column: constant strides (1, rows)."""

    @T.prim_func
    def main(
        X: T.Tensor((rows, columns), "float32"),
        Y: T.StridedTensor((rows, columns), (1, rows), "float32"),
    ):
        with T.Kernel(T.ceildiv(columns, 32), T.ceildiv(rows, 32), threads=128) as (bx, by):
            tile = T.alloc_shared((32, 32), "float32")
            T.copy(X[by * 32, bx * 32], tile)
            for i, j in T.Parallel(32, 32):
                tile[i, j] = tile[i, j] + 1
            T.copy(tile[0:24, :] if fault else tile, Y[by * 32, bx * 32])

    return main


def batched_product(fault=False):
    """Three dynamic strides to an operand: any batch, row and padding."""
    batch, M, AB, AM, BB, BK, CB, CM = T.dynamic("batch, M, AB, AM, BB, BK, CB, CM")

    @T.prim_func
    def main(
        A: T.StridedTensor((batch, M, 64), (AB, AM, 1), "bfloat16"),
        B: T.StridedTensor((batch, 64, 32), (BB, BK, 1), "bfloat16"),
        C: T.StridedTensor((batch, M, 32), (CB, CM, 1), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, 64), batch, threads=128) as (bx, by):
            a = T.alloc_shared((64, 64), "bfloat16")
            b = T.alloc_shared((64, 32), "bfloat16")
            acc = T.alloc_fragment((64, 32), "float32")
            T.copy(A[by, bx * 64, 0], a)
            T.copy(B[0 if fault else by, 0, 0], b)
            T.gemm(a, b, acc, clear_accum=True)
            T.copy(acc, C[by, bx * 64, 0])

    return main


def permuted_heads(fault=False):
    """Scores of heads that lie as (batch, sequence, head, width) and are seen as (batch, head, sequence, width)."""
    batch, heads, length, QB, QH, QL, KB, KH, KL = T.dynamic("batch, heads, length, QB, QH, QL, KB, KH, KL")

    @T.prim_func
    def main(
        Q: T.StridedTensor((batch, heads, length, 32), (QB, QH, QL, 1), "float16"),
        K: T.StridedTensor((batch, heads, length, 32), (KB, KH, KL, 1), "float16"),
        scores: T.Tensor((batch, heads, length, length), "float32"),
    ):
        with T.Kernel(T.ceildiv(length, 64), heads, batch, threads=128) as (bl, bh, bb):
            q = T.alloc_shared((64, 32), "float16")
            k = T.alloc_shared((64, 32), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.copy(Q[bb, bh, bl * 64, 0], q)
            for n in T.serial(T.ceildiv(length, 64)):
                T.copy(K[bb, bh, n * 64, 0], k)
                if fault:
                    T.gemm(q, k, acc, transpose_B=True)
                else:
                    T.gemm(q, k, acc, transpose_B=True, clear_accum=True)
                T.copy(acc, scores[bb, bh, bl * 64, n * 64])

    return main


def alternate_columns(fault=False):
    """Real and imaginary parts that alternate in memory: constant strides (2 * N, 2)."""

    @T.prim_func
    def main(
        real: T.StridedTensor((24, 32), (64, 2), "float32"),
        imaginary: T.StridedTensor((24, 32), (64, 2), "float32"),
        power: T.Tensor((24, 32), "float32"),
    ):
        with T.Kernel(3, threads=64) as b:
            for i, j in T.Parallel(8, 32):
                x = real[b * 8 + i, j]
                y = imaginary[b * 8 + i, j]
                power[b * 8 + i, j] = x * x + (x * y if fault else y * y)

    return main


def repeated_bias(fault=False):
    """A bias expanded over the rows: its stride along them is zero."""
    M, S = T.dynamic("M, S")

    @T.prim_func
    def main(
        X: T.Tensor((M, 64), "float32"),
        bias: T.StridedTensor((M, 64), (S, 1), "float32"),
        Y: T.Tensor((M, 64), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, 8), threads=64) as b:
            tile = T.alloc_fragment((8, 64), "float32")
            addend = T.alloc_fragment((8, 64), "float32")
            T.copy(X[b * 8, 0], tile)
            T.copy(bias[b * 8, 0], addend)
            for i, j in T.Parallel(8, 64):
                tile[i, j] += addend[i + 1 if fault else i, j]
            T.copy(tile, Y[b * 8, 0])

    return main
