"""The float32 form that a kernel computes is as near to the formula as the golden tests allow, for every function."""

from __future__ import annotations

import types

import pytest
import torch

from tilegen.expr import formula_to_tilelang, formula_to_torch, parse_formula
from tilegen.expr.formula import FUNCTIONS

UNIT = 2.0**-21
ARGUMENTS = {
    "leaky_relu": "acc, 0.1",
    "softcap": "acc, 5.0",
    "clamp": "acc, -2.0, 3.0",
    "min": "acc, 1",
    "max": "acc, -1",
}
POSITIVE = ("log", "log2", "sqrt", "rsqrt")

SHIM = types.SimpleNamespace(
    **{
        name: getattr(torch, name)
        for name in ("exp", "exp2", "log", "log2", "erf", "tanh", "sqrt", "rsqrt", "abs", "sigmoid")
    },
    max=lambda x, y: torch.maximum(*torch.broadcast_tensors(x, torch.as_tensor(y, dtype=torch.float32))),
    min=lambda x, y: torch.minimum(*torch.broadcast_tensors(x, torch.as_tensor(y, dtype=torch.float32))),
    if_then_else=torch.where,
)


def texts(name: str, **how: object) -> tuple[str, str, str]:
    """What the kernel computes, the formula, and the formula off by the errors of its functions."""
    formula = parse_formula(f"{name}({ARGUMENTS.get(name, 'acc')})", ("acc",))
    exact, off = formula_to_torch(formula, {}), formula_to_torch(formula, {}, error="off", **how)
    return formula_to_tilelang(formula, {}), exact, off


def value(text: str, acc: torch.Tensor, off: float = 0.0) -> torch.Tensor:
    return eval(text, {"T": SHIM, "torch": torch, "acc": acc, "off": off})  # printed by tilegen from a formula above


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_is_within_its_error(name: str) -> None:
    printed, exact, off = texts(name)
    x = torch.linspace(1e-3 if name in POSITIVE else -12, 12, 400_001, dtype=torch.float32)
    wanted = value(exact, x.double())
    error = (value(printed, x).double() - wanted).abs()
    moved = (
        value(exact, x.double() * (1 + 2.0**-23)) - wanted
    ).abs()  # what rounds the argument, as the accumulator is
    allowed = 2 * UNIT * wanted.abs() + moved + (value(off, x.double(), UNIT) - wanted).abs() + 1e-30
    assert (error <= allowed).all(), f"{name}({x[(error / allowed).argmax()]:.6g})"
