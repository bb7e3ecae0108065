"""Shared memory. Neither lowering nor nvcc checks it: the first call fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tilegen.check.claim import text_at, value_at
from tilegen.check.rule import Obligation, rule, text_of
from tilegen.expr import Condition, Size, at_most, free_names, to_text
from tilegen.plan.model import KernelPlan, Loop, LoopKind, Scope
from tilegen.plan.resources import shared_bytes, shared_group, static_shared_bytes
from tilegen.spec.diagnostic import Severity
from tilegen.targets.facts import answer

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan
    from tilegen.targets import Target


@rule(
    "B1",
    "shared-memory-cap",
    sentence="the shared memory of a block fits the chip",
    source="CUDA Programming Guide, table of compute capabilities; tilelang merge_shared_memory_allocations.cc",
    severity=Severity.ERROR,
    today="lowering and nvcc accept it; the first call fails with `Failed to set the allowed dynamic shared memory "
    "size`",
)
def shared_memory_cap(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        dynamic, static = shared_bytes(kernel, plan.target), static_shared_bytes(kernel)
        at, *others = _deciding(kernel)
        yield Obligation(
            answer(plan.target, _fits, dynamic + static),
            at=at,
            label=text_of(lambda values, k: shared_arithmetic(plan, k, values), kernel),
            parameter=at.removeprefix("tile.") if at.startswith("tile.") else None,
            related=tuple(others),
        )


def _fits(chip: Target, needed: Size) -> Condition:
    return at_most(needed, chip.shared_memory.per_block)


def _deciding(kernel: KernelPlan) -> tuple[str, ...]:
    """The spec keys that size the kernel's shared memory, the pipeline's stages first."""
    found: list[str] = []
    staged = [buffer for buffer in kernel.scope(Scope.SHARED) if buffer.stages != 1]
    if staged:
        found.append("tile.stages")
    for buffer in kernel.scope(Scope.SHARED):
        found += [path for path in buffer.decided_by if path not in found]
    return tuple(found) or ("tile",)


def shared_arithmetic(plan: TilePlan, kernel: KernelPlan, values: Mapping[str, int]) -> str:
    cap = plan.target.shared_memory.per_block
    terms = []
    for name in shared_group(kernel, values):
        buffer = kernel.buffer(name)
        shape = " x ".join(text_at(extent, values) for extent in buffer.shape)
        stages = "" if buffer.stages == 1 else f"{text_at(buffer.stages, values)} stages x "
        terms.append(f"{name} {stages}{shape} x {buffer.itemsize} B = {text_at(buffer.nbytes, values)}")
    static = value_at(static_shared_bytes(kernel), values)
    if static != 0:
        terms.append(f"barriers {to_text(static)}")
    total = value_at(shared_bytes(kernel, plan.target), values) + static
    over = "" if not isinstance(total, int) else f", {total - cap} over" if total > cap else f", {cap - total} left"
    return "; ".join(terms) + f"\ntogether {to_text(total)} B; {plan.target.name} gives a block {cap} B{over}"


def is_runtime(plan: TilePlan, loop: Loop) -> bool:
    """Whether the trips of a loop are known only at run time."""
    dynamic = {dim.name for dim in plan.spec.dims if dim.dynamic}
    return loop.runtime_trips or bool(free_names(loop.trips) & dynamic)


@rule(
    "B6",
    "stages-waste",
    sentence="a pipelined loop has at least as many trips as stages",
    source="tilelang src/transform/pipeline_planning.cc: every stage is allocated",
    severity=Severity.SLOW,
    today="TileLang allocates every stage, though the loop never fills them",
)
def stages_waste(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        for loop, _ in kernel.find(Loop):
            if loop.kind is not LoopKind.PIPELINED or is_runtime(plan, loop):
                continue
            yield Obligation(
                at_most(loop.stages, loop.trips),
                at="tile.stages",
                label=text_of(
                    lambda values, loop: (
                        f"{text_at(loop.stages, values)} stages for {to_text(loop.trips)} = "
                        f"{text_at(loop.trips, values)} trips"
                    ),
                    loop,
                ),
                parameter="stages",
                related=loop.decided_by,
            )
