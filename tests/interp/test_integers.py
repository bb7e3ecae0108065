"""Integer arithmetic, bit operations, shifts, reinterpretation and conversions."""

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import run


def integer_kernel(function, dtype="int32", out_dtype=None):
    out_dtype = out_dtype or dtype

    @T.prim_func
    def main(A: T.Tensor((64,), dtype), B: T.Tensor((64,), dtype), C: T.Tensor((64,), out_dtype)):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                C[i] = function(A[i], B[i])

    return main


def unpack_int4():
    """Two signed 4-bit numbers a byte, as weight-only kernels store them."""

    @T.prim_func
    def main(packed: T.Tensor((16, 32), "uint8"), Y: T.Tensor((16, 64), "float16")):
        with T.Kernel(1, threads=128) as _:
            for i, j in T.Parallel(16, 64):
                nibble = (packed[i, j // 2] >> T.cast((j % 2) * 4, "uint8")) & T.uint8(15)
                Y[i, j] = T.cast(nibble, "float16") - T.float16(8)

    return main


def random_numbers():
    """A linear congruential generator: unsigned products wrap."""

    @T.prim_func
    def main(seed: T.Tensor((64,), "uint32"), Y: T.Tensor((64,), "uint32")):
        with T.Kernel(1, threads=64) as _:
            state = T.alloc_fragment((64,), "uint32")
            T.copy(seed, state)
            for _step in T.serial(5):
                for i in T.Parallel(64):
                    state[i] = state[i] * T.uint32(1664525) + T.uint32(1013904223)
            T.copy(state, Y)

    return main


def float_bits():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), bits: T.Tensor((64,), "int32"), back: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                bits[i] = T.reinterpret(A[i], "int32") & T.int32(0x7F800000)
                back[i] = T.reinterpret(T.reinterpret(A[i], "int32") ^ T.int32(-2147483648), "float32")

    return main


def casts(source, target):
    @T.prim_func
    def main(A: T.Tensor((64,), source), B: T.Tensor((64,), target)):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                B[i] = T.cast(A[i], target)

    return main


OPERATIONS = {
    "add": (lambda x, y: x + y, lambda x, y: x + y),
    "multiply": (lambda x, y: x * y, lambda x, y: x * y),
    "floordiv": (lambda x, y: x // (y * y + 1), lambda x, y: x // (y * y + 1)),
    "floormod": (lambda x, y: x % (y * y + 1), lambda x, y: x % (y * y + 1)),
    "truncdiv": (
        lambda x, y: T.truncdiv(x, y * y + 1),
        lambda x, y: np.trunc(x / (y * y + 1.0)).astype(np.int32),
    ),
    "truncmod": (lambda x, y: T.truncmod(x, y * y + 1), lambda x, y: np.fmod(x, y * y + 1)),
    "and": (lambda x, y: x & y, lambda x, y: x & y),
    "or": (lambda x, y: x | y, lambda x, y: x | y),
    "xor": (lambda x, y: x ^ y, lambda x, y: x ^ y),
    "not": (lambda x, y: ~x, lambda x, y: ~x),
    "shift left": (lambda x, y: x << (y & 7), lambda x, y: x << (y & 7)),
    "shift right": (lambda x, y: x >> (y & 7), lambda x, y: x >> (y & 7)),
    "max": (T.max, np.maximum),
    "min": (T.min, np.minimum),
    "abs": (lambda x, y: T.abs(x), lambda x, y: np.abs(x)),
    "compare": (lambda x, y: T.Select(x < y, 1, 0) + T.Select(x == y, 2, 0), lambda x, y: (x < y) + 2 * (x == y)),
    "logic": (
        lambda x, y: T.if_then_else(T.Or(T.And(x > 0, y > 0), T.Not(x > -50)), 1, 0),
        lambda x, y: ((x > 0) & (y > 0) | ~(x > -50)).astype(int),
    ),
    "popcount": (lambda x, y: T.popcount(x), lambda x, y: np.array([bin(int(v) & 0xFFFFFFFF).count("1") for v in x])),
    "clz": (lambda x, y: T.clz(x), lambda x, y: np.array([32 - (int(v) & 0xFFFFFFFF).bit_length() for v in x])),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_integer_operations_agree_with_numpy(clean, rng, name):
    kernel_function, reference = OPERATIONS[name]
    a, b = (rng.integers(-100, 100, 64).astype(np.int32) for _ in range(2))
    assert np.array_equal(clean(integer_kernel(kernel_function), {"A": a, "B": b}), reference(a, b))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_sums_wrap_to_the_width_of_their_dtype(clean, dtype):
    info = np.iinfo(dtype)
    a, b = np.full(64, info.max, dtype), np.full(64, 3, dtype)
    with np.errstate(over="ignore"):
        assert np.array_equal(clean(integer_kernel(lambda x, y: x + y, dtype), {"A": a, "B": b}), a + b)


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "int64"])
def test_right_shifts_follow_the_sign_of_the_dtype(clean, dtype):
    a, b = np.full(64, np.iinfo(dtype).max, dtype), np.full(64, 3, dtype)
    assert np.array_equal(clean(integer_kernel(lambda x, y: x >> y, dtype), {"A": a, "B": b}), a >> b)


def test_packed_nibbles_are_unpacked(clean, rng):
    packed = rng.integers(0, 256, (16, 32)).astype(np.uint8)
    got = clean(unpack_int4(), {"packed": packed})
    expected = np.stack([packed & 15, packed >> 4], axis=-1).reshape(16, 64).astype(np.float16) - 8
    assert np.array_equal(got, expected)


def test_a_congruential_generator_wraps_in_uint32(clean, rng):
    seed = rng.integers(0, 2**32, 64, dtype=np.uint64).astype(np.uint32)
    state = seed.copy()
    for _ in range(5):
        state = state * np.uint32(1664525) + np.uint32(1013904223)
    assert np.array_equal(clean(random_numbers(), {"seed": seed}), state)


def test_floats_are_reinterpreted_bit_for_bit(clean, normal):
    a = normal(64)
    outputs = clean(float_bits(), {"A": a})
    assert np.array_equal(outputs["bits"], a.view(np.int32) & 0x7F800000)
    assert np.array_equal(outputs["back"], -a)


@pytest.mark.parametrize(
    ("source", "target"),
    [("int32", "int8"), ("int64", "int32"), ("int8", "int32"), ("uint8", "int8"), ("int32", "uint8")],
)
def test_integer_casts_keep_the_low_bits(clean, rng, source, target):
    info = np.iinfo(source)
    a = rng.integers(info.min, info.max, 64, dtype=np.int64).astype(source)
    assert np.array_equal(clean(casts(source, target), {"A": a}), a.astype(target))


@pytest.mark.parametrize("target", ["int32", "int64", "uint8"])
def test_float_casts_truncate_toward_zero(clean, target):
    a = np.linspace(0, 250, 64, dtype=np.float32) * (1 if target == "uint8" else -1)
    assert np.array_equal(clean(casts("float32", target), {"A": a}), np.trunc(a).astype(target))


def test_a_float_cast_out_of_range_saturates_and_is_found():
    a = np.array([1e20, -1e20, np.nan, 5.5] * 16, np.float32)
    result = run(casts("float32", "int32"), {"A": a})
    assert result.outputs["B"][:4].tolist() == [2**31 - 1, -(2**31), 0, 5]
    assert [finding.kind for finding in result.findings] == ["float-to-int"]


def test_integers_convert_to_the_nearest_float(clean, rng):
    a = rng.integers(-(2**31), 2**31, 64).astype(np.int32)
    assert np.array_equal(clean(casts("int32", "float32"), {"A": a}), a.astype(np.float32))


def test_bool_tensors_hold_conditions(clean, normal):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), M: T.Tensor((64,), "bool"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            mask = T.alloc_fragment((64,), "bool")
            for i in T.Parallel(64):
                mask[i] = A[i] > 0
            for i in T.Parallel(64):
                B[i] = T.if_then_else(mask[i], A[i], 0.0)
            T.copy(mask, M)

    a = normal(64)
    outputs = clean(main, {"A": a})
    assert np.array_equal(outputs["M"], a > 0)
    assert np.array_equal(outputs["B"], np.maximum(a, 0))
