"""``T.StridedTensor`` arguments of every kind, each against numpy or torch, and each with a mistake in its kernel."""

import numpy as np
import pytest
import tilelang.language as T

from tests.interp import strided_kernels, strided_view_kernels
from tests.interp.kernel_cases import VALUES, Case, assert_fault_is_seen, assert_lowers, assert_right
from tilegen.interp import InterpretedKernel, InvalidKernelError, UnsupportedError, run

torch = pytest.importorskip("torch")


def wide(array):
    return np.asarray(array).astype(np.float64)


def row_view(normal, rng):
    return {
        "X": normal(37, 80, dtype="float16")[:, 8:56],
        "scale": normal(48),
        "Y": np.zeros((37, 64), np.float16)[:, 16:],
    }


def bmm_views(normal, rng):
    a = torch.from_numpy(normal(3, 100, 96)).to(torch.bfloat16)
    b = torch.from_numpy(normal(64, 3, 32)).to(torch.bfloat16)
    return {"A": a[:, 10:80, :64], "B": b.transpose(0, 1)}


def head_views(normal, rng):
    q, k = normal(2, 80, 3, 32, dtype="float16"), normal(2, 96, 5, 32, dtype="float16")
    return {"Q": q.transpose(0, 2, 1, 3), "K": k[:, 16:, 1:4].transpose(0, 2, 1, 3)}


def parts(normal, rng):
    values = normal(24, 64)
    return {"real": values[:, ::2], "imaginary": values[:, 1::2]}


def packed(normal, rng):
    qkv = normal(37, 100, dtype="float16")
    return {"Q": qkv[:, 0:32], "K": qkv[:, 32:64], "V": qkv[:, 64:96]}


def conv1d(windows, taps):
    signal = np.concatenate([wide(windows[:, 0]), wide(windows[-1, 1:])])
    weights = torch.from_numpy(wide(taps)).T[:, None]
    return torch.nn.functional.conv1d(torch.from_numpy(signal)[None, None], weights)[0].T.numpy()


def histogram(labels, groups):
    counts = np.zeros((4, 8), np.int32)
    np.add.at(counts, (groups, labels), 1)
    return counts


