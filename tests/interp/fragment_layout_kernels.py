"""Kernels with explicit layouts of fragments and reducers: which thread holds which element.

Each factory takes ``fault``: with it the layout, or the code that relies on it, holds the mistake that ``test_layouts`` names.
"""

import tilelang.language as T
from tilelang.layout import (
    Fragment,
    PartialFragment,
    make_fully_replicated_layout_fragment,
    make_gemm_fragment_8x8,
)


def row_to_a_thread(fault=False):
    """A softmax in which each thread holds a whole row; the fault has threads for half of the rows."""
    rows = 64

    @T.prim_func
    def main(X: T.Tensor((rows, 16), "float32"), Y: T.Tensor((rows, 16), "float32")):
        with T.Kernel(1, threads=32 if fault else 64) as _:
            x = T.alloc_fragment((rows, 16), "float32")
            high = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.annotate_layout(
                {x: Fragment((rows, 16), forward_thread_fn=lambda i, j: i, forward_index_fn=lambda i, j: j)}
            )
            T.copy(X, x)
            T.reduce_max(x, high, dim=1)
            for i, j in T.Parallel(rows, 16):
                x[i, j] = T.exp(x[i, j] - high[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(rows, 16):
                x[i, j] /= total[i]
            T.copy(x, Y)

    return main


def column_to_a_thread(fault=False):
    """Column sums: a thread goes down its column, one row after another."""

    @T.prim_func
    def main(X: T.Tensor((16, 128), "float32"), Y: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((16, 128), "float32")
            total = T.alloc_fragment((128,), "float32")
            T.annotate_layout(
                {
                    x: Fragment((16, 128), forward_thread_fn=lambda i, j: j, forward_index_fn=lambda i, j: i),
                    total: Fragment((128,), forward_thread_fn=lambda j: j),
                }
            )
            T.copy(X, x)
            if not fault:
                T.clear(total)
            for row in T.serial(16):
                for j in T.Parallel(128):
                    total[j] += x[row, j]
            T.copy(total, Y)

    return main


def vectors_of_four(fault=False):
    """Thread and register in one function: vectors of four, sixteen threads to a row; two rows of a thread collide."""

    def forward(i, j):
        register = j % 4 if fault else i // 8 * 4 + j % 4
        return i % 8 * 16 + j // 4, register

    @T.prim_func
    def main(X: T.Tensor((16, 64), "float16"), Y: T.Tensor((16, 64), "float16")):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((16, 64), "float16")
            T.annotate_layout({x: Fragment((16, 64), forward_fn=forward)})
            T.copy(X, x)
            for i, j in T.Parallel(16, 64):
                x[i, j] = x[i, j] * x[i, j] + 1
            T.copy(x, Y)

    return main


def replicated_weights(fault=False):
    """A polynomial whose coefficients every thread holds."""

    @T.prim_func
    def main(X: T.Tensor((64, 32), "float32"), W: T.Tensor((4,), "float32"), Y: T.Tensor((64, 32), "float32")):
        with T.Kernel(4, threads=64) as b:
            x = T.alloc_fragment((16, 32), "float32")
            y = T.alloc_fragment((16, 32), "float32")
            weights = T.alloc_fragment((4,), "float32")
            T.annotate_layout({weights: make_fully_replicated_layout_fragment(weights, 64)})
            T.copy(X[b * 16, 0], x)
            for k in T.Parallel(3 if fault else 4):
                weights[k] = W[k]
            T.clear(y)
            for k in T.serial(4):
                for i, j in T.Parallel(16, 32):
                    y[i, j] = y[i, j] * x[i, j] + weights[3 - k]
            T.copy(y, Y[b * 16, 0])

    return main


def replicated_rows(fault=False):
    """One number a row, held by the four threads that share the row; the fault misses the replica's thread."""

    def thread(i, r):
        return i * 4 if fault else i * 4 + r

    @T.prim_func
    def main(X: T.Tensor((32, 64), "float32"), scale: T.Tensor((32,), "float32"), Y: T.Tensor((32, 64), "float32")):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((32, 64), "float32")
            factor = T.alloc_fragment((32,), "float32")
            T.annotate_layout(
                {
                    x: Fragment((32, 64), forward_fn=lambda i, j: (i * 4 + j // 16, j % 16)),
                    factor: Fragment((32,), forward_thread_fn=thread, replicate=4),
                }
            )
            T.copy(X, x)
            T.copy(scale, factor)
            for i, j in T.Parallel(32, 64):
                x[i, j] *= factor[i]
            T.copy(x, Y)

    return main


def stored_accumulator(fault=False):
    """The mma layout of an accumulator, built from 8 x 8 by repeats, on a fragment that is only copied."""
    atom = make_gemm_fragment_8x8()
    warp = atom.repeat([2, 1], False, False).repeat([1, 4], False)
    block = warp.repeat([8 if fault else 4, 1], True)

    @T.prim_func
    def main(X: T.Tensor((64, 32), "float16"), Y: T.Tensor((64, 32), "float16")):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((64, 32), "float16")
            T.annotate_layout({x: block})
            T.copy(X, x)
            for i, j in T.Parallel(64, 32):
                x[i, j] = T.max(x[i, j], 0)
            T.copy(x, Y)

    return main


def pinned_reducer(fault=False):
    """The partial sums of a reducer, pinned to all threads; the fault adds each element to the next row."""

    @T.prim_func
    def main(X: T.Tensor((8, 128), "float32"), Y: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=128) as _:
            acc = T.alloc_reducer((8,), "float32", op="sum")
            total = T.alloc_fragment((8,), "float32")
            T.annotate_layout(
                {
                    acc: PartialFragment(
                        (8,), forward_thread_fn=lambda i, r: r, replicate=128, forward_index_fn=lambda i: i
                    )
                }
            )
            T.reducer_init(acc)
            for i, j in T.Parallel(8, 128):
                T.reducer_update(acc[(i + 1) % 8 if fault else i], X[i, j])
            T.finalize_reducer(acc, total)
            T.copy(total, Y)

    return main
