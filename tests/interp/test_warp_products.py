"""Products of warps in terms of registers, and float32 arithmetic with a rounding mode."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import UnsupportedError, run

SHORT = {"float16": "fp16", "bfloat16": "bf16", "int8": "int8", "float32": "fp32", "int32": "int32"}


def warp_product(dtype, accumulator, transposed=False, active=32):
    """C = A B^T (or A B, with B loaded transposed) of 16 x 8 x 32 bytes by each of two warps, from shared memory."""
    k = 16 if dtype != "int8" else 32
    count_a, count_b = 16 * k // 32, 8 * k // 32
    step = 8 if dtype != "int8" else 16
    b_shape = (k, 8) if transposed else (8, k)

    @T.prim_func
    def main(A: T.Tensor((2, 16, k), dtype), B: T.Tensor((2, *b_shape), dtype), C: T.Tensor((2, 16, 8), accumulator)):
        with T.Kernel(1, threads=64) as _:
            a_tile, b_tile = T.alloc_shared((2, 16, k), dtype), T.alloc_shared((2, *b_shape), dtype)
            a, b = T.alloc_local((count_a,), dtype), T.alloc_local((count_b,), dtype)
            c = T.alloc_local((4,), accumulator)
            tx = T.get_thread_binding()
            lane, warp = tx % 32, tx // 32
            T.copy(A, a_tile)
            T.copy(B, b_tile)
            T.clear(c)
            T.ptx_ldmatrix(
                T.bool(False),
                4,
                T.access_ptr(a_tile[warp, lane % 16, lane // 16 * step], "r", extent=8),
                T.access_ptr(a[0], "w", extent=8),
            )
            if transposed:
                T.ptx_ldmatrix(
                    T.bool(True), 2, T.access_ptr(b_tile[warp, lane % 16, 0], "r", extent=8), T.access_ptr(b[0], "w")
                )
            else:
                T.ptx_ldmatrix(
                    T.bool(False),
                    2,
                    T.access_ptr(b_tile[warp, lane % 8, lane // 8 % 2 * step], "r", extent=8),
                    T.access_ptr(b[0], "w"),
                )
            if lane < active:
                T.ptx_mma(
                    accumulator,
                    f"m16n8k{k}",
                    "row",
                    "col",
                    SHORT[dtype],
                    SHORT[dtype],
                    SHORT[accumulator],
                    a.data,
                    0,
                    b.data,
                    0,
                    c.data,
                    0,
                    T.bool(False),
                )
            for i in T.serial(4):
                C[warp, lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2] = c[i]

    return main


def operands(rng, dtype, *shape):
    if dtype == "int8":
        return rng.integers(-128, 128, shape).astype(np.int8)
    return rng.standard_normal(shape).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@pytest.mark.parametrize(
    ("dtype", "accumulator"),
    [("float16", "float32"), ("bfloat16", "float32"), ("float16", "float16"), ("int8", "int32")],
)
def test_each_warp_multiplies_what_its_threads_hold(clean, rng, dtype, accumulator):
    k = 32 if dtype == "int8" else 16
    a, b = operands(rng, dtype, 2, 16, k), operands(rng, dtype, 2, 8, k)
    exact = a.astype(np.float64) @ b.astype(np.float64).swapaxes(1, 2)
    found = clean(warp_product(dtype, accumulator), {"A": a, "B": b}).astype(np.float64)
    assert np.allclose(found, exact, rtol=0, atol={"int32": 0, "float32": 1e-5, "float16": 2e-2}[accumulator])


def test_a_matrix_is_loaded_transposed(clean, rng):
    a, b = operands(rng, "float16", 2, 16, 16), operands(rng, "float16", 2, 16, 8)
    found = clean(warp_product("float16", "float32", transposed=True), {"A": a, "B": b})
    assert np.allclose(found, a.astype(np.float32) @ b.astype(np.float32), atol=1e-5)


def test_a_product_by_a_part_of_a_warp_is_refused():
    with pytest.raises(UnsupportedError, match="part of the threads of a warp"):
        run(warp_product("float16", "float32", active=16), {})


def rounded_operations(mode):
    @T.prim_func
    def main(A: T.Tensor((512,), "float32"), B: T.Tensor((512,), "float32"), C: T.Tensor((6, 512), "float32")):
        with T.Kernel(1, threads=128) as _:
            for i in T.Parallel(512):
                C[0, i] = T.ieee_add(A[i], B[i], mode)
                C[1, i] = T.ieee_sub(A[i], B[i], mode)
                C[2, i] = T.ieee_mul(A[i], B[i], mode)
                C[3, i] = T.ieee_fdiv(A[i], B[i], mode)
                C[4, i] = T.ieee_fmaf(A[i], B[i], A[i], mode)
                C[5, i] = T.ieee_fsqrt(T.abs(A[i]), mode)

    return main


def neighbours_of(exact):
    """The float32 at or below an exact number, and the one at or above it."""
    nearest = np.float32(float(exact))
    down = nearest if Fraction(float(nearest)) <= exact else np.nextafter(nearest, np.float32(-np.inf))
    up = nearest if Fraction(float(nearest)) >= exact else np.nextafter(nearest, np.float32(np.inf))
    return float(down), float(up)


def expected_of(exact, mode):
    down, up = neighbours_of(exact)
    return {"rd": down, "ru": up, "rz": down if exact > 0 else up}[mode]


@pytest.mark.parametrize("mode", ["rz", "ru", "rd"])
def test_a_rounding_mode_gives_the_neighbour_of_the_exact_result(clean, rng, mode):
    a = (rng.standard_normal(512) * 10.0 ** rng.integers(-12, 12, 512)).astype(np.float32)
    b = (rng.standard_normal(512) * 10.0 ** rng.integers(-12, 12, 512)).astype(np.float32)
    found = clean(rounded_operations(mode), {"A": a, "B": b})
    for place, (x, y) in enumerate(zip(map(Fraction, a.tolist()), map(Fraction, b.tolist()), strict=True)):
        exact = [x + y, x - y, x * y, x / y, x * y + x]
        assert found[:5, place].tolist() == [expected_of(value, mode) for value in exact]
        root = float(found[5, place])
        above = math.nextafter(root, math.inf) if mode != "ru" else root
        assert Fraction(root) ** 2 <= abs(x) or mode == "ru"
        assert Fraction(above) ** 2 >= abs(x) or mode != "ru"


def to_power_of_two():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float8_e8m0fnu")):
        with T.Kernel(1, threads=32) as _:
            for i in T.Parallel(8):
                B[i] = T.cast(A[i], "float8_e8m0fnu")

    return main


def test_a_float_becomes_the_power_of_two_at_or_above_its_magnitude(clean):
    a = np.array([1, 1.0001, 3, -5, 0, 2.0**-130, 0.75, 2.0**127 * 1.5], dtype=np.float32)
    expected = [1, 2, 4, 8, 2.0**-127, 2.0**-127, 1, 2.0**127]
    assert clean(to_power_of_two(), {"A": a}).astype(np.float64).tolist() == expected


def matching_lanes():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "uint32"), C: T.Tensor((64,), "uint32")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            B[tx] = T.match_any_sync(A[tx])
            C[tx] = T.match_all_sync(A[tx])

    return main


def test_lanes_of_one_value_find_each_other(clean, rng):
    a = np.concatenate([rng.integers(0, 3, 32), np.full(32, 7)]).astype(np.int32)
    outputs = clean(matching_lanes(), {"A": a})
    first = [sum(1 << lane for lane in range(32) if a[lane] == value) for value in a[:32]]
    assert outputs["B"].tolist() == first + [0xFFFFFFFF] * 32
    assert outputs["C"].tolist() == [0] * 32 + [0xFFFFFFFF] * 32
