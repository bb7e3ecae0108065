"""What rms_norm_wide computes, in float64, and how far a correct kernel may be from it."""

import torch

from ._golden import ROUND_OFF, SMALLEST, normal

EPS = 1e-05
FLOAT32 = 2.0**-24  # relative error of rounding to float32 once
APPROXIMATE = 2.0**-21  # of the hardware's rsqrt, exp2 and reciprocal, and of the range that exp2 takes them over


def random_inputs(M, C, dtype, seed=0, device="cpu"):
    """Normal random arguments of rms_norm_wide, the same on every machine."""
    return (
        normal((M, C), dtype, seed).to(device),
        normal((C,), dtype, seed + 1).to(device),
    )


def statistics(x):
    """rstd of each row: 1 / sqrt(mean(x ** 2) + eps)."""
    return (torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS),)


def formula(x, gamma, rstd):
    return x * rstd * gamma


def reference(x, gamma):
    """y in float64, and its tolerance.

    The statistics carry the rounding of a float32 sum over the row and of one hardware approximation. y carries what
    that does to the formula, and the approximations in the formula itself; `rounded` adds the rounding to its dtype.
    """
    x, gamma = (x.double(), gamma.double())
    found = statistics(x)
    y = formula(x, gamma, *found)
    error = FLOAT32 * (x.shape[-1] / 8 + 16) + APPROXIMATE
    tolerance = 4 * APPROXIMATE * y.abs()
    for index, statistic in enumerate(found):
        scale = statistic
        for sign in (1, -1):
            moved = (*found[:index], statistic + sign * error * scale, *found[index + 1 :])
            tolerance = torch.maximum(tolerance, 4 * APPROXIMATE * y.abs() + (formula(x, gamma, *moved) - y).abs())
    return y, tolerance


def rounded(y, tolerance, dtype):
    """The tolerance of y once it is rounded to ``dtype``."""
    return tolerance + ROUND_OFF[dtype] * y.abs() + SMALLEST[dtype]
