"""Matrix products: operand formats, transposes, accumulators, tails, pipelines, split-K, persistent grids."""

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import run
from tilegen.interp.number_formats import round_to_tf32


def product(
    M, N, K, dtype="float16", accum="float32", transpose_a=False, transpose_b=False, block=(64, 64, 32), stages=2
):
    BM, BN, BK = block
    a_shape = (K, M) if transpose_a else (M, K)
    b_shape = (N, K) if transpose_b else (K, N)
    a_tile = (BK, BM) if transpose_a else (BM, BK)
    b_tile = (BN, BK) if transpose_b else (BK, BN)

    @T.prim_func
    def main(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((M, N), accum)):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=128) as (bx, by):
            A_shared = T.alloc_shared(a_tile, dtype)
            B_shared = T.alloc_shared(b_tile, dtype)
            acc = T.alloc_fragment((BM, BN), accum)
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, BK), num_stages=stages):
                if transpose_a:
                    T.copy(A[k * BK, by * BM], A_shared)
                else:
                    T.copy(A[by * BM, k * BK], A_shared)
                if transpose_b:
                    T.copy(B[bx * BN, k * BK], B_shared)
                else:
                    T.copy(B[k * BK, bx * BN], B_shared)
                T.gemm(A_shared, B_shared, acc, transpose_A=transpose_a, transpose_B=transpose_b)
            T.copy(acc, C[by * BM, bx * BN])

    return main


