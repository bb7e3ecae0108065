"""What becomes of a `T.Pipelined` loop: warp specialisation, threads, registers, copies.

Rule. On a chip with TMA a loop with at least one stage in which at least one load is fit for TMA is warp-specialised:
producers are added in front of the block to issue the loads, the threads asked for become its consumers, buffers get
one version a stage and mbarriers hand them over. Only the first such loop of a kernel is. The producers are one warp
group if every load is a TMA load, and then registers are reallocated, if the warp groups stand in the table of the
chip; they are as many threads as the consumers if one load is not, and nothing is reallocated. Otherwise the loop is
pipelined by `cp.async` where the chip has it, and run as written where it has not.

Warp specialisation happens with one stage too, and whatever the number of threads: a block that is no whole number of
warp groups reallocates registers in part of one.

Source: tilelang src/cuda/transform/producer_consumer_ws.cc, TiledWSCandidate; src/cuda/transform/
annotate_warp_group_reg_alloc.cc; src/transform/pipeline_planning.cc.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tilegen.lowering.registers import consumer_registers
from tilegen.lowering.tma import TmaCopy
from tilegen.targets import Target


@dataclass(frozen=True)
class PipelinePath:
    warp_specialised: bool
    launch_threads: int
    """Threads of the block as launched."""
    reallocated: tuple[int, int] | None
    """Registers of a producer and of a consumer thread after `setmaxnreg`; None where there is none."""
    buffer_versions: int


def pipeline_path(target: Target, threads: int, stages: int, loads: Sequence[TmaCopy]) -> PipelinePath:
    """The path of the first pipelined loop of a kernel whose loads into shared memory are `loads`.

    `threads`: as written in the kernel. `loads`: from `tma.tma_copy(..., "pipelined_load")`; one that is refused stops
    the compiler and counts as fit here.
    """
    by_tma = [load.outcome != "falls_back" for load in loads]
    specialised = target.tma is not None and stages >= 1 and any(by_tma)
    if not specialised:
        return PipelinePath(False, threads, None, max(stages, 1) if target.kind == "cuda" else 1)
    if not all(by_tma):
        return PipelinePath(True, 2 * threads, None, stages)
    producers = target.register_reallocation.producer_threads if target.register_reallocation else 0
    return PipelinePath(True, threads + producers, _reallocated(target, threads), stages)


def _reallocated(target: Target, threads: int) -> tuple[int, int] | None:
    realloc = target.register_reallocation
    if realloc is None:
        return None
    group = realloc.producer_threads
    if threads < group:
        return realloc.layouts[0][2:]
    given = consumer_registers(target, threads // group)
    return (realloc.hint_range[0], given) if given else None
