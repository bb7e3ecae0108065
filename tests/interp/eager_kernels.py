"""Ten kernels in the eager style of ``tilelang.jit``: tensors are arguments, the body declares and returns them."""

import tilelang
import tilelang.language as T


@tilelang.jit
def scale(X, factor: float = 2.0):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), "float16")
    Y = T.empty((M, N), "float16")
    with T.Kernel(T.ceildiv(M, 16), threads=128) as b:
        tile = T.alloc_fragment((16, N), "float32")
        T.copy(X[b * 16, 0], tile)
        for i, j in T.Parallel(16, N):
            tile[i, j] *= factor
        T.copy(tile, Y[b * 16, 0])
    return Y


@tilelang.jit
def add(X, Y):
    N = T.dynamic("N")
    X: T.Tensor((N,), "float32")
    Y: T.Tensor((N,), "float32")
    Z = T.empty((N,), "float32")
    with T.Kernel(T.ceildiv(N, 256), threads=128) as b:
        for i in T.Parallel(256):
            Z[b * 256 + i] = X[b * 256 + i] + Y[b * 256 + i]
    return Z


@tilelang.jit
def matmul(A, B, block: int = 64):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), "float16")
    B: T.Tensor((K, N), "float16")
    C = T.empty((M, N), "float32")
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        a = T.alloc_shared((block, 32), "float16")
        b = T.alloc_shared((32, block), "float16")
        acc = T.alloc_fragment((block, block), "float32")
        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * block, k * 32], a)
            T.copy(B[k * 32, bx * block], b)
            T.gemm(a, b, acc)
        T.copy(acc, C[by * block, bx * block])
    return C


@tilelang.jit
def row_sum(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), "float32")
    Y = T.empty((M,), "float32")
    with T.Kernel(T.ceildiv(M, 8), threads=128) as b:
        tile = T.alloc_fragment((8, N), "float32")
        total = T.alloc_fragment((8,), "float32")
        T.copy(X[b * 8, 0], tile)
        T.reduce_sum(tile, total, dim=1)
        T.copy(total, Y[b * 8])
    return Y


@tilelang.jit
def softmax(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), "float32")
    Y = T.empty((M, N), "float32")
    with T.Kernel(M, threads=128) as row:
        tile = T.alloc_fragment((1, N), "float32")
        high = T.alloc_fragment((1,), "float32")
        total = T.alloc_fragment((1,), "float32")
        T.copy(X[row, 0], tile)
        T.reduce_max(tile, high, dim=1)
        for i, j in T.Parallel(1, N):
            tile[i, j] = T.exp(tile[i, j] - high[i])
        T.reduce_sum(tile, total, dim=1)
        for i, j in T.Parallel(1, N):
            tile[i, j] /= total[i]
        T.copy(tile, Y[row, 0])
    return Y


@tilelang.jit
def transpose(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), "float16")
    Y = T.empty((N, M), "float16")
    with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), threads=128) as (bx, by):
        tile = T.alloc_shared((32, 32), "float16")
        T.copy(X[by * 32, bx * 32], tile)
        for i, j in T.Parallel(32, 32):
            Y[bx * 32 + i, by * 32 + j] = tile[j, i]
    return Y


@T.macro
def relu_in_place(tile, rows, columns):
    for i, j in T.Parallel(rows, columns):
        tile[i, j] = T.max(tile[i, j], 0)


@tilelang.jit
def relu(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), "float16")
    Y = T.empty((M, N), "float16")
    with T.Kernel(T.ceildiv(M, 16), threads=64) as b:
        tile = T.alloc_fragment((16, N), "float16")
        T.copy(X[b * 16, 0], tile)
        relu_in_place(tile, 16, N)
        T.copy(tile, Y[b * 16, 0])
    return Y


@tilelang.jit
def strided_copy(X):
    M, N = T.const("M, N")
    S = T.dynamic("S")
    X: T.StridedTensor((M, N), (S, 1), "float32")
    Y = T.empty((M, N), "float32")
    with T.Kernel(M, threads=32) as row:
        for j in T.Parallel(N):
            Y[row, j] = X[row, j]
    return Y


@tilelang.jit
def extremes(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), "float32")
    low = T.empty((M,), "float32")
    high = T.empty((M,), "float32")
    with T.Kernel(M, threads=64) as row:
        tile = T.alloc_fragment((1, N), "float32")
        out = T.alloc_fragment((1,), "float32")
        T.copy(X[row, 0], tile)
        T.reduce_min(tile, out, dim=1)
        low[row] = out[0]
        T.reduce_max(tile, out, dim=1)
        high[row] = out[0]
    return low, high


@tilelang.jit
def swizzled_copy(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), "bfloat16")
    Y = T.empty((M, N), "bfloat16")
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        tile = T.alloc_shared((64, 64), "bfloat16")
        T.annotate_layout({tile: tilelang.layout.make_swizzled_layout(tile)})
        T.use_swizzle(4)
        T.copy(X[by * 64, bx * 64], tile)
        T.copy(tile, Y[by * 64, bx * 64])
    return Y
