"""What becomes of a `T.Pipelined` loop: warp specialisation, threads, registers, copies.

Rule. On a chip with TMA a loop with at least one stage in which at least one load is fit for TMA is warp-specialised:
producers are added in front of the block to issue the loads, the threads asked for become its consumers, buffers get
one version a stage and mbarriers hand them over. Only the first such loop of a kernel is. The producers are one warp
group if every load is a TMA load, and then registers are reallocated, if the warp groups stand in the table of the
chip; they are as many threads as the consumers if one load is not, and nothing is reallocated. Otherwise the loop is
pipelined by `cp.async` where the chip has it, and run as written where it has not.

Where the loop is pipelined by `cp.async`, each copy is issued right after the last statement that reads what it writes,
`num_stages` iterations ahead of its consumers; where that puts all copies last, they are issued first instead and one
iteration less ahead. The iterations that are left over after the loop are written out, two or more of them as a loop
whose waits count down. If the trip count is not a constant that loop stays, and the compiler stops on a wait for a
number of groups that is no constant ("Downcast from tirx.Sub to ir.IntImm failed"). A schedule with every copy one
iteration ahead (`double_buffer`) has one iteration left over, and lowers; it needs two versions of each buffer. Given
together with `num_stages = 2` it leaves a warp-specialised loop as it is. On HIP, where `num_stages` is dropped, an
explicit schedule is not: it doubles the buffers, so keep it off there.

Warp specialisation happens with one stage too, and whatever the number of threads: a block that is no whole number of
warp groups reallocates registers in part of one.

Source: tilelang src/cuda/transform/producer_consumer_ws.cc, TiledWSCandidate; src/cuda/transform/
annotate_warp_group_reg_alloc.cc; src/transform/pipeline_planning.cc; src/transform/inject_pipeline.cc, EmitImpl;
src/cuda/codegen/codegen_cuda.cc, `ptx_wait_group`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilegen.lowering.registers import consumer_registers
from tilegen.lowering.tma import TmaCopy
from tilegen.targets import Target


@dataclass(frozen=True)
class PipelinePath:
    """What becomes of a pipelined loop."""

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


@dataclass(frozen=True)
class Schedule:
    """Place and stage of each statement of a loop body, as `T.Pipelined(order=..., stage=...)` takes them."""

    order: tuple[int, ...]
    stage: tuple[int, ...]

    @property
    def ahead(self) -> int:
        """How many iterations the earliest statement runs ahead of the last, and how many are left over."""
        return max(self.stage)


def planned_schedule(statements: int, last_use: Mapping[int, int], stages: int) -> Schedule:
    """How a `cp.async` loop of so many statements is scheduled without being told.

    `last_use`: for each statement that copies from global into shared memory, the last statement that reads the copy.
    A scalar assignment counts as no statement.
    """
    placed: list[int] = []
    for consumer in (i for i in range(statements) if i not in last_use):
        placed += [consumer, *(copy for copy, used in sorted(last_use.items()) if used == consumer)]
    ahead = stages
    if stages >= 2 and last_use and set(placed[-len(last_use) :]) == set(last_use):
        placed = placed[-len(last_use) :] + placed[: -len(last_use)]
        ahead -= 1
    order = tuple(placed.index(i) for i in range(statements))
    return Schedule(order, tuple(0 if i in last_use else ahead for i in range(statements)))


def double_buffer(statements: int, copies: Iterable[int]) -> Schedule:
    """Every copy of an iteration issued before the statements of the one before it: two versions, any trip count."""
    first = sorted(copies)
    placed = [*first, *(i for i in range(statements) if i not in first)]
    return Schedule(
        order=tuple(placed.index(i) for i in range(statements)),
        stage=tuple(0 if i in first else 1 for i in range(statements)),
    )


def trip_count_ok(schedule: Schedule, *, static: bool, cp_async: bool) -> bool:
    """Whether a pipelined loop lowers: one by `cp.async` with more than one iteration left over needs a static count.

    `static`: the trip count is a constant, not a run-time dim and not a function of the block index.
    """
    return static or not cp_async or schedule.ahead <= 1
