"""T.Parallel bodies: math intrinsics in every float format, selects, casts, masks, broadcasting and index forms."""

import ml_dtypes
import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import run

torch = pytest.importorskip("torch")


def unary(function, dtype):
    @T.prim_func
    def main(A: T.Tensor((32, 64), dtype), B: T.Tensor((32, 64), dtype)):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_fragment((32, 64), dtype)
            T.copy(A, a)
            for i, j in T.Parallel(32, 64):
                a[i, j] = function(a[i, j])
            T.copy(a, B)

    return main


def binary(function, dtype):
    @T.prim_func
    def main(A: T.Tensor((32, 64), dtype), B: T.Tensor((32, 64), dtype), C: T.Tensor((32, 64), dtype)):
        with T.Kernel(1, threads=128) as _:
            for i, j in T.Parallel(32, 64):
                C[i, j] = function(A[i, j], B[i, j])

    return main


def bias_activation_residual(rows, columns):
    """A bias by column, a scale by row and a residual; tails by the guard of TileLang."""

    @T.prim_func
    def main(
        X: T.Tensor((rows, columns), "float16"),
        bias: T.Tensor((columns,), "float32"),
        scale: T.Tensor((rows,), "float32"),
        Y: T.Tensor((rows, columns), "float16"),
    ):
        with T.Kernel(T.ceildiv(columns, 64), T.ceildiv(rows, 32), threads=128) as (bx, by):
            for i, j in T.Parallel(32, 64):
                x = X[by * 32 + i, bx * 64 + j].astype("float32")
                y = x * scale[by * 32 + i] + bias[bx * 64 + j]
                Y[by * 32 + i, bx * 64 + j] = T.if_then_else(y > 0, y, y * 0.1) + x

    return main


def with_branches():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                if A[i] > 0:
                    if i % 2 == 0:
                        B[i] = T.sqrt(A[i])
                    else:
                        B[i] = -A[i]
                elif A[i] < -1 and i < 48:
                    B[i] = 1.0
                else:
                    B[i] = 0.0

    return main


