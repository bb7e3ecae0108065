"""What mla_decode computes, in float64, and how far a correct kernel may be from it."""

import torch

from ._golden import ACCUMULATE, ROUND_OFF, SMALLEST, normal

K_STEP = 16  # products that a tensor core adds at once, before the accumulator rounds
APPROXIMATE = 2.0**-22  # relative error of the hardware's exp2 and reciprocal
KEY_BLOCK = 64  # keys between two times that the accumulator is rescaled
DEVIATIONS = 8  # of a sum of independent rounding errors: exceeded once in 10 ** 13


def random_inputs(B, H, S, D_nope, D_rope, dtype, seed=0, device="cpu"):
    """Normal random q_nope, q_pe and kv; made on the CPU they are the same on every machine."""
    shapes = ((B, H, D_nope), (B, H, D_rope), (B, S, D_nope + D_rope))
    if device == "cpu":
        return tuple(normal(shape, dtype, seed + index) for index, shape in enumerate(shapes))
    generator = torch.Generator(device).manual_seed(seed)
    return tuple(torch.randn(shape, generator=generator, dtype=dtype, device=device) for shape in shapes)


def reference(q_nope, q_pe, kv, seq_lens=None, scale=None):
    """(out, its tolerance, lse, its tolerance), all float64. lse is the natural logarithm; no keys give 0 and -inf."""
    D_nope, D_rope = q_nope.shape[-1], q_pe.shape[-1]
    scale = (D_nope + D_rope) ** -0.5 if scale is None else scale
    lengths = [kv.shape[1]] * len(kv) if seq_lens is None else seq_lens.tolist()
    q = torch.cat([q_nope, q_pe], -1).double()
    rows = [one_sequence(q[b], kv[b, :n].double(), D_nope, scale, kv.dtype) for b, n in enumerate(lengths)]
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))


def one_sequence(q, keys, D_nope, scale, dtype):
    """The same for one sequence: q is (H, D_nope + D_rope), keys (n, D_nope + D_rope).

    A score carries the accumulation of its product and the rounding of its exponent; a probability that, exp2 and the
    rounding to dtype before the second product. These last errors are independent, so they add up like deviations.
    """
    n, width = keys.shape
    values = keys[:, :D_nope]
    if n == 0:
        none = q.new_zeros(len(q), D_nope)
        return none, none, q.new_full((len(q),), -torch.inf), q.new_zeros(len(q))
    scores = scale * q @ keys.T
    spread = scale * (q.square() @ keys.square().T).sqrt()
    top = scores.amax(-1, keepdim=True)
    total = (scores - top).exp().sum(-1, keepdim=True)
    p = (scores - top).exp() / total
    out = p @ values

    error = ACCUMULATE * ((width / K_STEP + 8) * (scores.abs() + 4 * spread) + scores.abs() + top.abs()) + APPROXIMATE
    mean_error = (p * error).sum(-1, keepdim=True)
    magnitude = p @ values.abs()
    steps = n / K_STEP + n / KEY_BLOCK + 8
    tolerance = (
        (p * error) @ values.abs()
        + mean_error * out.abs()
        + DEVIATIONS * ROUND_OFF[dtype] * (p.square() @ values.square()).sqrt()
        + SMALLEST[dtype] * values.abs().sum(0) / total
        + (ACCUMULATE * steps + 4 * APPROXIMATE) * magnitude
        + ROUND_OFF[dtype] * out.abs()
        + SMALLEST[dtype]
    )
    lse = (top + total.log()).squeeze(-1)
    lse_tolerance = mean_error.squeeze(-1) + ACCUMULATE * (n / KEY_BLOCK + 16) + 2 * APPROXIMATE * (1 + lse.abs())
    return out, tolerance, lse, lse_tolerance
