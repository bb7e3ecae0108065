"""Larger kernels, written as users write them; the tests of speed, roles and the command line share them."""

from __future__ import annotations

import tilelang.language as T

LOG2E = 1.44269504


def gemm_relu(N, K, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, threads=256, stages=3):
    """C = relu(A @ B) through a shared epilogue tile; M is dynamic."""
    M = T.dynamic("M")

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, BLOCK_N), T.ceildiv(M, BLOCK_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((BLOCK_M, BLOCK_K), "float16")
            B_shared = T.alloc_shared((BLOCK_K, BLOCK_N), "float16")
            C_shared = T.alloc_shared((BLOCK_M, BLOCK_N), "float16")
            acc = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
            T.use_swizzle(10)
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, BLOCK_K), num_stages=stages):
                T.copy(A[by * BLOCK_M, k * BLOCK_K], A_shared)
                T.copy(B[k * BLOCK_K, bx * BLOCK_N], B_shared)
                T.gemm(A_shared, B_shared, acc)
            for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                acc[i, j] = T.max(acc[i, j], 0)
            T.copy(acc, C_shared)
            T.copy(C_shared, C[by * BLOCK_M, bx * BLOCK_N])

    return main


def rms_silu(C, *, BLOCK_M=16, BLOCK_C=128, threads=128, eps=1e-5):
    """y = silu(x * rsqrt(mean(x^2) + eps) * gamma), the row in C // BLOCK_C fragments; M is dynamic."""
    M = T.dynamic("M")
    parts = C // BLOCK_C

    @T.prim_func
    def main(X: T.Tensor((M, C), "float16"), gamma: T.Tensor((C,), "float16"), Y: T.Tensor((M, C), "float16")):
        with T.Kernel(T.ceildiv(M, BLOCK_M), threads=threads) as block:
            x = T.alloc_fragment((BLOCK_M, BLOCK_C), "float32")
            square = T.alloc_fragment((BLOCK_M, BLOCK_C), "float32")
            total = T.alloc_fragment((BLOCK_M,), "float32")
            rstd = T.alloc_fragment((BLOCK_M,), "float32")
            tile = T.alloc_shared((BLOCK_M, C), "float16")
            T.copy(X[block * BLOCK_M, 0], tile)
            T.clear(total)
            for p in T.serial(parts):
                T.copy(tile[:, p * BLOCK_C : (p + 1) * BLOCK_C], x)
                for i, j in T.Parallel(BLOCK_M, BLOCK_C):
                    square[i, j] = x[i, j] * x[i, j]
                T.reduce_sum(square, total, dim=1, clear=False)
            for i in T.Parallel(BLOCK_M):
                rstd[i] = T.rsqrt(total[i] / C + eps)
            for p in T.serial(parts):
                T.copy(tile[:, p * BLOCK_C : (p + 1) * BLOCK_C], x)
                for i, j in T.Parallel(BLOCK_M, BLOCK_C):
                    x[i, j] = x[i, j] * rstd[i] * gamma[p * BLOCK_C + j]
                for i, j in T.Parallel(BLOCK_M, BLOCK_C):
                    x[i, j] = x[i, j] * T.sigmoid(x[i, j])
                T.copy(x, Y[block * BLOCK_M, p * BLOCK_C])

    return main


