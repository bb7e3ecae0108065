"""Ranges and precision of what is added up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tilegen.check.claim import pointwise, text_at
from tilegen.check.rule import Obligation, rule, text_of
from tilegen.expr import at_most, free_names, multiply, symbol
from tilegen.plan.model import Gemm
from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan

INT32_MAX = 2**31 - 1
LARGEST = {"int8": 128, "uint8": 255}
"""Largest magnitude of an integer operand."""

FLOAT16_INTEGERS = 2048
"""Integers up to here are exact in float16: a sum of ones stops growing there."""


def _sums(plan: TilePlan) -> Iterator[Gemm]:
    """Every gemm whose accumulators add up K products: the zeros that fill a tile past the end of K add nothing."""
    if plan.spec.has("dims.K"):
        yield from (gemm for kernel in plan.kernels for gemm, _ in kernel.find(Gemm))


@rule(
    "N1",
    "integer-accumulator",
    sentence="a sum of integer products fits the int32 accumulator whatever the operands are",
    source="arithmetic: K products of at most 128 x 128 (int8) or 255 x 255 (uint8)",
    severity=Severity.ERROR,
    today="the sum wraps around, silently",
)
def integer_accumulator(plan: TilePlan) -> Iterator[Obligation]:
    for gemm in _sums(plan):
        if gemm.accum != "int32" or gemm.dtype not in LARGEST:
            continue
        largest = LARGEST[gemm.dtype]
        most = INT32_MAX // (largest * largest)
        yield Obligation(
            at_most(symbol("K"), most),
            at="dims.K",
            label=text_of(
                lambda values, gemm, largest: (
                    f"{text_at(symbol('K'), values)} products of {gemm.dtype} reach {text_at(symbol('K'), values)} x "
                    f"{largest}^2 = {text_at(multiply(symbol('K'), largest * largest), values)}; int32 holds {INT32_MAX}"
                ),
                gemm,
                largest,
            ),
            help=(f"declare K up to {most}, or split the reduction",),
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
    for gemm in _sums(plan):
        if gemm.accum != "float16":
            continue
        yield Obligation(
            at_most(symbol("K"), FLOAT16_INTEGERS),
            at="compute.accum",
            label=lambda values: (
                f"{text_at(symbol('K'), values)} products of 1.0 add up to {FLOAT16_INTEGERS} in float16"
            ),
            help=('use accum = "float32"',),
        )


SMALLEST = {"float64": 2.2250738585072014e-308, "float16": 2.0**-24}
"""What an accumulator takes for more than zero. Else that of float32: the special function unit flushes what is below its
smallest normal number."""
FLOAT32_SMALLEST = 1.1754943508222875e-38


@rule(
    "N3",
    "eps-keeps-finite",
    sentence="the eps of a norm keeps the reciprocal root of a row of zeros finite",
    source="IEEE 754: 0 * inf is NaN; PTX ISA, rsqrt.approx.ftz.f32",
    severity=Severity.NOTE,
    today="accepted; a row of zeros gives NaN",
)
def eps_keeps_finite(plan: TilePlan) -> Iterator[Obligation]:
    compute: Any = plan.spec.compute
    if getattr(compute, "norm", None) not in ("rms", "layer", "l2"):
        return
    eps, accum = compute.eps, compute.accum
    smallest = SMALLEST.get(accum, FLOAT32_SMALLEST)
    yield Obligation(
        eps >= smallest,
        at="compute.eps",
        label=f"eps is {eps:g}, which is 0 in {accum} (below {smallest:.3g}): a row of zeros has 1 / sqrt(0) = inf, and "
        "0 * inf is NaN",
        help=("use eps = 1e-6 or more",),
    )


@rule(
    "N4",
    "score-scale-positive",
    sentence="the scale that is folded into exp2 is positive",
    source="the running maximum is taken before the scale: max(s) * scale is the maximum of s * scale only if scale > 0",
    severity=Severity.ERROR,
    today="accepted; a negative scale overflows exp2, and 0 times the -inf of a masked key is NaN",
)
def score_scale(plan: TilePlan) -> Iterator[Obligation]:
    from tilegen.expr import ExprError, evaluate_formula

    scale = getattr(plan.spec.compute, "scale", None)
    if scale is None:
        return
    names = tuple(dim.name for dim in plan.spec.dims if dim.name in free_names(scale.expr))

    def value(*sizes: int) -> float:
        try:
            return float(evaluate_formula(scale.expr, dict(zip(names, sizes, strict=True))))
        except ExprError:
            return math.nan

    def positive(*sizes: int) -> bool:
        return 0 < value(*sizes) < math.inf

    yield Obligation(
        pointwise(positive, *map(symbol, names)),
        at="compute.scale",
        label=lambda values: f"scale = {scale.text} = {value(*(values[name] for name in names)):g}",
        help=("store the queries with the other sign, and use a positive scale",),
    )


LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "float8_e4m3fn": (-448, 448), "float8_e5m2": (-57_344, 57_344)}
"""Least and greatest finite value of the 8-bit dtypes."""


@rule(
    "N5",
    "eight-bit-output-range",
    sentence="what is stored in 8 bits is in the range of the dtype whatever the inputs are",
    source="OCP 8-bit floating point specification; C: a float outside of an integer's range has no value as one",
    severity=Severity.NOTE,
    today="accepted; a value beyond the range saturates or wraps around, as the conversion of the chip has it",
)
def eight_bit_output(plan: TilePlan) -> Iterator[Obligation]:
    from tilegen.expr.formula_bounds import formula_bounds

    for tensor in plan.spec.tensors:
        formula = getattr(plan.spec.compute, tensor.role or "", None)
        dtype = plan.dtypes[tensor.name]
        if not tensor.output or formula is None or dtype not in LIMITS:
            continue
        (low, high), (least, greatest) = formula_bounds(formula.expr), LIMITS[dtype]
        yield Obligation(
            least <= low and high <= greatest,
            at=f"compute.{tensor.role}",
            label=f"{tensor.name} = {formula.text} may be {low:g} to {high:g}; {dtype} holds {least} to {greatest}",
            help=(f"write clamp(..., {least}, {greatest})",),
        )
