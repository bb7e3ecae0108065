"""rms_norm_wide as a module, with what is learnt of it as parameters."""

import torch

from .dispatch import rms_norm_wide_dispatch


class RmsNormWide(torch.nn.Module):
    """y = x * rstd * gamma, for inputs of any width C: by the kernel where it serves, else by plain torch.

    gamma: parameter, (C,), ones at first
    """

    def __init__(self, C, *, device=None, dtype=None):
        super().__init__()
        self.C = C
        self.gamma = torch.nn.Parameter(torch.ones(C, device=device, dtype=dtype))

    def forward(self, x):
        return rms_norm_wide_dispatch(x, self.gamma)

    def extra_repr(self):
        return f"{self.C}"
