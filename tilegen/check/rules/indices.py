"""Index width and dims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilegen.check.rule import Obligation, rule, text_of
from tilegen.expr import at_most, symbol
from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan

INT32_MAX = 2**31 - 1


@rule(
    "H2",
    "dim-int32",
    sentence="every dim fits a 32-bit integer",
    source="tilelang: T.dynamic is int32; the host casts the shape",
    severity=Severity.ERROR,
    today="the host truncates the extent silently; products of dims are promoted to 64 bits by themselves",
)
def dim_int32(plan: TilePlan) -> Iterator[Obligation]:
    for dim in plan.spec.dims:
        yield Obligation(
            at_most(symbol(dim.name), INT32_MAX),
            at=f"dims.{dim.name}.max",
            label=text_of(lambda values, name: f"{name} = {values.get(name)} is over 2^31 - 1", dim.name),
            help=(f"declare a `max` of at most {INT32_MAX} for {dim.name}",),
        )
