"""Vector values, wide loads and stores, views of registers."""

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import InvalidKernelError, UnsupportedError, run


def four_at_a_time(other="global"):
    """Rows of a buffer moved four elements at a time, doubled, and turned to another format."""

    @T.prim_func
    def main(A: T.Tensor((16, 32), "float32"), B: T.Tensor((16, 32), "float16")):
        with T.Kernel(2, threads=16) as b:
            tx = T.get_thread_binding()
            row = T.alloc_shared((16, 32), "float32") if other == "shared" else T.alloc_local((16, 32), "float32")
            for i in T.serial(4):
                start = b * 16 + i * 4
                row[tx, start : start + 4] = A[tx, start : start + 4] * T.float32(2)
                B[tx, start : start + 4] = T.cast(row[tx, start : start + 4], "float16x4")

    return main


@pytest.mark.parametrize("memory", ["shared", "local"])
def test_a_slice_is_a_vector_of_its_elements(clean, normal, memory):
    a = normal(16, 32)
    assert np.array_equal(clean(four_at_a_time(memory), {"A": a}), (2 * a).astype(np.float16))


def wide(bits, predicate=False):
    """Loads and stores of ``bits`` bits, the predicate true for half of the blocks."""
    count = bits // 32
    size = 16 * count

    @T.prim_func
    def main(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
        with T.Kernel(16, threads=32) as b:
            load, store = getattr(T, f"ldg{bits}"), getattr(T, f"stg{bits}")
            start, stop = b * count, b * count + count
            if T.get_thread_binding() == 0:
                if predicate:
                    value = load(A[start:stop] if count > 1 else A[start], b < 8)
                    store(B[start:stop] if count > 1 else B[start], value, b != 3)
                else:
                    value = load(A[start:stop] if count > 1 else A[start])
                    store(B[start:stop] if count > 1 else B[start], value)

    return main


@pytest.mark.parametrize("bits", [32, 64, 128, 256])
def test_wide_accesses_move_the_bits(clean, normal, bits):
    a = normal(16 * bits // 32)
    assert np.array_equal(clean(wide(bits), {"A": a}), a)


@pytest.mark.parametrize("bits", [32, 128])
def test_a_wide_load_gives_zeros_and_a_wide_store_nothing_where_its_predicate_fails(normal, bits):
    count = bits // 32
    a = normal(16 * count)
    result = run(wide(bits, predicate=True), {"A": a, "B": np.full_like(a, 7)})
    expected = a.copy().reshape(16, count)
    expected[8:], expected[3] = 0, 7
    assert result.findings == []
    assert np.array_equal(result.outputs["B"], expected.reshape(-1))


def register_bits(dtype, count):
    """The bits of each thread's own numbers under another dtype."""

    @T.prim_func
    def main(A: T.Tensor((64, 4), "float32"), B: T.Tensor((64, count), dtype)):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            own = T.alloc_local((4,), "float32")
            bits = T.view(own, (count,), dtype)
            for i in T.serial(4):
                own[i] = A[tx, i]
            for i in T.serial(count):
                B[tx, i] = bits[i]

    return main


@pytest.mark.parametrize(("dtype", "count"), [("int32", 4), ("uint16", 8), ("uint8", 16)])
def test_a_view_of_registers_shows_their_bits(clean, normal, dtype, count):
    a = normal(64, 4)
    assert np.array_equal(clean(register_bits(dtype, count), {"A": a}), a.view(dtype))


def reshaped_registers(rows):
    @T.prim_func
    def main(A: T.Tensor((64, 4), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            own = T.alloc_local((2, 2), "float32")
            flat = T.reshape(own, (4,))
            for i in T.serial(rows):
                for j in T.serial(2):
                    own[i, j] = A[tx, i * 2 + j]
            B[tx] = flat[0] + flat[3]

    return main


def test_a_reshape_of_registers_keeps_track_of_what_is_written(clean, normal):
    a = normal(64, 4)
    assert np.array_equal(clean(reshaped_registers(2), {"A": a}), a[:, 0] + a[:, 3])
    (found,) = [item for item in run(reshaped_registers(1), {"A": a}).errors if item.kind == "uninitialised-read"]
    assert found.buffer == "flat"


def bits_of_a_vector():
    @T.prim_func
    def main(A: T.Tensor((8, 4), "uint8"), B: T.Tensor((8,), "uint32"), C: T.Tensor((8, 2), "float16")):
        with T.Kernel(1, threads=8) as _:
            tx = T.get_thread_binding()
            B[tx] = T.reinterpret(A[tx, 0:4], "uint32")
            C[tx, 0:2] = T.reinterpret(B[tx], "float16x2")

    return main


def test_a_vector_is_reinterpreted_as_a_number_and_back(clean):
    a = np.arange(32, dtype=np.uint8).reshape(8, 4)
    outputs = clean(bits_of_a_vector(), {"A": a})
    assert np.array_equal(outputs["B"], a.view(np.uint32)[:, 0])
    assert np.array_equal(outputs["C"], a.view(np.float16))


def named_part():
    """A slice with a name is no value: tile operations take it as a region."""

    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16"), B: T.Tensor((64, 32), "float16")):
        with T.Kernel(1, threads=64) as _:
            tile = T.alloc_shared((64, 32), "float16")
            T.clear(tile)
            part = tile[:32, :16]
            T.copy(A[0:32, 0:16], part)
            T.copy(tile, B)

    return main


def test_a_slice_with_a_name_is_a_region(clean, normal):
    a = normal(64, 32, dtype="float16")
    expected = np.zeros_like(a)
    expected[:32, :16] = a[:32, :16]
    assert np.array_equal(clean(named_part(), {"A": a}), expected)


def packed(dtype, view=False):
    @T.prim_func
    def main(A: T.Tensor((32, 64), dtype), B: T.Tensor((32, 64), "float32"), C: T.Tensor((32, 64), dtype)):
        with T.Kernel(1, threads=64) as _:
            tile = T.alloc_shared((32, 64), dtype)
            T.copy(A, tile)
            T.copy(tile, C)
            if view:
                halves = T.view(tile, (32, 32), "uint8")
                B[0, 0] = T.cast(halves[0, 0], "float32")
            for i, j in T.Parallel(32, 64):
                B[i, j] = T.cast(tile[i, j], "float32")

    return main


@pytest.mark.parametrize("dtype", ["float4_e2m1fn", "int4"])
def test_two_elements_of_four_bits_come_from_one_byte(clean, rng, dtype):
    grid = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
    values = np.array(grid if dtype != "int4" else [*range(8), *range(-8, 0)], dtype=np.float32)
    codes = rng.integers(0, 16, (32, 64)).astype(np.uint8)
    data = (codes[:, 0::2] | codes[:, 1::2] << 4).view(np.int8)
    outputs = clean(packed(dtype), {"A": data})
    assert np.array_equal(outputs["B"], values[codes])
    assert np.array_equal(outputs["C"].astype(np.float32), values[codes])


def test_bytes_of_packed_memory_are_refused():
    with pytest.raises(UnsupportedError, match="two elements"):
        run(packed("float4_e2m1fn", view=True), {})


def int4_product():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "int4"), B: T.Tensor((64, 64), "int4"), C: T.Tensor((64, 64), "int32")):
        with T.Kernel(1, threads=128) as _:
            a, b = T.alloc_shared((64, 64), "int4"), T.alloc_shared((64, 64), "int4")
            c = T.alloc_fragment((64, 64), "int32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    return main


def test_a_product_takes_four_bit_integers(clean, rng):
    a, b = (rng.integers(-8, 8, (64, 64)) for _ in range(2))
    packed_a, packed_b = (((x[:, 0::2] & 15) | (x[:, 1::2] & 15) << 4).astype(np.uint8) for x in (a, b))
    assert np.array_equal(clean(int4_product(), {"A": packed_a, "B": packed_b}), (a @ b.T).astype(np.int32))


def linear_shape():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n * 4 + 1,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32) as _:
            for i in T.serial(n):
                B[i] = A[i * 4] + A[n * 4]

    return main


def test_a_dimension_is_taken_from_an_extent_that_is_linear_in_it(clean, normal):
    a = normal(21)
    assert np.array_equal(clean(linear_shape(), {"A": a}), a[0:20:4] + a[20])


def test_an_extent_that_no_dimension_gives_is_refused(normal):
    with pytest.raises(InvalidKernelError, match="no n gives that"):
        run(linear_shape(), {"A": normal(20)})
