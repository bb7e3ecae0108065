"""Shape and dtype of a tensor as the generated code declares them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilegen.expr import to_python

if TYPE_CHECKING:
    from tilegen.spec.model import Spec, Tensor


def shape_text(tensor: Tensor) -> str:
    """``(M, K)`` or ``(N,)``."""
    inner = ", ".join(to_python(extent) for extent in tensor.shape)
    return f"({inner},)" if len(tensor.shape) == 1 else f"({inner})"


def dtype_text(spec: Spec, tensor: Tensor, leader: str) -> str:
    """``dtype``, the parameter, for the tensor ``leader`` and those that follow it; else the dtype itself."""
    follows = tensor
    while follows.same_as is not None:
        follows = spec.tensor(follows.same_as)
    return "dtype" if follows.name == leader else f'"{spec.dtypes(tensor.name)[0]}"'
