"""rms_norm_wide by the first path that serves a call: the generated kernel, or plain torch."""

import torch

from . import _runtime, kernel
from .api import rms_norm_wide

DTYPES = (torch.float16, torch.bfloat16)
IN_M, IN_C = (kernel.DOMAIN[dim][0] for dim in ("M", "C"))


def rms_norm_wide_dispatch(x, gamma, *, out=None):
    """As rms_norm_wide, by the first path that serves the call: the kernel, else plain torch.

    So it takes any shape, dtype, device and strides, and is differentiable. An address that is no multiple of 16
    bytes is refused as there.
    """
    path, _ = _path(x, gamma, out)
    return path(x, gamma) if out is None else path(x, gamma, out=out)


def explain_dispatch(x, gamma, *, out=None):
    """Which path `rms_norm_wide_dispatch` takes for these arguments, and why, in a sentence."""
    _, why = _path(x, gamma, out)
    M, C = x.shape if x.ndim == 2 else _runtime.flattened(x)
    return _runtime.explained((), why, M=M, C=C)


def _path(x, gamma, out):
    """The function that serves these arguments, and why. The first case that holds; the last holds for all the rest."""
    if not x.is_cuda:
        return rms_norm_wide_eager, "plain torch: `x` is not on a GPU"
    if x.dtype not in DTYPES:
        return rms_norm_wide_eager, "plain torch: the kernel is for float16 and bfloat16"
    M, C = x.shape if x.ndim == 2 else _runtime.flattened(x)
    if _runtime.arch_of(x.get_device()) not in kernel.ARCHES:
        return rms_norm_wide_eager, "plain torch: the kernel is for sm_90a and sm_80"
    if not (IN_M(M) and IN_C(C)):
        return rms_norm_wide_eager, "plain torch: the shape is outside the domain that the tiling was proved for"
    if not (x.is_contiguous() and gamma.is_contiguous() and (out is None or out.is_contiguous())):
        return rms_norm_wide_eager, "plain torch: the kernel wants contiguous tensors"
    return rms_norm_wide, "the generated kernel"


def rms_norm_wide_eager(x, gamma, *, out=None):
    """As rms_norm_wide, by plain torch operations in float32: any width, dtype, device and strides."""
    dtype, shape = x.dtype, x.shape
    x = x.float().reshape(-1, shape[-1])
    gamma = gamma.float()
    rstd = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-05)
    y = x * rstd * gamma
    y = y.to(dtype).view(shape)
    return y if out is None else out.copy_(y)
