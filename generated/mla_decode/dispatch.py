"""mla_decode by the first path that serves a call: the generated kernel, or plain torch."""

import torch

from . import _runtime, kernel
from .api import mla_decode

DTYPES = (torch.float16, torch.bfloat16)
IN_B, IN_H, IN_S, IN_D_nope, IN_D_rope = (kernel.DOMAIN[dim][0] for dim in ("B", "H", "S", "D_nope", "D_rope"))


def mla_decode_dispatch(q_nope, q_pe, kv, *, seq_lens=None, scale=None, num_split=None, out=None, return_lse=False):
    """As mla_decode, by the first path that serves the call: the kernel, else plain torch.

    So it takes any shape, dtype, device and strides, and is differentiable. An address that is no multiple of 16
    bytes is refused as there.
    """
    path, _ = _path(q_nope, q_pe, kv, out)
    return path(q_nope, q_pe, kv, seq_lens=seq_lens, scale=scale, num_split=num_split, out=out, return_lse=return_lse)


def explain_dispatch(q_nope, q_pe, kv, *, seq_lens=None, scale=None, num_split=None, out=None, return_lse=False):
    """Which path `mla_decode_dispatch` takes for these arguments, and why, in a sentence."""
    _, why = _path(q_nope, q_pe, kv, out)
    (B, H, D_nope), S, D_rope = q_nope.shape, kv.shape[1], q_pe.shape[2]
    return _runtime.explained((), why, B=B, H=H, S=S, D_nope=D_nope, D_rope=D_rope)


def _path(q_nope, q_pe, kv, out):
    """The function that serves these arguments, and why. The first case that holds; the last holds for all the rest."""
    if not q_nope.is_cuda:
        return mla_decode_eager, "plain torch: `q_nope` is not on a GPU"
    if q_nope.dtype not in DTYPES:
        return mla_decode_eager, "plain torch: the kernel is for float16 and bfloat16"
    if torch.is_grad_enabled() and (q_nope.requires_grad or q_pe.requires_grad or kv.requires_grad):
        return mla_decode_eager, "plain torch: a gradient is wanted, and the kernel has no backward"
    (B, H, D_nope), S, D_rope = q_nope.shape, kv.shape[1], q_pe.shape[2]
    if _runtime.arch_of(q_nope.get_device()) not in kernel.ARCHES:
        return mla_decode_eager, "plain torch: the kernel is for sm_90a and sm_80"
    if not (IN_B(B) and IN_H(H) and IN_S(S) and IN_D_nope(D_nope) and IN_D_rope(D_rope)):
        return mla_decode_eager, "plain torch: the shape is outside the domain that the tiling was proved for"
    if not (
        q_nope.is_contiguous() and q_pe.is_contiguous() and kv.is_contiguous() and (out is None or out.is_contiguous())
    ):
        return mla_decode_eager, "plain torch: the kernel wants contiguous tensors"
    return mla_decode, "the generated kernel"


def mla_decode_eager(q_nope, q_pe, kv, *, seq_lens=None, scale=None, num_split=None, out=None, return_lse=False):
    """As mla_decode, by plain torch operations in float32: any sizes, dtype, device and strides.

    num_split is for the kernel alone. The scores stand in memory, B * H * S floats.
    """
    dtype, D_nope, D_rope, S = q_nope.dtype, q_nope.shape[2], q_pe.shape[2], kv.shape[1]
    scale = (D_nope + D_rope) ** -0.5 if scale is None else scale
    queries, keys = torch.cat([q_nope, q_pe], -1).float(), kv.float()
    if seq_lens is not None:
        # Rows past a length may hold anything, NaN too: they must not even be multiplied by zero.
        past = torch.arange(S, device=kv.device) >= seq_lens[:, None]
        keys = keys.masked_fill(past[:, :, None], 0.0)
    scores = scale * (queries @ keys.transpose(1, 2))
    if seq_lens is not None:
        scores = scores.masked_fill(past[:, None], -torch.inf)
    lse = torch.logsumexp(scores, -1)
    # Without keys lse is -inf; then every weight is exp(-inf) = 0, as it must be, for any finite number in its place.
    weights = torch.exp(scores - lse.nan_to_num(neginf=0.0)[..., None])
    result = (weights @ keys[..., :D_nope]).to(dtype)
    if out is not None:
        result = out.copy_(result)
    return (result, lse) if return_lse else result
