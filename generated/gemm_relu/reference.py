"""What gemm_relu computes, in float64, and how far a correct kernel may be from it."""

import torch

from ._golden import ACCUMULATE, ROUND_OFF, SMALLEST, normal

K_STEP = 16  # products that a tensor core adds at once, before the accumulator rounds


def random_inputs(M, N, K, dtype, seed=0, device="cpu", draw=normal):
    """Normal random arguments of gemm_relu, the same on every machine unless `draw` says otherwise."""
    return (
        draw((M, K), dtype, seed).to(device),
        draw((K, N), dtype, seed + 1).to(device),
    )


def reference(a, b):
    """c in float64, and its tolerance: what rounding once to the dtype of c and accumulating in float32 may cost.

    The accumulator rounds K / K_STEP times, each time by at most ACCUMULATE of a partial sum. Partial sums of random
    terms stay below |acc| plus four standard deviations, which the sum of squares bounds.
    """
    dtype = a.dtype
    a, b = (a.double(), b.double())
    acc = a @ b
    spread = (a.square() @ b.square()).sqrt()
    slack = ACCUMULATE * (a.shape[1] / K_STEP + 8) * (acc.abs() + 4 * spread)

    def epilogue(acc):
        return torch.relu(acc)

    c = epilogue(acc)
    moved = torch.maximum((epilogue(acc + slack) - c).abs(), (epilogue(acc - slack) - c).abs())
    return c, moved + ROUND_OFF[dtype] * c.abs() + SMALLEST[dtype] + 2.0**-20 * c.abs()
