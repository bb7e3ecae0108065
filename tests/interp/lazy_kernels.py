"""Ten kernels in the lazy style of ``tilelang.jit``: a function of static sizes returns a prim_func."""

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def double(N, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, 128), threads=128) as b:
            for i in T.Parallel(128):
                B[b * 128 + i] = A[b * 128 + i] * 2

    return main


@tilelang.jit(out_idx=[-1])
def matmul_nt(N, K):
    M = T.dynamic("M")

    @T.prim_func
    def main(A: T.Tensor((M, K), "bfloat16"), B: T.Tensor((N, K), "bfloat16"), C: T.Tensor((M, N), "bfloat16")):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            a = T.alloc_shared((64, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
                T.copy(A[by * 64, k * 64], a)
                T.copy(B[bx * 64, k * 64], b)
                T.gemm(a, b, acc, transpose_B=True)
            T.copy(acc, C[by * 64, bx * 64])

    return main


@tilelang.jit(out_idx=[2])
def layer_norm(N, eps=1e-5):
    M = T.dynamic("M")

    @T.prim_func
    def main(X: T.Tensor((M, N), "float16"), gamma: T.Tensor((N,), "float32"), Y: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(M, 4), threads=128) as b:
            x = T.alloc_fragment((4, N), "float32")
            square = T.alloc_fragment((4, N), "float32")
            mean = T.alloc_fragment((4,), "float32")
            variance = T.alloc_fragment((4,), "float32")
            T.copy(X[b * 4, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(4):
                mean[i] /= N
            for i, j in T.Parallel(4, N):
                x[i, j] -= mean[i]
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, variance, dim=1)
            for i, j in T.Parallel(4, N):
                x[i, j] *= T.rsqrt(variance[i] / N + eps) * gamma[j]
            T.copy(x, Y[b * 4, 0])

    return main


@tilelang.jit(out_idx=[-1])
def cumulative(M, N):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=128) as row:
            tile = T.alloc_shared((1, N), "float32")
            T.copy(A[row, 0], tile)
            T.cumsum(tile, dim=1)
            T.copy(tile, B[row, 0])

    return main


@tilelang.jit(out_idx=[-1])
def gelu(N):
    M = T.dynamic("M")

    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, 8), threads=128) as b:
            for i, j in T.Parallel(8, N):
                x = A[b * 8 + i, j]
                B[b * 8 + i, j] = 0.5 * x * (1 + T.erf(x * 0.7071067811865476))

    return main


@tilelang.jit(out_idx=[-1])
def swiglu(N):
    M = T.dynamic("M")

    @T.prim_func
    def main(A: T.Tensor((M, 2 * N), "float16"), B: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(M, 8), threads=128) as b:
            gate = T.alloc_fragment((8, N), "float32")
            up = T.alloc_fragment((8, N), "float32")
            T.copy(A[b * 8 : b * 8 + 8, 0:N], gate)
            T.copy(A[b * 8 : b * 8 + 8, N : 2 * N], up)
            for i, j in T.Parallel(8, N):
                gate[i, j] = gate[i, j] * T.sigmoid(gate[i, j]) * up[i, j]
            T.copy(gate, B[b * 8, 0])

    return main


@tilelang.jit(out_idx=[1, 2])
def quantise(N):
    """Rows to int8 with one scale each."""
    M = T.dynamic("M")

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Q: T.Tensor((M, N), "int8"), scales: T.Tensor((M,), "float32")):
        with T.Kernel(M, threads=128) as row:
            x = T.alloc_fragment((1, N), "float32")
            most = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            T.reduce_absmax(x, most, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] = T.round(x[i, j] * (127.0 / T.max(most[i], 1e-8)))
            T.copy(x, Q[row, 0])
            scales[row] = most[0] / 127.0

    return main


@tilelang.jit(out_idx=[-1])
def rotate(N):
    """Rotary embedding of interleaved halves."""
    M = T.dynamic("M")
    half = N // 2

    @T.prim_func
    def main(
        X: T.Tensor((M, N), "float16"),
        cos: T.Tensor((M, half), "float32"),
        sin: T.Tensor((M, half), "float32"),
        Y: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(M, 8), threads=128) as b:
            for i, j in T.Parallel(8, half):
                row = b * 8 + i
                if row < M:
                    left = X[row, j].astype("float32")
                    right = X[row, j + half].astype("float32")
                    Y[row, j] = left * cos[row, j] - right * sin[row, j]
                    Y[row, j + half] = right * cos[row, j] + left * sin[row, j]

    return main


@tilelang.jit(out_idx=[-1])
def top_one(N):
    """The position of the largest element of each row, by a serial scan."""
    M = T.dynamic("M")

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), best: T.Tensor((M,), "int32")):
        with T.Kernel(T.ceildiv(M, 64), threads=64) as b:
            tx = T.get_thread_binding()
            place = T.alloc_var("int32", init=0)
            high = T.alloc_var("float32", init=-1e30)
            row = b * 64 + tx
            if row < M:
                for j in T.serial(N):
                    if X[row, j] > high:
                        high = X[row, j]
                        place = j
                best[row] = place

    return main


@tilelang.jit(out_idx=[-1])
def convolve(N, width=3):
    M = T.dynamic("M")

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), W: T.Tensor((width, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, 16), threads=128) as b:
            acc = T.alloc_fragment((16, N), "float32")
            T.clear(acc)
            for w in T.unroll(width):
                for i, j in T.Parallel(16, N):
                    if b * 16 + i - w >= 0:
                        acc[i, j] += X[b * 16 + i - w, j] * W[w, j]
            T.copy(acc, Y[b * 16, 0])

    return main