def causal_mask():
    @T.prim_func
    def main(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            for i, j in T.Parallel(32, 32):
                a[i, j] = T.if_then_else(i >= j, a[i, j], -T.infinity("float32"))
            T.copy(a, B)

    return main


def transposing_indices():
    @T.prim_func
    def main(A: T.Tensor((16, 32), "float32"), B: T.Tensor((32, 16), "float32"), C: T.Tensor((512,), "float32")):
        with T.Kernel(1, threads=128) as _:
            for i, j in T.Parallel(16, 32):
                B[j, i] = A[i, j]
            for i, j in T.Parallel(16, 32):
                C[i * 32 + j] = A[15 - i, 31 - j]

    return main


def strided_indices():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((32,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32) as _:
            for i in T.Parallel(32):
                B[i] = A[2 * i + 1]
            for i in T.Parallel(64):
                C[i] = A[(i // 8) * 8 + (i % 8 + 3) % 8]

    return main


def diagonal():
    @T.prim_func
    def main(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32) as _:
            for i in T.Parallel(32):
                B[i] = A[i, i] + A[i, 31 - i]

    return main


def gather(rows):
    @T.prim_func
    def main(table: T.Tensor((rows, 64), "float16"), index: T.Tensor((32,), "int32"), Y: T.Tensor((32, 64), "float16")):
        with T.Kernel(1, threads=128) as _:
            for i, j in T.Parallel(32, 64):
                Y[i, j] = table[index[i], j]

    return main


def per_iteration_variable():
    @T.prim_func
    def main(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128) as _:
            for i, j in T.Parallel(32, 32):
                x = T.alloc_var("float32")
                x = A[i, j] * 2
                if j > i:
                    x = x + 1
                B[i, j] = x * x

    return main


def serial_inside_parallel():
    @T.prim_func
    def main(A: T.Tensor((16, 8), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32) as _:
            total = T.alloc_fragment((16,), "float32")
            T.clear(total)
            for i in T.Parallel(16):
                for k in T.serial(8):
                    total[i] = total[i] + A[i, k] * (k + 1)
            T.copy(total, B)

    return main


UNARY = {
    "exp": (T.exp, torch.exp),
    "exp2": (T.exp2, torch.exp2),
    "log": (lambda x: T.log(T.abs(x) + 1), lambda x: torch.log(x.abs() + 1)),
    "log2": (lambda x: T.log2(T.abs(x) + 1), lambda x: torch.log2(x.abs() + 1)),
    "log10": (lambda x: T.log10(T.abs(x) + 1), lambda x: torch.log10(x.abs() + 1)),
    "log1p": (lambda x: T.log1p(T.abs(x)), lambda x: torch.log1p(x.abs())),
    "sqrt": (lambda x: T.sqrt(T.abs(x)), lambda x: torch.sqrt(x.abs())),
    "rsqrt": (lambda x: T.rsqrt(T.abs(x) + 1), lambda x: torch.rsqrt(x.abs() + 1)),
    "sigmoid": (T.sigmoid, torch.sigmoid),
    "tanh": (T.tanh, torch.tanh),
    "erf": (T.erf, torch.erf),
    "sin": (T.sin, torch.sin),
    "cos": (T.cos, torch.cos),
    "tan": (lambda x: T.tan(x * 0.25), lambda x: torch.tan(x * 0.25)),
    "sinh": (T.sinh, torch.sinh),
    "cosh": (T.cosh, torch.cosh),
    "atan": (T.atan, torch.atan),
    "asinh": (T.asinh, torch.asinh),
    "floor": (T.floor, torch.floor),
    "ceil": (T.ceil, torch.ceil),
    "trunc": (T.trunc, torch.trunc),
    "round": (T.round, torch.round),
    "abs": (T.abs, torch.abs),
    "silu": (lambda x: x * T.sigmoid(x), lambda x: x * torch.sigmoid(x)),
    "negate": (lambda x: -x, torch.neg),
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_math_intrinsics_agree_with_torch_in_each_format(clean, normal, name, dtype):
    kernel_function, reference = UNARY[name]
    a = normal(32, 64, dtype=dtype)
    got = clean(unary(kernel_function, dtype), {"A": a}).astype(np.float64)
    expected = reference(torch.from_numpy(a.astype(np.float64))).numpy()
    eps = float(ml_dtypes.finfo(a.dtype).eps)
    # Each of up to three operations rounds once, and log(1 + x) loses what 1 + x rounds away.
    assert np.abs(got - expected).max() <= 3 * eps * max(1.0, np.abs(expected).max())


BINARY = {
    "add": (lambda x, y: x + y, torch.add),
    "subtract": (lambda x, y: x - y, torch.sub),
    "multiply": (lambda x, y: x * y, torch.mul),
    "divide": (lambda x, y: x / (y * y + 1), lambda x, y: x / (y * y + 1)),
    "max": (T.max, torch.maximum),
    "min": (T.min, torch.minimum),
    "pow": (lambda x, y: T.pow(T.abs(x) + 0.5, y), lambda x, y: torch.pow(x.abs() + 0.5, y)),
    "fmod": (lambda x, y: T.fmod(x, y * y + 0.5), lambda x, y: torch.fmod(x, y * y + 0.5)),
    "atan2": (T.atan2, torch.atan2),
    "hypot": (T.hypot, torch.hypot),
    "copysign": (T.copysign, torch.copysign),
    "clamp": (lambda x, y: T.clamp(x, -0.5, 0.5) + y, lambda x, y: x.clamp(-0.5, 0.5) + y),
}


@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_agree_with_torch(clean, normal, name):
    kernel_function, reference = BINARY[name]
    a, b = normal(32, 64), normal(32, 64)
    got = clean(binary(kernel_function, "float32"), {"A": a, "B": b})
    expected = reference(torch.from_numpy(a).double(), torch.from_numpy(b).double()).numpy()
    assert np.abs(got - expected).max() <= 8 * np.finfo(np.float32).eps * np.abs(expected).max()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_arithmetic_rounds_after_every_operation(clean, normal, dtype):
    a, b = normal(32, 64, dtype=dtype), normal(32, 64, dtype=dtype)
    got = clean(binary(lambda x, y: x * y + y, dtype), {"A": a, "B": b})
    product = (a.astype(np.float32) * b.astype(np.float32)).astype(a.dtype)
    expected = (product.astype(np.float32) + b.astype(np.float32)).astype(a.dtype)
    assert np.array_equal(got.astype(np.float32), expected.astype(np.float32))


def test_max_and_min_return_the_number_beside_a_nan():
    a = np.full((32, 64), np.nan, np.float32)
    b = np.full((32, 64), 2.0, np.float32)
    assert (run(binary(T.max, "float32"), {"A": a, "B": b}).outputs["C"] == 2).all()
    assert (run(binary(T.min, "float32"), {"A": b, "B": a}).outputs["C"] == 2).all()


@pytest.mark.parametrize("shape", [(32, 64), (33, 65), (7, 130)])
def test_an_epilogue_with_bias_scale_and_residual_handles_tails(clean, normal, shape):
    x, bias, scale = normal(*shape, dtype="float16"), normal(shape[1]), normal(shape[0])
    got = clean(bias_activation_residual(*shape), {"X": x, "bias": bias, "scale": scale})
    wide = x.astype(np.float32)
    y = wide * scale[:, None] + bias
    expected = (np.where(y > 0, y, y * np.float32(0.1)) + wide).astype(np.float16)
    assert np.abs(got.astype(np.float32) - expected.astype(np.float32)).max() <= 2**-8


def test_branches_inside_a_parallel_loop_are_masks(clean, normal):
    a = normal(64) * 2
    i = np.arange(64)
    expected = np.where(a > 0, np.where(i % 2 == 0, np.sqrt(np.abs(a)), -a), np.where((a < -1) & (i < 48), 1.0, 0.0))
    assert np.array_equal(clean(with_branches(), {"A": a}), expected.astype(np.float32))


def test_minus_infinity_from_a_mask_is_no_finding(clean, normal):
    a = normal(32, 32)
    assert np.array_equal(clean(causal_mask(), {"A": a}), np.where(np.tri(32) > 0, a, -np.inf).astype(np.float32))


def test_indices_may_transpose_reverse_and_flatten(clean, normal):
    a = normal(16, 32)
    outputs = clean(transposing_indices(), {"A": a})
    assert np.array_equal(outputs["B"], a.T)
    assert np.array_equal(outputs["C"], a[::-1, ::-1].reshape(-1))


def test_indices_may_stride_and_rotate(clean, normal):
    a = normal(64)
    outputs = clean(strided_indices(), {"A": a})
    assert np.array_equal(outputs["B"], a[1::2])
    assert np.array_equal(outputs["C"], np.roll(a.reshape(8, 8), -3, axis=1).reshape(-1))


def test_one_loop_variable_may_index_two_axes(clean, normal):
    a = normal(32, 32)
    assert np.array_equal(clean(diagonal(), {"A": a}), np.diag(a) + np.diag(a[:, ::-1]))


def test_rows_are_gathered_through_an_index_tensor(clean, normal, rng):
    table, index = normal(100, 64, dtype="float16"), rng.integers(0, 100, 32).astype(np.int32)
    assert np.array_equal(clean(gather(100), {"table": table, "index": index}), table[index])


def test_a_variable_inside_a_parallel_loop_belongs_to_its_iteration(clean, normal):
    a = normal(32, 32)
    expected = (a * 2 + (np.arange(32)[None] > np.arange(32)[:, None])) ** 2
    assert np.allclose(clean(per_iteration_variable(), {"A": a}), expected, rtol=1e-6)


def test_a_serial_loop_inside_a_parallel_one_accumulates(clean, normal):
    a = normal(16, 8)
    assert np.allclose(clean(serial_inside_parallel(), {"A": a}), (a * np.arange(1, 9)).sum(1), rtol=1e-5, atol=1e-5)


def ieee(mode):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                B[i] = T.ieee_fmaf(T.ieee_mul(A[i], A[i], mode), A[i], T.ieee_fsqrt(T.abs(A[i]), mode), mode)

    return main


def test_ieee_operations_round_to_nearest(clean, normal):
    a = normal(64)
    square = (a * a).astype(np.float64)
    expected = (square * a + np.sqrt(np.abs(a)).astype(np.float64)).astype(np.float32)
    assert np.array_equal(clean(ieee("rn"), {"A": a}), expected)


def fast_math():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                B[i] = T.__exp(A[i]) + T.__sin(A[i]) * T.__cos(A[i]) - T.__log(T.__exp10(T.abs(A[i])))

    return main


def test_fast_intrinsics_are_computed_in_full(clean, normal):
    a = normal(64)
    wide = a.astype(np.float64)
    expected = np.exp(wide) + np.sin(wide) * np.cos(wide) - np.abs(wide) * np.log(10)
    assert np.abs(clean(fast_math(), {"A": a}) - expected).max() <= 1e-5
