"""Ranges and precision of what is added up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilegen.check.claim import text_at
from tilegen.check.rule import Obligation, rule, text_of
from tilegen.expr import at_most, multiply
from tilegen.plan.model import Gemm, Loop
from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.expr import Size
    from tilegen.plan.model import KernelPlan, TilePlan

INT32_MAX = 2**31 - 1
LARGEST = {"int8": 128, "uint8": 255}
"""Largest magnitude of an integer operand."""

FLOAT16_INTEGERS = 2048
"""Integers up to here are exact in float16: a sum of ones stops growing there."""


def _sums(plan: TilePlan) -> Iterator[tuple[KernelPlan, Gemm, Size, str]]:
    """Every gemm, how many products each of its accumulators adds up, and the spec key of that length."""
    for kernel in plan.kernels:
        for gemm, loops in kernel.find(Gemm):
            reduced = [loop for loop in loops if isinstance(loop, Loop)]
            length = multiply(gemm.k, *(loop.trips for loop in reduced))
            key = "dims.K" if any(dim.name == "K" for dim in plan.spec.dims) else "compute.accum"
            yield kernel, gemm, length, key


@rule(
    "N1",
    "integer-accumulator",
    sentence="a sum of integer products fits the int32 accumulator whatever the operands are",
    source="arithmetic: K products of at most 128 x 128 (int8) or 255 x 255 (uint8)",
    severity=Severity.ERROR,
    today="the sum wraps around, silently",
)
def integer_accumulator(plan: TilePlan) -> Iterator[Obligation]:
    for _, gemm, length, key in _sums(plan):
        if gemm.accum != "int32" or gemm.dtype not in LARGEST:
            continue
        largest = LARGEST[gemm.dtype]
        total = multiply(length, largest * largest)
        yield Obligation(
            at_most(total, INT32_MAX),
            at=key,
            label=text_of(
                lambda values, length, total, gemm, largest: (
                    f"{text_at(length, values)} products of {gemm.dtype} reach {text_at(length, values)} x {largest}^2 = "
                    f"{text_at(total, values)}; int32 holds {INT32_MAX}"
                ),
                length,
                total,
                gemm,
                largest,
            ),
            help=(f"declare K up to {INT32_MAX // (largest * largest)}, or split the reduction",),
        )


@rule(
    "N2",
    "float16-accumulator",
    sentence="a sum that is accumulated in float16 has at most 2048 terms",
    source="IEEE 754: float16 has 11 bits, so 2048 + 1 is 2048",
    severity=Severity.NOTE,
    today="accepted; the last bits of a long sum are lost, and over 65504 it is infinite",
)
def float16_accumulator(plan: TilePlan) -> Iterator[Obligation]:
    for _, gemm, length, _key in _sums(plan):
        if gemm.accum != "float16":
            continue
        yield Obligation(
            at_most(length, FLOAT16_INTEGERS),
            at="compute.accum",
            label=text_of(
                lambda values, length: (
                    f"{text_at(length, values)} products of 1.0 add up to {FLOAT16_INTEGERS} in float16"
                ),
                length,
            ),
            help=('use accum = "float32"',),
        )


FLOAT32_SMALLEST = 1.1754944e-38
"""The smallest normal float32; the special function unit takes less for zero."""


@rule(
    "N3",
    "eps-keeps-finite",
    sentence="the eps of a norm keeps the reciprocal root of a row of zeros finite",
    source="IEEE 754: 0 * inf is NaN; PTX ISA, rsqrt.approx.ftz.f32",
    severity=Severity.NOTE,
    today="accepted; a row of zeros gives NaN",
)
def eps_keeps_finite(plan: TilePlan) -> Iterator[Obligation]:
    norm, eps = (getattr(plan.spec.compute, name, None) for name in ("norm", "eps"))
    if norm not in ("rms", "layer", "l2") or eps is None:
        return
    yield Obligation(
        eps >= FLOAT32_SMALLEST,
        at="compute.eps",
        label=f"eps is {eps:g}: a row of zeros has 1 / sqrt(0 + {eps:g}) = inf, and 0 * inf is NaN",
        help=("use eps = 1e-6 or more",),
    )
