"""Kernels to read back."""

from typing import Any

import tilelang.language as T


def dynamic_gemm_and_norm() -> Any:
    """Two kernels in one prim_func, over run-time m and k."""
    m, k = T.dynamic("m"), T.dynamic("k")

    @T.prim_func
    def two(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((k, 256), "float16"),
        W: T.Tensor((m, 256), "float32"),
        C: T.Tensor((m, 256), "float16"),
    ):
        with T.Kernel(2, T.ceildiv(m, 128), threads=128) as (bx, by):
            A_s = T.alloc_shared((128, 64), "float16")
            B_s = T.alloc_shared((64, 128), "float16")
            acc = T.alloc_fragment((128, 128), "float32")
            T.use_swizzle(10)
            T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(k, 64), num_stages=3):
                T.copy(A[by * 128, ko * 64], A_s)
                T.copy(B[ko * 64, bx * 128], B_s)
                T.gemm(A_s, B_s, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(128, 128):
                acc[i, j] = T.max(acc[i, j], 0)
            T.copy(acc, W[by * 128, bx * 128])
        with T.Kernel(T.ceildiv(m, 4), threads=128) as bx:
            x = T.alloc_fragment((4, 256), "float32")
            top = T.alloc_fragment((4,), "float32")
            T.copy(W[bx * 4, 0], x)
            T.reduce_max(x, top, dim=1)
            if bx > 0:
                for i, j in T.Parallel(4, 256):
                    x[i, j] = x[i, j] - top[i]
            T.copy(x, C[bx * 4, 0])

    return two


def explicit_tma() -> Any:
    """One tile loaded by hand with a barrier, multiplied, and waited for."""

    @T.prim_func
    def main(A: T.Tensor((128, 64), "float16"), B: T.Tensor((128, 64), "float16"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128) as _:
            A_s = T.alloc_shared((2, 128, 64), "float16")
            B_s = T.alloc_shared((128, 64), "float16")
            acc = T.alloc_fragment((128, 128), "float32")
            ready = T.alloc_barrier([1, 1])
            T.clear(acc)
            for s in T.serial(2):
                slot = s % 2
                T.tma_copy(A, A_s[slot, :, :], barrier=ready[slot])
                T.tma_copy(B, B_s, barrier=ready[slot])
                T.barrier_arrive(ready[slot])
                T.barrier_wait(ready[slot], 0)
                T.wgmma_gemm(A_s[slot, :, :], B_s, acc, transpose_B=True)
                T.wait_wgmma(0)
            T.copy(acc, C)

    return main


def not_a_kernel() -> Any:
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        A[0] = 1.0

    return main


def simple_gemm(block_m: int = 128, block_n: int = 128) -> Any:
    @T.prim_func
    def main(
        A: T.Tensor((960, 64), "float16"), B: T.Tensor((64, block_n), "float16"), C: T.Tensor((960, block_n), "float32")
    ):
        with T.Kernel(T.ceildiv(960, block_m), threads=256 if block_m == 128 else 128) as by:
            A_s = T.alloc_shared((block_m, 64), "float16")
            B_s = T.alloc_shared((64, block_n), "float16")
            acc = T.alloc_fragment((block_m, block_n), "float32")
            T.copy(A[by * block_m, 0], A_s)
            T.copy(B, B_s)
            T.gemm(A_s, B_s, acc, clear_accum=True)
            T.copy(acc, C[by * block_m, 0])

    return main
