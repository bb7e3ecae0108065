"""A model of how long a tiling takes, to rank tilings by: roofline, waves of the grid, bytes in flight, shared memory.

It need not be right in time, only in order: what it ranks first is compiled and measured. Constants are of one H200 and are
used as ratios.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilegen.plan.roofline import Roof
    from tilegen.targets import Part

CLOCK_HZ = 1.7e9
SHARED_BYTES_PER_CLOCK = 128
LAUNCH_S = 2e-6

DRAM_REACHED = 0.9
"""Of the data-sheet rate: what a copy reaches."""

L2_PER_DRAM = 2.4
"""How many times the rate of DRAM the L2 gives to tiles that several blocks read."""

OVERLAP_LOST = 0.1
"""Of the shorter parts of a call: what does not hide behind the longest."""

LATENCY_S = 0.8e-6
"""From a load to its data under load: an SM moves at most what it has in flight in that time."""

SM_BYTES_PER_CLOCK = 64
"""What one SM can take in from L2."""


@dataclass(frozen=True)
class Work:
    """What one tiling does for one shape.

    ``blocks`` of the grid, ``resident`` of them on an SM at once; ``clocks`` that a block keeps its SM busy; ``loaded`` bytes
    that a block reads through L2; ``in_flight`` bytes that a block has asked for at a time; ``fixed_s`` what comes on top, such
    as a fix-up. ``waste`` is how many times the bytes of the roofline are moved.
    """

    blocks: int
    resident: int
    clocks: float
    loaded: float
    in_flight: float
    fixed_s: float = 0.0
    waste: float = 1.0


def predicted_s(work: Work, roof: Roof, part: Part, sm_count: int) -> float:
    """Seconds of one call. Infinite where no block fits on an SM."""
    if work.resident < 1:
        return math.inf
    busiest = -(-work.blocks // sm_count)
    compute = busiest * work.clocks / CLOCK_HZ
    in_flight = min(work.resident, busiest) * work.in_flight
    fed = min(work.blocks, sm_count) * min(in_flight / LATENCY_S, SM_BYTES_PER_CLOCK * CLOCK_HZ)
    rate = part.dram_bytes_per_second * DRAM_REACHED
    memory = roof.bytes_moved * work.waste / min(rate, fed)
    through_l2 = work.blocks * work.loaded / min(rate * L2_PER_DRAM, fed)
    parts = (compute, memory, through_l2)
    return max(parts) + OVERLAP_LOST * (sum(parts) - max(parts)) + LAUNCH_S + work.fixed_s


def tensor_clocks(flops: float, dtype: str, part: Part) -> float:
    """Clocks of one SM for so many tensor-core operations at the data-sheet rate."""
    return flops / (part.dense_flops[dtype] / part.sm_count / CLOCK_HZ)
