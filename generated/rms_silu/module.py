"""rms_silu as a module, with what is learnt of it as parameters."""

import torch

from .dispatch import rms_silu_dispatch


class RmsSilu(torch.nn.Module):
    """y = silu(x * rstd * gamma), for inputs of any width C: by the kernel where it serves, else by plain torch.

    gamma: parameter, (C,), ones at first
    """

    def __init__(self, C, *, device=None, dtype=None):
        super().__init__()
        self.C = C
        self.gamma = torch.nn.Parameter(torch.ones(C, device=device, dtype=dtype))

    def forward(self, x):
        return rms_silu_dispatch(x, self.gamma)

    def extra_repr(self):
        return f"{self.C}"