CASES = {
    "scaled_rows": Case(strided_kernels.scaled_rows, row_view, lambda x, scale, y: wide(x) * scale, VALUES),
    "product_of_columns": Case(
        strided_kernels.product_of_columns,
        lambda normal, rng: {"A": normal(64, 120, dtype="float16").T[:100], "B": normal(64, 64, dtype="float16")},
        lambda a, b: wide(a) @ wide(b),
        VALUES,
        tolerance=1e-5,
    ),
    "transposed_result": Case(
        strided_kernels.transposed_result,
        lambda normal, rng: {"X": normal(40, 72)},
        lambda x: x + 1,
        "unwritten-output",
    ),
    "batched_product": Case(
        strided_kernels.batched_product,
        bmm_views,
        lambda a, b: torch.bmm(a.double(), b.double()).numpy(),
        VALUES,
        tolerance=1e-5,
        numbers={"CB": 70 * 32, "CM": 32},
    ),
    "permuted_heads": Case(
        strided_kernels.permuted_heads,
        head_views,
        lambda q, k: np.einsum("bhqd,bhkd->bhqk", wide(q), wide(k)),
        "uninitialised-read",
        tolerance=1e-5,
    ),
    "alternate_columns": Case(
        strided_kernels.alternate_columns, parts, lambda x, y: np.abs(wide(x) + 1j * wide(y)) ** 2, VALUES
    ),
    "repeated_bias": Case(
        strided_kernels.repeated_bias,
        lambda normal, rng: {
            "X": torch.from_numpy(normal(20, 64)),
            "bias": torch.from_numpy(normal(64)).expand(20, 64),
        },
        lambda x, bias: (x + bias).numpy(),
        "out-of-bounds",
    ),
    "sliding_windows": Case(
        strided_view_kernels.sliding_windows,
        lambda normal, rng: {
            "windows": torch.from_numpy(normal(115, dtype="float16")).unfold(0, 16, 1),
            "taps": normal(16, 32, dtype="float16"),
        },
        conv1d,
        "uninitialised-read",
        tolerance=1e-5,
    ),
    "packed_projections": Case(
        strided_view_kernels.packed_projections,
        packed,
        lambda q, k, v: (wide(q) * wide(k)).sum(1, keepdims=True) * wide(v),
        "uninitialised-read",
        tolerance=1e-5,
    ),
    "diagonal": Case(
        strided_view_kernels.diagonal,
        lambda normal, rng: {"X": normal(40, 40).diagonal(), "Y": np.zeros((64, 41), np.float32).diagonal(1)},
        lambda x, y: x * 2,
        "double-write",
    ),
    "block_transpose": Case(
        strided_view_kernels.block_transpose,
        lambda normal, rng: {"X": normal(32, 48).reshape(2, 16, 3, 16).transpose(0, 2, 1, 3)},
        lambda x: x.transpose(1, 0, 3, 2),
        VALUES,
    ),
    "reversed_rows": Case(
        strided_view_kernels.reversed_rows,
        lambda normal, rng: {"X": normal(20, 40)[::-1, :32]},
        lambda x: np.cumsum(wide(x), 0),
        "uninitialised-read",
        tolerance=1e-5,
    ),
    "added_in_place": Case(
        strided_view_kernels.added_in_place,
        lambda normal, rng: {"residual": normal(24, 96)[:, 32:], "X": normal(24, 64)},
        lambda residual, x: residual + x,
        "block-race",
    ),
    "column_histogram": Case(
        strided_view_kernels.column_histogram,
        lambda normal, rng: {
            "labels": rng.integers(0, 8, 100).astype(np.int32),
            "groups": rng.integers(0, 4, 100).astype(np.int32),
            "counts": np.zeros((8, 6), np.int32)[:, :4].T,
        },
        lambda labels, groups, counts: histogram(labels, groups),
        "block-race",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_of_strided_tensors_gives_the_numbers_of_its_reference(normal, rng, name):
    assert_right(CASES[name], normal, rng)


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_in_a_kernel_of_strided_tensors_is_seen(normal, rng, name):
    assert_fault_is_seen(CASES[name], normal, rng)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_tilelang_lowers_the_kernel_of_strided_tensors(name):
    assert_lowers(CASES[name])


def copied(strides):
    """Y = X + 1, Y with the strides that ``strides(M, S)`` gives."""
    M, S = T.dynamic("M, S")

    @T.prim_func
    def main(X: T.Tensor((M, 8), "float32"), Y: T.StridedTensor((M, 8), strides(M, S), "float32")):
        with T.Kernel(M, threads=32) as b:
            for j in T.Parallel(8):
                Y[b, j] = X[b, j] + 1

    return main


def two_views_of_one_stride():
    M, S = T.dynamic("M, S")

    @T.prim_func
    def main(
        X: T.StridedTensor((M, 8), (S, 1), "float32"),
        Z: T.StridedTensor((M, 8), (S, 1), "float32"),
        Y: T.Tensor((M, 8), "float32"),
    ):
        with T.Kernel(M, threads=32) as b:
            for j in T.Parallel(8):
                Y[b, j] = X[b, j] + Z[b, j]

    return main


def stride_in_an_expression():
    M, S = T.dynamic("M, S")

    @T.prim_func
    def main(X: T.StridedTensor((M, 8), (2 * S, 1), "float32"), Y: T.Tensor((M, 8), "float32")):
        with T.Kernel(M, threads=32) as b:
            for j in T.Parallel(8):
                Y[b, j] = X[b, j] * S

    return main


def flattened():
    @T.prim_func
    def main(X: T.StridedTensor((4, 8), (16, 1), "float32"), Y: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32) as _:
            flat = T.reshape(X, (32,))
            for j in T.Parallel(32):
                Y[j] = flat[j]

    return main


@pytest.mark.parametrize(
    ("strides", "inputs", "places"),
    [
        (lambda M, S: (0, 1), {}, r"\(0, 1\) put its 40 elements into 8 places"),
        (lambda M, S: (4, 1), {}, r"\(4, 1\) put its 40 elements into 24 places"),
        (lambda M, S: (S, 1), {"S": 7}, r"\(7, 1\) put its 40 elements into 36 places"),
        (lambda M, S: (S, 1), {"Y": np.broadcast_to(np.zeros(8, np.float32), (5, 8))}, "into 8 places"),
    ],
)
def test_an_output_whose_elements_share_memory_is_refused(normal, strides, inputs, places):
    with pytest.raises(InvalidKernelError, match=f"Y is written, but its strides .*{places}"):
        run(copied(strides), {"X": normal(5, 8), **inputs})


@pytest.mark.parametrize(
    "strides",
    [lambda M, S: (1, M), lambda M, S: (20, 2), lambda M, S: (1, 6), lambda M, S: (-8, 1)],
)
def test_an_output_whose_elements_are_apart_is_taken_in_any_order(normal, strides):
    x = normal(5, 8)
    assert np.array_equal(run(copied(strides), {"X": x}).outputs["Y"], x + 1)


def test_two_arguments_that_disagree_on_a_stride_are_refused(normal):
    views = {"X": normal(5, 24)[:, :8], "Z": normal(5, 16)[:, 8:]}
    with pytest.raises(InvalidKernelError, match="the stride of axis 0 of Z is S = 24, the argument has 16"):
        run(two_views_of_one_stride(), views)
    given = run(two_views_of_one_stride(), {**views, "S": 16})
    assert np.array_equal(given.outputs["Y"], views["X"] + views["Z"])


def test_the_stride_of_one_row_is_free(normal):
    views = {"X": normal(1, 24)[:, :8], "Z": normal(1, 16)[:, 8:]}
    assert np.array_equal(run(two_views_of_one_stride(), views).outputs["Y"], views["X"] + views["Z"])


def test_a_shape_takes_the_stride_that_an_array_gives(normal):
    result = run(two_views_of_one_stride(), {"X": (5, 8), "Z": normal(5, 16)[:, 8:]})
    assert result.dims["S"] == 16


def test_a_stride_that_no_argument_determines_is_asked_for(normal):
    x = normal(5, 16)[:, :8]
    with pytest.raises(InvalidKernelError, match="the kernel uses S, which no argument determines"):
        run(stride_in_an_expression(), {"X": x})
    assert np.array_equal(run(stride_in_an_expression(), {"X": x, "S": 8}).outputs["Y"], x * 8)


def test_a_view_of_a_strided_argument_is_refused(normal):
    with pytest.raises(UnsupportedError, match="flat is a view of X, which is not contiguous"):
        run(flattened(), {"X": normal(4, 16)[:, :8]})


def test_a_strided_torch_output_is_written_in_place(normal):
    x, around = torch.from_numpy(normal(5, 8)), torch.zeros(5, 16)
    InterpretedKernel(copied(lambda M, S: (S, 1)))(x, around[:, 4:12])
    assert torch.equal(around[:, 4:12], x + 1)
    assert around[:, :4].count_nonzero() == around[:, 12:].count_nonzero() == 0
