"""Kernels as users write them: eager and lazy ``tilelang.jit`` functions run without a compiler or a GPU."""

import numpy as np
import pytest

from tests.interp import eager_kernels, lazy_kernels
from tilegen.interp import run
from tilegen.interp.loading import to_prim_func

torch = pytest.importorskip("torch")


def softmax(x):
    weights = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def wide(x):
    return x.astype(np.float64)


EAGER = {
    "scale": (["X:40x64:float16"], lambda X: wide(X) * 2),
    "add": (["X:1000:float32", "Y:1000:float32"], lambda X, Y: X + Y),
    "matmul": (["A:100x96:float16", "B:96x80:float16"], lambda A, B: wide(A) @ wide(B)),
    "row_sum": (["X:20x128:float32"], lambda X: wide(X).sum(1)),
    "softmax": (["X:10x256:float32"], softmax),
    "transpose": (["X:50x70:float16"], lambda X: X.T),
    "relu": (["X:40x64:float16"], lambda X: np.maximum(X, 0)),
    "strided_copy": (["X:10x40:float32"], lambda X: X),
    "extremes": (["X:10x64:float32"], lambda X: (X.min(1), X.max(1))),
    "swizzled_copy": (["X:100x128:bfloat16"], lambda X: X),
}
LAZY = {
    "double": ({"N": 300}, ["A:300:float16"], lambda A: wide(A) * 2),
    "matmul_nt": ({"N": 80, "K": 128}, ["A:70x128:bfloat16", "B:80x128:bfloat16"], lambda A, B: wide(A) @ wide(B).T),
    "layer_norm": (
        {"N": 256},
        ["X:10x256:float16", "gamma:256:float32"],
        lambda X, gamma: (
            (wide(X) - wide(X).mean(1, keepdims=True)) / np.sqrt(wide(X).var(1, keepdims=True) + 1e-5) * gamma
        ),
    ),
    "cumulative": ({"M": 5, "N": 64}, ["A:5x64:float32"], lambda A: np.cumsum(wide(A), 1)),
    "gelu": ({"N": 64}, ["A:20x64:float32"], lambda A: torch.nn.functional.gelu(torch.from_numpy(wide(A))).numpy()),
    "swiglu": (
        {"N": 64},
        ["A:20x128:float16"],
        lambda A: wide(A[:, :64]) / (1 + np.exp(-wide(A[:, :64]))) * wide(A[:, 64:]),
    ),
    "quantise": (
        {"N": 64},
        ["X:20x64:float32"],
        lambda X: (
            np.rint(X * (np.float32(127) / np.abs(X).max(1, keepdims=True))),
            np.abs(X).max(1) / 127,
        ),
    ),
    "rotate": (
        {"N": 64},
        ["X:20x64:float16", "cos:20x32:float32", "sin:20x32:float32"],
        lambda X, cos, sin: np.hstack(
            [X[:, :32] * wide(cos) - X[:, 32:] * wide(sin), X[:, 32:] * wide(cos) + X[:, :32] * wide(sin)]
        ),
    ),
    "top_one": ({"N": 50}, ["X:100x50:float32"], lambda X: X.argmax(1)),
    "convolve": (
        {"N": 64},
        ["X:40x64:float32", "W:3x64:float32"],
        lambda X, W: sum(np.vstack([np.zeros((w, 64)), X[: 40 - w]]) * W[w] for w in range(3)),
    ),
}


def inputs_of(specifications, normal):
    inputs = {}
    for specification in specifications:
        name, shape, dtype = specification.split(":")
        inputs[name] = normal(*(int(extent) for extent in shape.split("x")), dtype=dtype)
    return inputs


def assert_close(outputs, expected):
    expected = expected if isinstance(expected, tuple) else (expected,)
    for got, reference in zip(outputs.values(), expected, strict=True):
        reference = np.asarray(reference).astype(np.float64)
        scale = max(1e-30, np.abs(reference).max())
        limit = (
            0
            if got.dtype.kind in "iu"
            else {2: 2**-7 if got.dtype.name == "bfloat16" else 2**-10, 4: 1e-5}[got.itemsize]
        )
        assert np.abs(got.astype(np.float64) - reference).max() <= limit * scale


@pytest.mark.parametrize("name", EAGER)
def test_an_eager_kernel_runs_from_its_tensors(normal, name):
    specifications, reference = EAGER[name]
    inputs = inputs_of(specifications, normal)
    result = run(getattr(eager_kernels, name), inputs)
    assert result.errors == []
    assert_close(result.outputs, reference(*inputs.values()))


@pytest.mark.parametrize("name", LAZY)
def test_a_lazy_kernel_runs_from_its_factory_arguments(normal, name):
    arguments, specifications, reference = LAZY[name]
    inputs = inputs_of(specifications, normal)
    result = run(to_prim_func(getattr(lazy_kernels, name), arguments=arguments), inputs)
    assert result.errors == []
    assert_close(result.outputs, reference(*inputs.values()))


def test_torch_tensors_are_taken_as_they_are(normal):
    x = torch.randn(40, 64, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16).reshape(20, 128)
    result = run(eager_kernels.swizzled_copy, {"X": x})
    assert np.array_equal(result.outputs["Y"].astype(np.float32), x.float().numpy())


def test_a_strided_torch_tensor_keeps_its_strides():
    x = torch.randn(10, 80, generator=torch.Generator().manual_seed(0))[:, :40]
    result = run(eager_kernels.strided_copy, {"X": x})
    assert result.dims["S"] == 80
    assert np.array_equal(result.outputs["Y"], x.numpy())
