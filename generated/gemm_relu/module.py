"""gemm_relu as a linear layer, with its weight as parameters."""

import torch

from .dispatch import gemm_relu_dispatch


class GemmRelu(torch.nn.Module):
    """c = relu(acc), acc = a @ weight: by the kernel where it serves, else by plain torch.

    weight: parameter, (K, N), uniform at first, as torch.nn.Linear has it
    """

    def __init__(self, K, N, *, device=None, dtype=None):
        super().__init__()
        self.K, self.N = K, N
        weight = torch.empty(K, N, device=device, dtype=dtype)
        self.weight = torch.nn.Parameter(weight.uniform_(-(K**-0.5), K**-0.5))

    def forward(self, a):
        return gemm_relu_dispatch(a, self.weight)

    def extra_repr(self):
        return f"{self.K}, {self.N}"
