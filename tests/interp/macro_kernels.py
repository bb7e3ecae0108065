"""Kernels built from macros: on tiles, regions, scalars and threads; nested, returning values, kept in classes.

Each factory takes ``fault``: with it the macro (or its call) holds the mistake that ``test_macros`` names.
"""

import tilelang.language as T

LOG2E = 1.44269504


@T.macro
def load_padded(source, tile, first, limit, value):
    """A row block of a matrix, with ``value`` below its last row."""
    rows, columns = tile.shape
    for i, j in T.Parallel(rows, columns):
        tile[i, j] = T.if_then_else(first + i < limit, source[first + i, j], value)


def row_minimum(fault=False):
    """A macro that guards the tail: its fill value decides whether the last block is right."""
    M = T.dynamic("M")

    @T.prim_func
    def main(X: T.Tensor((M, 32), "float32"), Y: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=64) as _:
            tile = T.alloc_fragment((16, 32), "float32")
            low = T.alloc_fragment((32,), "float32")
            T.fill(low, T.infinity("float32"))
            for b in T.serial(T.ceildiv(M, 16)):
                load_padded(X, tile, b * 16, M, 0.0 if fault else T.infinity("float32"))
                T.reduce_min(tile, low, dim=0, clear=False)
            T.copy(low, Y)

    return main


@T.macro
def product(A, B, acc, row, column, depth, stages):
    """The main loop of a product; its operand tiles are the macro's own."""
    a = T.alloc_shared((64, 32), "float16")
    b = T.alloc_shared((32, 64), "float16")
    T.clear(acc)
    for k in T.Pipelined(T.ceildiv(depth, 32), num_stages=stages):
        T.copy(A[row, k * 32], a)
        T.copy(B[k * 32, column], b)
        T.gemm(a, b, acc)


@T.macro
def silu(x):
    return x / (1.0 + T.exp(-x))


def gated_product(fault=False):
    """silu(A @ G) * (A @ U): one main-loop macro called twice, one macro that returns a value."""

    @T.prim_func
    def main(
        A: T.Tensor((100, 96), "float16"),
        G: T.Tensor((96, 80), "float16"),
        U: T.Tensor((96, 80), "float16"),
        C: T.Tensor((100, 80), "float16"),
    ):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            gate = T.alloc_fragment((64, 64), "float32")
            up = T.alloc_fragment((64, 64), "float32")
            product(A, G, gate, by * 64, bx * 64, 96, 2)
            product(A, G if fault else U, up, by * 64, bx * 64, 96, 2)
            for i, j in T.Parallel(64, 64):
                gate[i, j] = silu(gate[i, j]) * up[i, j]
            T.copy(gate, C[by * 64, bx * 64])

    return main


def leaky(slope):
    @T.macro
    def apply(x):
        return T.if_then_else(x > 0, x, x * slope)

    return apply


def clamped(low, high):
    @T.macro
    def apply(x):
        return T.min(T.max(x, low), high)

    return apply


@T.macro
def epilogue(acc, bias, column, functions):
    """Bias, then each of ``functions``, macros that the caller passes."""
    rows, columns = acc.shape
    for i, j in T.Parallel(rows, columns):
        acc[i, j] += bias[column + j]
    for function in functions:
        for i, j in T.Parallel(rows, columns):
            acc[i, j] = function(acc[i, j])


def passed_epilogue(fault=False):
    """A product whose epilogue is a macro that takes macros."""
    functions = [clamped(-3.0, 3.0), leaky(0.25)]
    chosen = functions[::-1] if fault else functions

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 128), "float16"),
        bias: T.Tensor((128,), "float32"),
        C: T.Tensor((64, 128), "float32"),
    ):
        with T.Kernel(2, threads=128) as bx:
            acc = T.alloc_fragment((64, 64), "float32")
            product(A, B, acc, 0, bx * 64, 64, 0)
            epilogue(acc, bias, bx * 64, chosen)
            T.copy(acc, C[0, bx * 64])

    return main


@T.macro
def row_total(tile, total):
    """The sum of the squares of each row, through a fragment of the macro's own."""
    rows, columns = tile.shape
    square = T.alloc_fragment((rows, columns), "float32")
    for i, j in T.Parallel(rows, columns):
        square[i, j] = tile[i, j] * tile[i, j]
    T.reduce_sum(square, total, dim=1)