def clearing():
    """``clear_accum`` starts afresh at the first step; no ``clear`` before the loop."""

    @T.prim_func
    def main(A: T.Tensor((64, 96), "float16"), B: T.Tensor((96, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128) as _:
            A_shared = T.alloc_shared((64, 32), "float16")
            B_shared = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            for k in T.serial(3):
                T.copy(A[0, k * 32], A_shared)
                T.copy(B[k * 32, 0], B_shared)
                T.gemm(A_shared, B_shared, acc, clear_accum=k == 0, policy=T.GemmWarpPolicy.FullRow)
            T.copy(acc, C)

    return main


def register_operand():
    """The left operand in registers, as the second product of attention has it."""

    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16"), B: T.Tensor((32, 64), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_fragment((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, acc, clear_accum=True)
            T.copy(acc, C)

    return main


def split_k(M, N, K, splits):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            zero = T.alloc_fragment((64, 64), "float32")
            T.clear(zero)
            T.copy(zero, C[by * 64, bx * 64])
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), splits, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared((64, 32), "float16")
            B_shared = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(K // splits // 32, num_stages=1):
                T.copy(A[by * 64, bz * (K // splits) + k * 32], A_shared)
                T.copy(B[bz * (K // splits) + k * 32, bx * 64], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.atomic_add(C[by * 64, bx * 64], acc)

    return main


def persistent(N, K, blocks):
    M = T.dynamic("M")

    @T.prim_func
    def main(A: T.Tensor((M, K), "bfloat16"), B: T.Tensor((K, N), "bfloat16"), C: T.Tensor((M, N), "bfloat16")):
        with T.Kernel(blocks, threads=128) as block:
            A_shared = T.alloc_shared((64, 64), "bfloat16")
            B_shared = T.alloc_shared((64, 64), "bfloat16")
            C_shared = T.alloc_shared((64, 64), "bfloat16")
            acc = T.alloc_fragment((64, 64), "float32")
            for w in T.serial(T.ceildiv(T.ceildiv(M, 64) * (N // 64), blocks)):
                tile = w * blocks + block
                by = tile // (N // 64)
                bx = tile % (N // 64)
                if tile < T.ceildiv(M, 64) * (N // 64):
                    T.clear(acc)
                    for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
                        T.copy(A[by * 64, k * 64], A_shared)
                        T.copy(B[k * 64, bx * 64], B_shared)
                        T.gemm(A_shared, B_shared, acc)
                    for i, j in T.Parallel(64, 64):
                        acc[i, j] = T.max(acc[i, j], 0)
                    T.copy(acc, C_shared)
                    T.copy(C_shared, C[by * 64, bx * 64])

    return main


def persistent_iterator():
    """``T.Persistent``: the compiler deals the tiles of a domain out to the blocks."""

    @T.prim_func
    def main(A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 256), "float16"), C: T.Tensor((256, 256), "float32")):
        with T.Kernel(5, threads=128) as block:
            A_shared = T.alloc_shared((64, 64), "float16")
            B_shared = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            for by, bx in T.Persistent([4, 4], 5, block):
                T.clear(acc)
                T.copy(A[by * 64, 0], A_shared)
                T.copy(B[0, bx * 64], B_shared)
                T.gemm(A_shared, B_shared, acc)
                T.copy(acc, C[by * 64, bx * 64])

    return main


def grouped(groups):
    """Each block finds its group from the row offsets."""
    total = T.dynamic("total")

    @T.prim_func
    def main(
        A: T.Tensor((total, 64), "float16"),
        B: T.Tensor((groups, 64, 64), "float16"),
        offsets: T.Tensor((groups + 1,), "int32"),
        C: T.Tensor((total, 64), "float32"),
    ):
        with T.Kernel(4, groups, threads=128) as (bm, g):
            a = T.alloc_shared((32, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((32, 64), "float32")
            start = offsets[g]
            stop = offsets[g + 1]
            if start + bm * 32 < stop:
                T.copy(A[start + bm * 32, 0], a)
                T.copy(B[g, :, :], b)
                T.gemm(a, b, acc, clear_accum=True)
                for i, j in T.Parallel(32, 64):
                    if start + bm * 32 + i < stop:
                        C[start + bm * 32 + i, j] = acc[i, j]

    return main


def bound(reference, k, eps=2.0**-24):
    """Accumulating k products in float32: k rounding errors of the largest partial sum, generously."""
    return k * eps * np.abs(reference).max() * 4 + 1e-30


@pytest.mark.parametrize("shape", [(64, 64, 64), (100, 70, 90), (1, 64, 33)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_products_of_narrow_floats_are_exact_up_to_float32_accumulation(clean, normal, shape, dtype):
    m, n, k = shape
    a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    got = clean(product(m, n, k, dtype), {"A": a, "B": b})
    assert np.abs(got - expected).max() <= bound(expected, k)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_each_operand_can_be_transposed(clean, normal, transpose_a, transpose_b):
    a, b = normal(96, 64, dtype="float16"), normal(64, 128, dtype="float16")
    inputs = {"A": a.T.copy() if transpose_a else a, "B": b.T.copy() if transpose_b else b}
    got = clean(product(96, 128, 64, transpose_a=transpose_a, transpose_b=transpose_b), inputs)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(got - expected).max() <= bound(expected, 64)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_long_sums_keep_float32_precision(clean, normal, dtype, transpose_b):
    a, b = normal(64, 4096, dtype=dtype), normal(*((64, 4096) if transpose_b else (4096, 64)), dtype=dtype)
    left, right = (round_to_tf32(part) if dtype == "float32" else part for part in (a, b))
    expected = left.astype(np.float64) @ (right.T if transpose_b else right).astype(np.float64)
    found = clean(product(64, 64, 4096, dtype, transpose_b=transpose_b, block=(64, 64, 64)), {"A": a, "B": b})
    assert np.abs(found - expected).max() <= 2**-18 * np.abs(expected).max()


def test_int8_products_accumulate_exactly_in_int32(clean, rng):
    a = rng.integers(-128, 128, (64, 2048)).astype(np.int8)
    b = rng.integers(-128, 128, (2048, 64)).astype(np.int8)
    got = clean(product(64, 64, 2048, "int8", "int32"), {"A": a, "B": b})
    assert np.array_equal(got, a.astype(np.int64) @ b.astype(np.int64))


def test_float32_operands_are_cut_to_tf32(clean, normal):
    a, b = normal(64, 64), normal(64, 64)
    got = clean(product(64, 64, 64, "float32"), {"A": a, "B": b})
    cut = round_to_tf32(a).astype(np.float64) @ round_to_tf32(b).astype(np.float64)
    assert np.abs(got - cut).max() <= bound(cut, 64)
    assert np.abs(got - a.astype(np.float64) @ b.astype(np.float64)).max() > 1e-4


def test_a_float16_accumulator_rounds_at_every_step(clean, normal):
    a, b = normal(64, 128, dtype="float16"), normal(128, 64, dtype="float16")
    got = clean(product(64, 64, 128, accum="float16"), {"A": a, "B": b})
    expected = np.zeros((64, 64), np.float16)
    for k in range(0, 128, 32):
        step = a[:, k : k + 32].astype(np.float32) @ b[k : k + 32].astype(np.float32)
        expected = (expected.astype(np.float32) + step.astype(np.float16).astype(np.float32)).astype(np.float16)
    assert np.abs(got.astype(np.float32) - expected.astype(np.float32)).max() <= 2**-5


def test_clear_accum_starts_the_accumulator_afresh(clean, normal):
    a, b = normal(64, 96, dtype="float16"), normal(96, 64, dtype="float16")
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(clean(clearing(), {"A": a, "B": b}) - expected).max() <= bound(expected, 96)


def test_an_operand_may_lie_in_registers(clean, normal):
    a, b = normal(64, 32, dtype="float16"), normal(32, 64, dtype="float16")
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(clean(register_operand(), {"A": a, "B": b}) - expected).max() <= 2**-11 * np.abs(expected).max()


@pytest.mark.parametrize("splits", [1, 2, 4])
def test_split_k_sums_with_atomics_and_two_kernels(clean, normal, splits):
    a, b = normal(100, 256, dtype="float16"), normal(256, 64, dtype="float16")
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(clean(split_k(100, 64, 256, splits), {"A": a, "B": b}) - expected).max() <= bound(expected, 256)


@pytest.mark.parametrize("rows", [64, 200])
def test_a_persistent_grid_with_relu_covers_every_tile(clean, normal, rows):
    a, b = normal(rows, 192, dtype="bfloat16"), normal(192, 128, dtype="bfloat16")
    expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)
    got = clean(persistent(128, 192, 3), {"A": a, "B": b})
    assert np.abs(got.astype(np.float64) - expected).max() <= 2**-8 * np.abs(expected).max()


def test_the_persistent_iterator_covers_every_tile_once(clean, normal):
    a, b = normal(256, 64, dtype="float16"), normal(64, 256, dtype="float16")
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(clean(persistent_iterator(), {"A": a, "B": b}) - expected).max() <= bound(expected, 64)


def test_a_grouped_product_reads_its_offsets(clean, normal):
    offsets = np.array([0, 10, 10, 75, 100], np.int32)
    a, b = normal(100, 64, dtype="float16"), normal(4, 64, 64, dtype="float16")
    got = clean(grouped(4), {"A": a, "B": b, "offsets": offsets})
    for group in range(4):
        rows = slice(offsets[group], offsets[group + 1])
        expected = a[rows].astype(np.float64) @ b[group].astype(np.float64)
        assert np.abs(got[rows] - expected).max(initial=0) <= 1e-4


@pytest.mark.parametrize("jobs", [2, 3])
def test_the_result_does_not_depend_on_the_number_of_processes(normal, jobs):
    a, b = normal(200, 64, dtype="float16"), normal(64, 200, dtype="float16")
    function = product(200, 200, 64)
    alone, together = run(function, {"A": a, "B": b}), run(function, {"A": a, "B": b}, jobs=jobs)
    assert np.array_equal(alone.outputs["C"], together.outputs["C"])
    assert together.findings == []
