"""gemm_relu by the first path that serves a call: the generated kernel, or plain torch."""

import torch

from . import _runtime, kernel
from .api import gemm_relu

DTYPES = (torch.float16, torch.bfloat16)
IN_M, IN_N, IN_K = (kernel.DOMAIN[dim][0] for dim in ("M", "N", "K"))


def gemm_relu_dispatch(a, b, *, out=None):
    """As gemm_relu, by the first path that serves the call: the kernel, else plain torch.

    So it takes any shape, dtype, device and strides, and is differentiable. An address that is no multiple of 16
    bytes is refused as there.
    """
    path, _ = _path(a, b, out)
    return path(a, b) if out is None else path(a, b, out=out)


def explain_dispatch(a, b, *, out=None):
    """Which path `gemm_relu_dispatch` takes for these arguments, and why, in a sentence."""
    _, why = _path(a, b, out)
    (M, K), N = a.shape if a.ndim == 2 else _runtime.flattened(a), b.shape[1]
    return _runtime.explained((), why, M=M, N=N, K=K)


def _path(a, b, out):
    """The function that serves these arguments, and why. The first case that holds; the last holds for all the rest."""
    if not a.is_cuda:
        return gemm_relu_eager, "plain torch: `a` is not on a GPU"
    if a.dtype not in DTYPES:
        return gemm_relu_eager, "plain torch: the kernel is for float16 and bfloat16"
    (M, K), N = a.shape if a.ndim == 2 else _runtime.flattened(a), b.shape[1]
    if _runtime.arch_of(a.get_device()) not in kernel.ARCHES:
        return gemm_relu_eager, "plain torch: the kernel is for sm_90a and sm_80"
    if not (IN_M(M) and IN_N(N) and IN_K(K)):
        return gemm_relu_eager, "plain torch: the shape is outside the domain that the tiling was proved for"
    if not (a.is_contiguous() and b.is_contiguous() and (out is None or out.is_contiguous())):
        return gemm_relu_eager, "plain torch: the kernel wants contiguous tensors"
    return gemm_relu, "the generated kernel"


def gemm_relu_eager(a, b, *, out=None):
    """As gemm_relu, by plain torch operations: any size, dtype, device and strides.

    On a GPU the product of half-precision operands is torch's own, so it is rounded before the formula; elsewhere it
    is of float32.
    """
    rows = a.shape[:-1]
    dtype = a.dtype
    a = a.reshape(-1, a.shape[-1])
    if not a.is_cuda or a.dtype not in (torch.float16, torch.bfloat16):
        a, b = a.float(), b.float()
    acc = (a @ b).float()
    c = torch.relu(acc)
    c = c.to(dtype).view(*rows, acc.shape[1])
    return c if out is None else out.copy_(c)
