"""Pipelined loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilegen.check.claim import text_at
from tilegen.check.rule import Obligation, rule, text_of
from tilegen.expr import at_most, free_names, to_text
from tilegen.plan.model import Loop, LoopKind
from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan


def is_runtime(plan: TilePlan, loop: Loop) -> bool:
    """Whether the trips of a loop are known only at run time."""
    dynamic = {dim.name for dim in plan.spec.dims if dim.dynamic}
    return loop.runtime_trips or bool(free_names(loop.trips) & dynamic)


@rule(
    "E4",
    "cp-async-trips",
    sentence="a loop that cp.async feeds over several stages has a number of trips that is known when it is compiled",
    source="tilelang src/cuda/codegen/codegen_cuda.cc; TileOPs issue 1852; measured on sm_80 and sm_89",
    severity=Severity.ERROR,
    today="TileLang stops with `TypeError: Downcast from tirx.Sub to ir.IntImm failed`",
)
def cp_async_trips(plan: TilePlan) -> Iterator[Obligation]:
    target = plan.target
    if target.kind != "cuda" or target.tma is not None:
        return
    for kernel in plan.kernels:
        for loop, _ in kernel.find(Loop):
            if loop.kind is not LoopKind.PIPELINED:
                continue
            runtime = is_runtime(plan, loop)
            yield Obligation(
                at_most(loop.stages, 1) if runtime else True,
                at="tile.stages",
                label=text_of(
                    lambda values, loop: (
                        f"{text_at(loop.stages, values)} stages over {to_text(loop.trips)} trips, which only a call knows"
                    ),
                    loop,
                ),
                parameter="stages",
                help=(
                    f"give {target.name} its own stages = 1 in [target.{target.name}.tile], or list the values of the dim",
                ),
            )
