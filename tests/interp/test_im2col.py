"""Convolutions as products: ``im2col`` against torch."""

import numpy as np
import pytest
import tilelang.language as T
import torch

from tilegen.interp import UnsupportedError, run


def convolution(images, size, channels, filters, kernel, stride, dilation, padding, columns=16):
    out = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    rows = 32

    @T.prim_func
    def main(
        A: T.Tensor((images, size, size, channels), "float16"),
        B: T.Tensor((kernel * kernel * channels, filters), "float16"),
        C: T.Tensor((images * out * out, filters), "float32"),
    ):
        with T.Kernel(T.ceildiv(images * out * out, rows), threads=128) as b:
            a, w = T.alloc_shared((rows, columns), "float16"), T.alloc_shared((columns, filters), "float16")
            c = T.alloc_fragment((rows, filters), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(kernel * kernel * channels, columns), num_stages=2):
                T.im2col(A, a, b, k, kernel, stride, dilation, padding)
                T.copy(B[k * columns, 0], w)
                T.gemm(a, w, c)
            T.copy(c, C[b * rows, 0])

    return main


# Without padding, where windows overlap, TileLang 0.1.15 is wrong on an H200 from the second row of an output on.
@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "padding"),
    [(3, 1, 1, 1), pytest.param(3, 2, 1, 0, marks=pytest.mark.cpu_only), (3, 1, 2, 2), (1, 1, 1, 0)],
)
def test_a_convolution_agrees_with_torch(clean, normal, kernel, stride, dilation, padding):
    a, b = normal(2, 9, 9, 32, dtype="float16"), normal(kernel, kernel, 32, 16, dtype="float16")
    function = convolution(2, 9, 32, 16, kernel, stride, dilation, padding)
    found = clean(function, {"A": a, "B": b.reshape(-1, 16)})
    image, weights = (torch.from_numpy(part.astype(np.float32)) for part in (a, b))
    expected = torch.conv2d(
        image.permute(0, 3, 1, 2), weights.permute(3, 2, 0, 1), stride=stride, padding=padding, dilation=dilation
    )
    assert np.allclose(found, expected.permute(0, 2, 3, 1).reshape(-1, 16).numpy(), atol=2e-2)


def test_channels_that_no_tile_divides_are_refused():
    with pytest.raises(UnsupportedError, match="24 channels are no multiple of the 16 of a tile"):
        run(convolution(1, 8, 24, 16, 3, 1, 1, 1), {})
