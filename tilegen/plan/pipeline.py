"""What a pipelined loop costs on a chip: the producer warp group that TileLang adds, and how many stages fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.check.domain import Domain
from tilegen.check.prover import prove
from tilegen.expr import Size, add, equal, free_names, maximum, minimum, mod, multiply, negate
from tilegen.lowering.shared_memory import most_stages as stages_that_fit

if TYPE_CHECKING:
    from tilegen.plan.model import Copy
    from tilegen.spec.model import Spec
    from tilegen.targets import Target

USEFUL_STAGES = 4
"""More stages than this have not been measured to help on any chip."""

BARRIER_PAGE = 1024


def producer_threads(target: Target) -> int:
    """Threads that TileLang's warp specialisation adds to a block with a pipelined loop fed by TMA; 0 without TMA."""
    return target.register_reallocation.producer_threads if target.tma and target.register_reallocation else 0


@dataclass(frozen=True)
class Specialisation:
    """What TileLang's warp specialisation adds to a block: threads, and 1 or 0 times each mbarrier of the loop."""

    producer_threads: Size
    barriers: Size


NONE = Specialisation(0, 0)


def specialisation(
    spec: Spec, target: Target, domain: Domain, threads: Size, loads: Sequence[Copy], itemsize: int
) -> Specialisation:
    """Of a pipelined loop whose tiles are loaded by ``loads``: see :mod:`tilegen.lowering.pipeline`.

    Which loads TMA carries may differ from one declared shape to the next; then the sizes are expressions.
    """
    if not producer_threads(target):
        return NONE
    carried = [_carried(spec, target, domain, load, itemsize) for load in loads]
    some, every = maximum(*carried), minimum(*carried)
    by_group, by_block = multiply(every, producer_threads(target)), multiply(add(some, multiply(-1, every)), threads)
    return Specialisation(add(by_group, by_block), some)


def _carried(spec: Spec, target: Target, domain: Domain, load: Copy, itemsize: int) -> Size:
    """1 where the rows of a tile, and of its tensor, are a multiple of 16 bytes; 0 where one is not. What only a call
    knows counts as a multiple: TileLang leaves the load to TMA.
    """
    assert target.tma is not None
    rest: Size = mod(multiply(load.extents[-1], itemsize), target.tma.inner_bytes_multiple)
    dynamic = {dim.name for dim in spec.dims if dim.dynamic}
    if load.row_pitch is not None and not free_names(load.row_pitch) & dynamic:
        rest = add(rest, mod(multiply(load.row_pitch, itemsize), target.tma.stride_bytes_multiple))
    whole = equal(rest, 0)
    if prove(whole, domain).proved:
        return 1
    return 0 if prove(negate(whole), domain).proved else add(1, multiply(-1, minimum(1, rest)))


def most_stages(target: Target, stage_bytes: int, fixed_bytes: int = 0) -> int:
    """The most useful stages of ``stage_bytes`` each beside ``fixed_bytes``; 1 where not even two fit."""
    static = BARRIER_PAGE if producer_threads(target) else 0
    return max(1, stages_that_fit(target, stage_bytes, fixed_bytes, static, USEFUL_STAGES))
