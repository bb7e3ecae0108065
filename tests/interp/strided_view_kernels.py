"""Kernels whose arguments are ``T.StridedTensor``, continued: overlapping, packed, diagonal, blocked and reversed views."""

import tilelang.language as T


def sliding_windows(fault=False):
    """A convolution as a product: the windows overlap in memory, both strides are one."""
    N = T.dynamic("N")

    @T.prim_func
    def main(
        windows: T.StridedTensor((N, 16), (1, 1), "float16"),
        taps: T.Tensor((16, 32), "float16"),
        Y: T.Tensor((N, 32), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, 64), threads=128) as b:
            a = T.alloc_shared((64, 16), "float16")
            w = T.alloc_shared((16, 32), "float16")
            acc = T.alloc_fragment((64, 32), "float32")
            T.copy(taps, w)
            if not fault:
                T.copy(windows[b * 64, 0], a)
            T.gemm(a, w, acc, clear_accum=True)
            T.copy(acc, Y[b * 64, 0])

    return main


def packed_projections(fault=False):
    """Queries, keys and values side by side in one matrix: three views with one stride, and offsets of their own."""
    M, S = T.dynamic("M, S")

    @T.prim_func
    def main(
        Q: T.StridedTensor((M, 32), (S, 1), "float16"),
        K: T.StridedTensor((M, 32), (S, 1), "float16"),
        V: T.StridedTensor((M, 32), (S, 1), "float16"),
        Y: T.Tensor((M, 32), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, 16), threads=128) as b:
            q = T.alloc_fragment((16, 32), "float32")
            k = T.alloc_fragment((16, 32), "float32")
            v = T.alloc_fragment((16, 32), "float32")
            weight = T.alloc_fragment((16,), "float32")
            T.copy(Q[b * 16, 0], q)
            T.copy(K[b * 16, 0], k)
            T.copy(V[b * 16, 0], v)
            for i, j in T.Parallel(16, 32):
                q[i, j] *= k[i, j]
            if not fault:
                T.reduce_sum(q, weight, dim=1)
            for i, j in T.Parallel(16, 32):
                v[i, j] *= weight[i]
            T.copy(v, Y[b * 16, 0])

    return main


def diagonal(fault=False):
    """The diagonal of a matrix as a vector, its stride from the matrix; added to and written to another diagonal."""
    N, S, R = T.dynamic("N, S, R")

    @T.prim_func
    def main(X: T.StridedTensor((N,), (S,), "float32"), Y: T.StridedTensor((N,), (R,), "float32")):
        with T.Kernel(T.ceildiv(N, 32), threads=32) as b:
            for i in T.Parallel(32):
                if fault:
                    Y[b * 32 + i // 2] = X[b * 32 + i] * 2
                else:
                    Y[b * 32 + i] = X[b * 32 + i] * 2

    return main


def block_transpose(fault=False):
    """A matrix seen as blocks, (R, C, 16, 16) with strides (16 * N, 16, N, 1); each block is turned over."""
    R, C, S0, S2 = T.dynamic("R, C, S0, S2")

    @T.prim_func
    def main(
        X: T.StridedTensor((R, C, 16, 16), (S0, 16, S2, 1), "float32"),
        Y: T.Tensor((C, R, 16, 16), "float32"),
    ):
        with T.Kernel(C, R, threads=64) as (c, r):
            tile = T.alloc_shared((16, 16), "float32")
            turned = T.alloc_fragment((16, 16), "float32")
            T.copy(X[r, c, 0, 0], tile)
            for i, j in T.Parallel(16, 16):
                turned[i, j] = tile[j, i]
            T.copy(turned, Y[c, R - 1 - r if fault else r, 0, 0])

    return main


def reversed_rows(fault=False):
    """Running sums from the last row to the first: the row stride is negative."""
    M, S = T.dynamic("M, S")

    @T.prim_func
    def main(X: T.StridedTensor((M, 32), (S, 1), "float32"), Y: T.Tensor((M, 32), "float32")):
        with T.Kernel(1, threads=32) as _:
            total = T.alloc_fragment((32,), "float32")
            if not fault:
                T.clear(total)
            for row in T.serial(M):
                for j in T.Parallel(32):
                    total[j] += X[row, j]
                T.copy(total, Y[row, 0:32])

    return main


def added_in_place(fault=False):
    """A strided argument that is read and written: a residual stream inside a wider buffer."""
    M, S = T.dynamic("M, S")

    @T.prim_func
    def main(residual: T.StridedTensor((M, 64), (S, 1), "float32"), X: T.Tensor((M, 64), "float32")):
        with T.Kernel(T.ceildiv(M, 8), threads=64) as b:
            for i, j in T.Parallel(8, 64):
                if fault:
                    residual[b * 8 + i, j] = residual[(b * 8 + i + 8) % M, j] + X[b * 8 + i, j]
                else:
                    residual[b * 8 + i, j] += X[b * 8 + i, j]

    return main


def column_histogram(fault=False):
    """Atomic additions into counts that lie class by class: strides (1, S)."""
    M, S = T.dynamic("M, S")

    @T.prim_func
    def main(
        labels: T.Tensor((M,), "int32"),
        groups: T.Tensor((M,), "int32"),
        counts: T.StridedTensor((4, 8), (1, S), "int32"),
    ):
        with T.Kernel(T.ceildiv(M, 32), threads=32) as b:
            for i in T.Parallel(32):
                if b * 32 + i < M:
                    if fault:
                        counts[groups[b * 32 + i], labels[b * 32 + i]] = b
                    else:
                        T.atomic_add(counts[groups[b * 32 + i], labels[b * 32 + i]], 1)

    return main
