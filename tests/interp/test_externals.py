"""External functions in Python."""

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import InvalidKernelError, UnsupportedError, external, run


@external("unpack_nibbles")
def unpack_nibbles(packed, numbers, count):
    for i in range(int(count)):
        numbers[i] = (np.asarray(packed[i // 2]) >> 4 * (i % 2)) & 15


@external("larger")
def larger(x, y):
    return np.maximum(x, y)


def unpacking(name="unpack_nibbles", count=8, mode="w"):
    @T.prim_func
    def main(A: T.Tensor((16, 4), "uint8"), B: T.Tensor((16, 8), "float16")):
        with T.Kernel(1, threads=16) as _:
            tx = T.get_thread_binding()
            packed, numbers = T.alloc_local((4,), "uint8"), T.alloc_local((8,), "float16")
            for i in T.serial(4):
                packed[i] = A[tx, i]
            T.call_extern("handle", name, T.access_ptr(packed, "r"), T.access_ptr(numbers, mode), count)
            for i in T.serial(8):
                B[tx, i] = numbers[i]

    return main


def test_a_python_function_stands_for_an_external_one(clean, rng):
    a = rng.integers(0, 256, (16, 4)).astype(np.uint8)
    expected = np.stack([a & 15, a >> 4], axis=-1).reshape(16, 8).astype(np.float16)
    assert np.array_equal(clean(unpacking(), {"A": a}), expected)


def test_what_an_external_function_leaves_unwritten_is_found():
    (found,) = run(unpacking(count=7), {}).errors
    assert (found.kind, found.buffer) == ("uninitialised-read", "numbers")


def test_an_external_function_that_leaves_its_buffer_is_found():
    found = run(unpacking(count=10), {}).errors
    assert [(item.kind, item.buffer) for item in found] == [("out-of-bounds", "packed"), ("out-of-bounds", "numbers")]


def test_an_external_function_stores_through_no_pointer_for_reading():
    with pytest.raises(InvalidKernelError, match="numbers for reading"):
        run(unpacking(mode="r"), {})


def test_an_external_function_without_python_is_refused_with_the_way_out():
    with pytest.raises(UnsupportedError, match=r"tilegen\.interp\.external\('decode'\)"):
        run(unpacking("decode"), {})


def external_value():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                B[i] = T.call_extern("float32", "larger", A[i], T.float32(0)) + T.float32(1)

    return main


def test_an_external_function_gives_a_value(clean, normal):
    a = normal(64)
    assert np.array_equal(clean(external_value(), {"A": a}), np.maximum(a, 0) + 1)


def dot_of_bytes():
    @T.prim_func
    def main(A: T.Tensor((32, 8), "int8"), B: T.Tensor((32, 8), "int8"), C: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32) as _:
            tx = T.get_thread_binding()
            a, b = T.alloc_local((8,), "int8"), T.alloc_local((8,), "int8")
            total = T.alloc_local((1,), "int32")
            total[0] = 0
            for i in T.serial(8):
                a[i] = A[tx, i]
                b[i] = B[tx, i]
            for i in T.serial(2):
                T.call_extern(
                    "handle",
                    "DP4A",
                    T.access_ptr(a[i * 4], "r"),
                    T.access_ptr(b[i * 4], "r"),
                    T.access_ptr(total, "rw"),
                )
            C[tx] = total[0]

    return main


def test_the_dot_product_of_four_bytes_is_known(clean, rng):
    a, b = (rng.integers(-128, 128, (32, 8)).astype(np.int8) for _ in range(2))
    expected = (a.astype(np.int32) * b).sum(1)
    assert np.array_equal(clean(dot_of_bytes(), {"A": a, "B": b}), expected)
