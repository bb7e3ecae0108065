"""Views, reshapes, strides, workspaces and aliasing."""

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import InvalidKernelError, run


def reshaped_tile():
    @T.prim_func
    def main(A: T.Tensor((16, 32), "float32"), B: T.Tensor((8, 64), "float32")):
        with T.Kernel(1, threads=64) as _:
            tile = T.alloc_shared((16, 32), "float32")
            flat = T.reshape(tile, (8, 64))
            T.copy(A, tile)
            T.copy(flat, B)

    return main


def reshaped_argument():
    @T.prim_func
    def main(A: T.Tensor((4, 8, 32), "float32"), B: T.Tensor((32, 32), "float32")):
        with T.Kernel(2, threads=64) as b:
            rows = T.reshape(A, (32, 32))
            tile = T.alloc_shared((16, 32), "float32")
            T.copy(rows[b * 16, 0], tile)
            T.copy(tile, B[b * 16, 0])

    return main


def other_dtype():
    """The bits of a float tile as integers, of the same and of half the width."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "int32"), C: T.Tensor((128,), "uint16")):
        with T.Kernel(1, threads=64) as _:
            tile = T.alloc_shared((64,), "float32")
            bits = T.view(tile, (64,), "int32")
            halves = T.view(tile, (128,), "uint16")
            T.copy(A, tile)
            T.copy(bits, B)
            T.copy(halves, C)

    return main


def strided_rows():
    M, S = T.dynamic("M, S")

    @T.prim_func
    def main(A: T.StridedTensor((M, 32), (S, 1), "float32"), B: T.Tensor((M, 32), "float32")):
        with T.Kernel(T.ceildiv(M, 16), threads=64) as b:
            tile = T.alloc_shared((16, 32), "float32")
            T.copy(A[b * 16, 0], tile)
            T.copy(tile, B[b * 16, 0])

    return main


def stride_as_a_number():
    M, S = T.dynamic("M, S")

    @T.prim_func
    def main(A: T.StridedTensor((M, 8), (S, 1), "float32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32) as _:
            B[0] = S

    return main


def in_place():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                A[i] = A[i] * A[i]

    return main


def two_outputs():
    M = T.dynamic("M")

    @T.prim_func
    def main(A: T.Tensor((M, 16), "float32"), total: T.Tensor((M,), "float32"), most: T.Tensor((M,), "float32")):
        with T.Kernel(M, threads=32) as row:
            tile = T.alloc_fragment((1, 16), "float32")
            out = T.alloc_fragment((1,), "float32")
            T.copy(A[row, 0], tile)
            T.reduce_sum(tile, out, dim=1)
            total[row] = out[0]
            T.reduce_max(tile, out, dim=1)
            most[row] = out[0]

    return main


def indirect():
    """Pages of a cache, by a table of block numbers."""
    pages, length = T.dynamic("pages, length")

    @T.prim_func
    def main(
        cache: T.Tensor((pages, 16, 32), "float16"),
        table: T.Tensor((length,), "int32"),
        B: T.Tensor((length, 16, 32), "float16"),
    ):
        with T.Kernel(length, threads=64) as b:
            tile = T.alloc_shared((16, 32), "float16")
            T.copy(cache[table[b], 0:16, 0:32], tile)
            T.copy(tile, B[b, 0:16, 0:32])

    return main


def test_a_reshaped_tile_shares_its_memory(clean, normal):
    a = normal(16, 32)
    assert np.array_equal(clean(reshaped_tile(), {"A": a}), a.reshape(8, 64))


def test_a_reshaped_argument_shares_its_memory(clean, normal):
    a = normal(4, 8, 32)
    assert np.array_equal(clean(reshaped_argument(), {"A": a}), a.reshape(32, 32))


def test_a_view_of_another_dtype_shows_the_same_bits(clean, normal):
    a = normal(64)
    outputs = clean(other_dtype(), {"A": a})
    assert np.array_equal(outputs["B"], a.view(np.int32))
    assert np.array_equal(outputs["C"], a.view(np.uint16))


@pytest.mark.parametrize("stride", [32, 40, 64])
def test_a_strided_argument_is_read_in_place(clean, normal, stride):
    wide = normal(20, stride)
    assert np.array_equal(clean(strided_rows(), {"A": wide[:, :32]}), wide[:, :32])


def test_a_dynamic_stride_takes_the_value_of_the_argument(clean, normal):
    assert clean(stride_as_a_number(), {"A": normal(5, 24)[:, :8]})[0] == 24


def test_an_argument_that_is_read_and_written_is_an_output(clean, normal):
    a = normal(64)
    before = a.copy()
    assert np.array_equal(clean(in_place(), {"A": a}), before**2)
    assert np.array_equal(a, before)


def test_outputs_take_their_shape_from_the_inputs(clean, normal):
    a = normal(37, 16)
    outputs = clean(two_outputs(), {"A": a})
    assert np.allclose(outputs["total"], a.sum(1), atol=1e-5)
    assert np.array_equal(outputs["most"], a.max(1))


def test_pages_are_found_through_a_table(clean, normal, rng):
    cache, table = normal(10, 16, 32, dtype="float16"), rng.permutation(10)[:6].astype(np.int32)
    assert np.array_equal(clean(indirect(), {"cache": cache, "table": table}), cache[table])


def test_two_arguments_that_disagree_on_a_dimension_are_refused(normal):
    with pytest.raises(InvalidKernelError, match="axis 0 of total is M = 4, the argument has 5"):
        run(two_outputs(), {"A": normal(4, 16), "total": normal(5)})


def too_large_a_view():
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32) as _:
            tile = T.alloc_shared((16,), "float32")
            longer = T.Tensor((32,), "float32", data=tile.data, scope="shared.dyn")
            T.copy(A, tile)
            T.copy(longer, B)

    return main


def reshaped_dynamic_argument():
    M = T.dynamic("M")

    @T.prim_func
    def main(A: T.Tensor((M, 32), "float32"), B: T.Tensor((M * 32,), "float32")):
        with T.Kernel(M, threads=32) as b:
            flat = T.reshape(A, (M * 32,))
            for j in T.Parallel(32):
                B[b * 32 + j] = flat[b * 32 + j]

    return main


def test_a_view_that_is_larger_than_its_memory_is_refused(normal):
    with pytest.raises(InvalidKernelError, match=r"longer, \(32,\) of float32, reaches past tile, which holds 16"):
        run(too_large_a_view(), {"A": normal(16)})


def test_an_argument_that_is_not_contiguous_can_be_reshaped(clean, normal):
    a = normal(5, 64)[:, ::2]
    assert np.array_equal(clean(reshaped_dynamic_argument(), {"A": a}), a.reshape(-1))


def enormous_tile():
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32) as _:
            tile = T.alloc_shared((1 << 20, 1 << 20), "float32")
            T.copy(A, tile[0, 0:16])
            T.copy(tile[0, 0:16], B)

    return main


def test_a_tile_that_no_memory_holds_is_refused(normal):
    with pytest.raises(InvalidKernelError, match=r"no memory for tile, \(1048576, 1048576\) of float32"):
        run(enormous_tile(), {"A": normal(16)})


def optional_argument(used):
    @T.prim_func
    def main(A: T.Tensor((16,), "float16"), Bias: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32) as _:
            for i in T.Parallel(16):
                B[i] = T.cast(A[i], "float32") + Bias[i] if used else T.cast(A[i], "float32")

    return main


def test_none_stands_for_an_argument_that_the_kernel_does_not_use(clean, normal):
    a = normal(16, dtype="float16")
    assert np.array_equal(clean(optional_argument(False), {"A": a, "Bias": None}), a.astype(np.float32))


def test_none_for_an_argument_that_the_kernel_uses_is_refused(normal):
    with pytest.raises(InvalidKernelError, match="Bias is None, and the kernel uses it"):
        run(optional_argument(True), {"A": normal(16, dtype="float16"), "Bias": None})


def test_another_float_of_the_same_width_is_refused(normal):
    with pytest.raises(InvalidKernelError, match="A is float16, the argument is bfloat16"):
        run(optional_argument(False), {"A": normal(16, dtype="bfloat16")})
