"""What a pipelined loop costs on a chip: the producer warp group that TileLang adds, and how many stages fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilegen.lowering.shared_memory import most_stages as stages_that_fit

if TYPE_CHECKING:
    from tilegen.targets import Target

USEFUL_STAGES = 4
"""More stages than this have not been measured to help on any chip."""

BARRIER_PAGE = 1024


def producer_threads(target: Target) -> int:
    """Threads that TileLang's warp specialisation adds to a block with a pipelined loop fed by TMA; 0 without TMA."""
    return target.register_reallocation.producer_threads if target.tma and target.register_reallocation else 0


def most_stages(target: Target, stage_bytes: int, fixed_bytes: int = 0) -> int:
    """The most useful stages of ``stage_bytes`` each beside ``fixed_bytes``; 1 where not even two fit."""
    static = BARRIER_PAGE if producer_threads(target) else 0
    return max(1, stages_that_fit(target, stage_bytes, fixed_bytes, static, USEFUL_STAGES))
