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


def tma_round_trip(rows: int, columns: int, dtype: str = "float16", stride: int | None = None) -> Any:
    """A tile in by an explicit TMA copy and out again by a plain copy."""
    width = stride or columns * 4

    @T.prim_func
    def main(A: T.Tensor((rows * 4, width), dtype), B: T.Tensor((rows * 4, width), dtype)):
        with T.Kernel(T.ceildiv(width, columns), 4, threads=128) as (bx, by):
            A_s = T.alloc_shared((rows, columns), dtype)
            bar = T.alloc_barrier(1)
            T.tma_copy(A[by * rows, bx * columns], A_s, barrier=bar)
            T.barrier_arrive(bar)
            T.barrier_wait(bar, 0)
            T.copy(A_s, B[by * rows, bx * columns])

    return main


def store_from_shared(rows: int, columns: int, stride: int, dtype: str = "float16") -> Any:
    """A constant tile written through shared memory."""

    @T.prim_func
    def main(B: T.Tensor((rows * 4, stride), dtype)):
        with T.Kernel(T.ceildiv(stride, columns), 4, threads=128) as (bx, by):
            B_s = T.alloc_shared((rows, columns), dtype)
            T.fill(B_s, 1)
            T.copy(B_s, B[by * rows, bx * columns])

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


def rms_norm(rows: int, columns: int, threads: int, dtype: str = "float16") -> Any:
    """As `row_sum`, with a loop over the rows that turns the sum into a scale."""

    @T.prim_func
    def main(X: T.Tensor((rows * 64, columns), dtype), Y: T.Tensor((rows * 64, columns), dtype)):
        with T.Kernel(64, threads=threads) as by:
            x = T.alloc_fragment((rows, columns), "float32")
            square = T.alloc_fragment((rows, columns), "float32")
            scale = T.alloc_fragment((rows,), "float32")
            T.copy(X[by * rows, 0], x)
            for i, j in T.Parallel(rows, columns):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, scale, dim=1)
            for i in T.Parallel(rows):
                scale[i] = T.rsqrt(scale[i] / columns + 1e-5)
            for i, j in T.Parallel(rows, columns):
                x[i, j] = x[i, j] * scale[i]
            T.copy(x, Y[by * rows, 0])

    return main


def copy_to_shared(rows: int, columns: int, threads: int, dtype: str = "float16") -> Any:
    """A pipelined loop whose copies become cp.async where they can."""

    @T.prim_func
    def main(A: T.Tensor((rows * 64, columns), dtype), B: T.Tensor((rows, columns), dtype)):
        with T.Kernel(1, threads=threads) as _:
            A_s = T.alloc_shared((rows, columns), dtype)
            x = T.alloc_fragment((rows, columns), dtype)
            T.clear(x)
            for k in T.Pipelined(64, num_stages=2):
                T.copy(A[k * rows, 0], A_s)
                for i, j in T.Parallel(rows, columns):
                    x[i, j] += A_s[i, j]
            T.copy(x, B)

    return main