def mla_decode(heads=128, *, BLOCK_H=64, BLOCK_N=64, threads=256, stages=2, nope=512, rope=64):
    """Decode with a latent cache: scores through shared memory, any context length; batch and context are dynamic."""
    batch, context = T.dynamic("batch, context")
    scale = float((nope + rope) ** -0.5 * LOG2E)

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, nope), "float16"),
        Q_pe: T.Tensor((batch, heads, rope), "float16"),
        KV: T.Tensor((batch, context, 1, nope), "float16"),
        K_pe: T.Tensor((batch, context, 1, rope), "float16"),
        Output: T.Tensor((batch, heads, nope), "float16"),
    ):
        with T.Kernel(heads // BLOCK_H, batch, threads=threads) as (hid, bid):
            Q_shared = T.alloc_shared((BLOCK_H, nope), "float16")
            S_shared = T.alloc_shared((BLOCK_H, BLOCK_N), "float16")
            Q_pe_shared = T.alloc_shared((BLOCK_H, rope), "float16")
            KV_shared = T.alloc_shared((BLOCK_N, nope), "float16")
            K_pe_shared = T.alloc_shared((BLOCK_N, rope), "float16")
            acc_s = T.alloc_fragment((BLOCK_H, BLOCK_N), "float32")
            acc_o = T.alloc_fragment((BLOCK_H, nope), "float32")
            scores_max = T.alloc_fragment((BLOCK_H,), "float32")
            scores_max_prev = T.alloc_fragment((BLOCK_H,), "float32")
            scores_scale = T.alloc_fragment((BLOCK_H,), "float32")
            scores_sum = T.alloc_fragment((BLOCK_H,), "float32")
            logsum = T.alloc_fragment((BLOCK_H,), "float32")
            T.copy(Q[bid, hid * BLOCK_H : (hid + 1) * BLOCK_H, :], Q_shared)
            T.copy(Q_pe[bid, hid * BLOCK_H : (hid + 1) * BLOCK_H, :], Q_pe_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(context, BLOCK_N), num_stages=stages):
                T.copy(KV[bid, k * BLOCK_N : (k + 1) * BLOCK_N, 0, :], KV_shared)
                T.copy(K_pe[bid, k * BLOCK_N : (k + 1) * BLOCK_N, 0, :], K_pe_shared)
                T.gemm(Q_shared, KV_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol, clear_accum=True)
                T.gemm(Q_pe_shared, K_pe_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                for i, j in T.Parallel(BLOCK_H, BLOCK_N):
                    acc_s[i, j] = T.if_then_else(k * BLOCK_N + j < context, acc_s[i, j], -T.infinity("float32"))
                T.copy(scores_max, scores_max_prev)
                T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                for i in T.Parallel(BLOCK_H):
                    scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
                for i, j in T.Parallel(BLOCK_H, BLOCK_N):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
                T.reduce_sum(acc_s, scores_sum, dim=1)
                T.copy(acc_s, S_shared)
                for i in T.Parallel(BLOCK_H):
                    logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
                for i, j in T.Parallel(BLOCK_H, nope):
                    acc_o[i, j] *= scores_scale[i]
                T.gemm(S_shared, KV_shared, acc_o, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(BLOCK_H, nope):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, Q_shared)
            T.copy(Q_shared, Output[bid, hid * BLOCK_H : (hid + 1) * BLOCK_H, :])

    return main


def attention(heads, dim, *, BLOCK_M=64, BLOCK_N=64, threads=128, stages=2, causal=True):
    """Causal attention with P in registers; sequence length is dynamic."""
    S = T.dynamic("S")
    scale = float(dim**-0.5 * LOG2E)

    @T.prim_func
    def main(
        Q: T.Tensor((heads, S, dim), "bfloat16"),
        K: T.Tensor((heads, S, dim), "bfloat16"),
        V: T.Tensor((heads, S, dim), "bfloat16"),
        Output: T.Tensor((heads, S, dim), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(S, BLOCK_M), heads, threads=threads) as (bx, by):
            Q_shared = T.alloc_shared((BLOCK_M, dim), "bfloat16")
            K_shared = T.alloc_shared((BLOCK_N, dim), "bfloat16")
            V_shared = T.alloc_shared((BLOCK_N, dim), "bfloat16")
            acc_s = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
            acc_s_cast = T.alloc_fragment((BLOCK_M, BLOCK_N), "bfloat16")
            acc_o = T.alloc_fragment((BLOCK_M, dim), "float32")
            scores_max = T.alloc_fragment((BLOCK_M,), "float32")
            scores_max_prev = T.alloc_fragment((BLOCK_M,), "float32")
            scores_scale = T.alloc_fragment((BLOCK_M,), "float32")
            scores_sum = T.alloc_fragment((BLOCK_M,), "float32")
            logsum = T.alloc_fragment((BLOCK_M,), "float32")
            T.copy(Q[by, bx * BLOCK_M : (bx + 1) * BLOCK_M, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity("float32"))
            trips = T.if_then_else(causal, T.ceildiv((bx + 1) * BLOCK_M, BLOCK_N), T.ceildiv(S, BLOCK_N))
            for k in T.Pipelined(trips, num_stages=stages):
                T.copy(K[by, k * BLOCK_N : (k + 1) * BLOCK_N, :], K_shared)
                for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                    acc_s[i, j] = T.if_then_else(
                        T.And(k * BLOCK_N + j < S, T.Or(not causal, bx * BLOCK_M + i >= k * BLOCK_N + j)),
                        0,
                        -T.infinity("float32"),
                    )
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(scores_max, scores_max_prev)
                T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                for i in T.Parallel(BLOCK_M):
                    scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
                for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
                T.reduce_sum(acc_s, scores_sum, dim=1)
                for i in T.Parallel(BLOCK_M):
                    logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
                T.copy(acc_s, acc_s_cast)
                for i, j in T.Parallel(BLOCK_M, dim):
                    acc_o[i, j] *= scores_scale[i]
                T.copy(V[by, k * BLOCK_N : (k + 1) * BLOCK_N, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(BLOCK_M, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, Output[by, bx * BLOCK_M : (bx + 1) * BLOCK_M, :])

    return main


def gemm_relu_reference(A, B):
    """What ``gemm_relu`` computes, in float64."""
    return (A.double() @ B.double()).clamp(min=0)


def gemm_reference_without_relu(A, B):
    return A.double() @ B.double()