def paired_norms(fault=False):
    """Queries and keys normed by the same macro: each call has its own scratch fragment."""

    @T.prim_func
    def main(Q: T.Tensor((32, 64), "float16"), K: T.Tensor((32, 32), "float16"), Y: T.Tensor((32, 96), "float16")):
        with T.Kernel(2, threads=128) as b:
            q = T.alloc_fragment((16, 64), "float32")
            k = T.alloc_fragment((16, 32), "float32")
            q_total = T.alloc_fragment((16,), "float32")
            k_total = T.alloc_fragment((16,), "float32")
            T.copy(Q[b * 16, 0], q)
            T.copy(K[b * 16, 0], k)
            row_total(q, q_total)
            if not fault:
                row_total(k, k_total)
            for i, j in T.Parallel(16, 64):
                q[i, j] *= T.rsqrt(q_total[i] / 64 + 1e-6)
            for i, j in T.Parallel(16, 32):
                k[i, j] *= T.rsqrt(k_total[i] / 32 + 1e-6)
            T.copy(q, Y[b * 16, 0])
            T.copy(k, Y[b * 16 : b * 16 + 16, 64:96])

    return main


@T.macro
def softmax_step(scores, weights, high, total, scale, before, forget):
    """One block of the online softmax: new maxima, weights, and how much of the old sums remains."""
    rows, columns = scores.shape
    if before is not high:
        T.copy(high, before)
    T.reduce_max(scores, high, dim=1, clear=False)
    for i in T.Parallel(rows):
        forget[i] = T.exp2((before[i] - high[i]) * scale)
    for i, j in T.Parallel(rows, columns):
        scores[i, j] = T.exp2((scores[i, j] - high[i]) * scale)
    part = T.alloc_fragment((rows,), "float32")
    T.reduce_sum(scores, part, dim=1)
    for i in T.Parallel(rows):
        total[i] = total[i] * forget[i] + part[i]
    T.copy(scores, weights)


@T.macro
def rescale(acc, factor):
    rows, columns = acc.shape
    for i, j in T.Parallel(rows, columns):
        acc[i, j] *= factor[i]


@T.macro
def attend(q, k, v, scores, weights, acc, high, before, forget, total, scale):
    """One block of keys: three macros and two products."""
    T.gemm(q, k, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
    softmax_step(scores, weights, high, total, scale, before, forget)
    rescale(acc, forget)
    T.gemm(weights, v, acc, policy=T.GemmWarpPolicy.FullRow)


def attention(fault=False, length=192, width=64):
    """Flash attention whose loop body is a macro of macros; the fault aliases the old maxima with the new ones."""
    scale = float(width**-0.5 * LOG2E)

    @T.prim_func
    def main(
        Q: T.Tensor((length, width), "float16"),
        K: T.Tensor((length, width), "float16"),
        V: T.Tensor((length, width), "float16"),
        Y: T.Tensor((length, width), "float16"),
    ):
        with T.Kernel(T.ceildiv(length, 64), threads=128) as b:
            q = T.alloc_shared((64, width), "float16")
            k = T.alloc_shared((64, width), "float16")
            v = T.alloc_shared((64, width), "float16")
            scores = T.alloc_fragment((64, 64), "float32")
            weights = T.alloc_fragment((64, 64), "float16")
            acc = T.alloc_fragment((64, width), "float32")
            high = T.alloc_fragment((64,), "float32")
            before = T.alloc_fragment((64,), "float32")
            forget = T.alloc_fragment((64,), "float32")
            total = T.alloc_fragment((64,), "float32")
            T.copy(Q[b * 64, 0], q)
            T.clear(acc)
            T.clear(total)
            T.fill(high, -1e30)
            for n in T.Pipelined(T.ceildiv(length, 64), num_stages=1):
                T.copy(K[n * 64, 0], k)
                T.copy(V[n * 64, 0], v)
                attend(q, k, v, scores, weights, acc, high, high if fault else before, forget, total, scale)
            for i, j in T.Parallel(64, width):
                acc[i, j] /= total[i]
            T.copy(acc, Y[b * 64, 0])

    return main


@T.macro
def keep_larger(best: T.Ref, place: T.Ref, value, position):
    """Updates two variables of the caller."""
    if value > best:
        best = value
        place = position  # noqa: F841


def arg_maximum(fault=False):
    """A scalar macro that takes its variables by reference."""

    @T.prim_func
    def main(X: T.Tensor((70, 40), "float32"), Y: T.Tensor((70,), "int32")):
        with T.Kernel(2, threads=64) as b:
            row = b * 64 + T.get_thread_binding()
            best = T.alloc_var("float32", init=0.0 if fault else -1e30)
            place = T.alloc_var("int32", init=-1)
            if row < 70:
                for j in T.serial(40):
                    keep_larger(best, place, X[row, j], j)
                Y[row] = place

    return main