def mla_decode(
    block_h: int, block_n: int, stages: int, threads: int, *, dynamic: bool = False, schedule: Any = None
) -> Any:
    """Latent attention of one query row a head: 512 + 64 wide, output staged through shared memory.

    `schedule`: explicit order and stage of the 15 statements of the loop.
    """
    context = T.dynamic("context") if dynamic else 4096
    loop = {"num_stages": stages} | ({"order": list(schedule.order), "stage": list(schedule.stage)} if schedule else {})
    full_col = POLICIES["full_col"]
    half, single = "float16", "float32"

    @T.prim_func
    def main(
        Q: T.Tensor((4, 128, 512), half),
        Q_pe: T.Tensor((4, 128, 64), half),
        KV: T.Tensor((4, context, 512), half),
        K_pe: T.Tensor((4, context, 64), half),
        Out: T.Tensor((4, 128, 512), half),
    ):
        with T.Kernel(128 // block_h, 4, threads=threads) as (head, batch):
            Q_s = T.alloc_shared((block_h, 512), half)
            Qp_s = T.alloc_shared((block_h, 64), half)
            KV_s = T.alloc_shared((block_n, 512), half)
            Kp_s = T.alloc_shared((block_n, 64), half)
            S_s = T.alloc_shared((block_h, block_n), half)
            O_s = T.alloc_shared((block_h, 512), half)
            s = T.alloc_fragment((block_h, block_n), single)
            o = T.alloc_fragment((block_h, 512), single)
            top = T.alloc_fragment((block_h,), single)
            before = T.alloc_fragment((block_h,), single)
            alpha = T.alloc_fragment((block_h,), single)
            part = T.alloc_fragment((block_h,), single)
            total = T.alloc_fragment((block_h,), single)
            T.copy(Q[batch, head * block_h, 0], Q_s)
            T.copy(Q_pe[batch, head * block_h, 0], Qp_s)
            T.fill(o, 0)
            T.fill(total, 0)
            T.fill(top, -1e30)
            for k in T.Pipelined(T.ceildiv(context, block_n), **loop):
                T.copy(KV[batch, k * block_n, 0], KV_s)
                T.copy(K_pe[batch, k * block_n, 0], Kp_s)
                T.clear(s)
                T.gemm(Q_s, KV_s, s, transpose_B=True, policy=full_col)
                T.gemm(Qp_s, Kp_s, s, transpose_B=True, policy=full_col)
                T.copy(top, before)
                T.reduce_max(s, top, dim=1, clear=True)
                for i in T.Parallel(block_h):
                    top[i] = T.max(top[i], before[i])
                for i in T.Parallel(block_h):
                    alpha[i] = T.exp2(before[i] - top[i])
                for i, j in T.Parallel(block_h, block_n):
                    s[i, j] = T.exp2(s[i, j] - top[i])
                T.reduce_sum(s, part, dim=1)
                T.copy(s, S_s)
                for i in T.Parallel(block_h):
                    total[i] = total[i] * alpha[i] + part[i]
                for i, j in T.Parallel(block_h, 512):
                    o[i, j] *= alpha[i]
                T.gemm(S_s, KV_s, o, policy=full_col)
            for i, j in T.Parallel(block_h, 512):
                o[i, j] /= total[i]
            T.copy(o, O_s)
            T.copy(O_s, Out[batch, head * block_h, 0])

    return main


def two_phases(branch: bool) -> Any:
    """Two uses of shared memory one after the other, at the level of allocation or inside one branch over threads."""

    @T.macro
    def first(A, A_s, scale, a, x):
        T.copy(A[0, 0], A_s)
        T.copy(A_s, a)
        T.copy(x, scale)

    @T.macro
    def second(B, B_s, scale, b, x):
        T.copy(b, B_s)
        T.copy(B_s, B[0, 0])
        T.copy(scale, x)

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 128), "float16"), X: T.Tensor((24,), "float32")):
        with T.Kernel(1, threads=256) as _:
            A_s = T.alloc_shared((64, 64), "float16")
            scale = T.alloc_shared((24,), "float32")
            B_s = T.alloc_shared((64, 128), "float16")
            a = T.alloc_fragment((64, 64), "float16")
            b = T.alloc_fragment((64, 128), "float16")
            x = T.alloc_fragment((24,), "float32")
            if branch:
                if T.get_thread_binding() < 128:
                    T.fill(b, 1)
                    T.fill(x, 1)
                    first(A, A_s, scale, a, x)
                    second(B, B_s, scale, b, x)
                    T.copy(x, X)
                    T.copy(a, B[0, 0])
            else:
                T.fill(b, 1)
                T.fill(x, 1)
                first(A, A_s, scale, a, x)
                second(B, B_s, scale, b, x)
                T.copy(x, X)
                T.copy(a, B[0, 0])

    return main
