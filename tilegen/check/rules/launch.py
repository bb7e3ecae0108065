"""Grid and threads. Neither TileLang nor nvcc checks most of these: the launch fails, or the numbers do."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from tilegen.check.claim import text_at
from tilegen.check.rule import Obligation, rule, text_of
from tilegen.check.rules.indices import INT32_MAX
from tilegen.expr import Size, all_of, at_least, at_most, divides, evaluate, free_names, to_text
from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan

AXES = "xyz"


@rule(
    "A2",
    "threads-1024",
    sentence="a block has at most 1024 threads, the producer warp group included",
    source="CUDA Programming Guide, table of compute capabilities; tilelang producer_consumer_ws.cc",
    severity=Severity.ERROR,
    today="TileLang and nvcc accept it; the first launch fails with CUDA_ERROR_INVALID_VALUE",
)
def threads_per_block(plan: TilePlan) -> Iterator[Obligation]:
    limit = plan.target.launch.max_threads_per_block
    for kernel in plan.kernels:
        launch = kernel.launch
        yield Obligation(
            at_most(launch.block_threads, limit),
            at="tile.threads",
            label=text_of(
                lambda values, launch: (
                    f"{text_at(launch.threads, values)} threads + {to_text(launch.producer_threads)} of the "
                    f"producer warp group = {text_at(launch.block_threads, values)}, the block limit is {limit}"
                ),
                launch,
            ),
            parameter="threads",
        )


@rule(
    "A3",
    "threads-whole-warps",
    sentence="threads are a whole number of warps",
    source="tilelang src/cuda/op/gemm.cc: block_size / warp_size",
    severity=Severity.ERROR,
    today="TileLang rounds down: a gemm of 48 threads runs as one warp and spills",
)
def whole_warps(plan: TilePlan) -> Iterator[Obligation]:
    warp = plan.target.launch.warp_size
    for kernel in plan.kernels:
        threads = kernel.launch.threads
        yield Obligation(
            divides(warp, threads),
            at="tile.threads",
            label=text_of(
                lambda values, t: f"{text_at(t, values)} threads are not a multiple of the {warp} threads of a warp",
                threads,
            ),
            parameter="threads",
        )


@rule(
    "A4",
    "warp-specialised-warp-groups",
    sentence="the consumers of a warp-specialised block are whole warp groups",
    source="PTX ISA, setmaxnreg: every warp of a warp group executes the same setmaxnreg",
    severity=Severity.ERROR,
    today="TileLang emits warpgroup_reg_alloc for a partial warp group without a word; PTX leaves that undefined, though right "
    "values were seen on an H200",
    unless=("A3",),
)
def whole_warp_groups(plan: TilePlan) -> Iterator[Obligation]:
    specialised = [kernel.launch for kernel in plan.kernels if kernel.launch.producer_threads]
    for launch in specialised:
        group = plan.target.launch.warp_group_size
        if not group:
            continue
        yield Obligation(
            divides(group, launch.threads),
            at="tile.threads",
            label=text_of(
                lambda values, t, group: (
                    f"{text_at(t, values)} consumer threads are no multiple of the {group} of a warp group"
                ),
                launch.threads,
                group,
            ),
            parameter="threads",
        )


@rule(
    "A5",
    "grid-limits",
    sentence="every grid extent is at least 1 and within the chip's limit for its axis",
    source="CUDA Programming Guide, table of compute capabilities",
    severity=Severity.ERROR,
    today="TileLang and nvcc accept it; the launch fails with CUDA_ERROR_INVALID_VALUE",
)
def grid_limits(plan: TilePlan) -> Iterator[Obligation]:
    for kernel in plan.kernels:
        for axis, (extent, limit) in enumerate(zip(kernel.launch.grid, plan.target.launch.max_grid, strict=False)):
            where = kernel.launch.at(axis)
            yield Obligation(
                all_of(at_least(extent, 1), at_most(extent, limit)),
                at=f"{where}.max" if where.startswith("dims.") else where,
                label=text_of(
                    lambda values, e, a, limit: (
                        f"grid.{a} = {to_text(e)} = {text_at(e, values)}, allowed are 1 to {limit}"
                    ),
                    extent,
                    AXES[axis],
                    limit,
                ),
                help=partial(_largest, extent, limit),
            )


def _largest(extent: Size, limit: int) -> tuple[str, ...]:
    """The help of a grid axis that one dim sizes: how large the dim may be."""
    names = free_names(extent)
    if len(names) != 1:
        return ()
    (name,) = names
    most = bisect_right(range(1, INT32_MAX), limit, key=lambda size: evaluate(extent, {name: size}))
    return (f"the grid holds {name} up to {most}: declare max = {most}",) if most else ()
