"""Small kernels in which one rule at a time decides what TileLang does."""

from typing import Any

import tilelang.language as T

POLICIES = {
    "square": T.GemmWarpPolicy.Square,
    "full_row": T.GemmWarpPolicy.FullRow,
    "full_col": T.GemmWarpPolicy.FullCol,
}


def gemm(
    block_m: int,
    block_n: int,
    block_k: int,
    threads: int,
    policy: str = "square",
    *,
    stages: int = 2,
    dtype: str = "float16",
    accumulator: str = "float32",
    transpose_a: bool = False,
    transpose_b: bool = False,
    staged: bool = False,
    n: int = 4096,
    k: int = 4096,
    m: int = 4096,
) -> Any:
    a_shape = (k, m) if transpose_a else (m, k)
    b_shape = (n, k) if transpose_b else (k, n)
    a_tile = (block_k, block_m) if transpose_a else (block_m, block_k)
    b_tile = (block_n, block_k) if transpose_b else (block_k, block_n)
    out = accumulator if accumulator == "int32" else ("float16" if "float8" in dtype else dtype)

    @T.prim_func
    def main(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((m, n), out)):
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=threads) as (bx, by):
            A_s = T.alloc_shared(a_tile, dtype)
            B_s = T.alloc_shared(b_tile, dtype)
            acc = T.alloc_fragment((block_m, block_n), accumulator)
            T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(k, block_k), num_stages=stages):
                if transpose_a:
                    T.copy(A[ko * block_k, by * block_m], A_s)
                else:
                    T.copy(A[by * block_m, ko * block_k], A_s)
                if transpose_b:
                    T.copy(B[bx * block_n, ko * block_k], B_s)
                else:
                    T.copy(B[ko * block_k, bx * block_n], B_s)
                T.gemm(A_s, B_s, acc, transpose_a, transpose_b, policy=POLICIES[policy])
            if staged:
                C_s = T.alloc_shared((block_m, block_n), out)
                T.copy(acc, C_s)
                T.copy(C_s, C[by * block_m, bx * block_n])
            else:
                T.copy(acc, C[by * block_m, bx * block_n])

    return main


def tma_round_trip(
    rows: int, columns: int, dtype: str = "float16", stride: int | None = None, explicit: bool = True
) -> Any:
    """A tile in by TMA and out again."""
    width = stride or columns * 4

    @T.prim_func
    def main(A: T.Tensor((rows * 4, width), dtype), B: T.Tensor((rows * 4, width), dtype)):
        with T.Kernel(T.ceildiv(width, columns), 4, threads=128) as (bx, by):
            A_s = T.alloc_shared((rows, columns), dtype)
            bar = T.alloc_barrier(1)
            if explicit:
                T.tma_copy(A[by * rows, bx * columns], A_s, barrier=bar)
                T.barrier_arrive(bar)
                T.barrier_wait(bar, 0)
            else:
                T.copy(A[by * rows, bx * columns], A_s)
            T.copy(A_s, B[by * rows, bx * columns])

    return main


def row_sum(rows: int, columns: int, threads: int, dtype: str = "float16") -> Any:
    """Each row of a tile divided by its sum, through a float32 fragment."""

    @T.prim_func
    def main(X: T.Tensor((rows * 64, columns), dtype), Y: T.Tensor((rows * 64, columns), dtype)):
        with T.Kernel(64, threads=threads) as by:
            x = T.alloc_fragment((rows, columns), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X[by * rows, 0], x)
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(rows, columns):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[by * rows, 0])

    return main


def copy_to_shared(rows: int, columns: int, threads: int, dtype: str = "float16", stride: int | None = None) -> Any:
    """A pipelined loop whose copies become cp.async where they can."""
    width = stride or columns

    @T.prim_func
    def main(A: T.Tensor((rows * 64, width), dtype), B: T.Tensor((rows, columns), dtype)):
        with T.Kernel(1, threads=threads) as _:
            A_s = T.alloc_shared((rows, columns), dtype)
            x = T.alloc_fragment((rows, columns), dtype)
            T.clear(x)
            for k in T.Pipelined(64, num_stages=2):
                T.copy(A[k * rows : (k + 1) * rows, 0:columns], A_s)
                for i, j in T.Parallel(rows, columns):
                    x[i, j] += A_s[i, j]
            T.copy(x, B)

    return main
