"""The tilings of a row norm that are worth asking about, and what each does for one shape."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tilegen.families.row_norm.plan import vector
from tilegen.plan.cost import Work
from tilegen.plan.model import ITEMSIZE, Reduce

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan
    from tilegen.spec.model import Spec
    from tilegen.targets import Part, Target

CLOCKS_PER_VECTOR = 14
"""Of a warp scheduler for one 16-byte vector of 32 lanes: loads, squares, the formula, the store; four schedulers."""

LATENCY_CLOCKS = 1800
"""Load, reduction, store of one block, one after the other."""

STEP_ABOVE_A_WARP = 60
"""Clocks of one halving of a reduction over more than a warp: two barriers."""

SPILL_WASTE = 1.25


def tilings(spec: Spec, target: Target, dtypes: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Lanes of a row, threads, rows of a thread, residency; powers of two where the layout asks for them."""
    lanes = [2**e for e in range(2, 10)]
    for lane, threads, rows, preload, blocks in itertools.product(
        lanes, (32, 64, 128, 256, 512), (1, 2, 4), (True, False), (1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 16)
    ):
        if lane > threads or threads * blocks > target.launch.max_threads_per_sm:
            continue
        yield {
            "schedule": "one_pass",
            "BLOCK_C": lane * vector(dtypes),
            "BLOCK_M": threads // lane * rows,
            "threads": threads,
            "preload": preload,
            "blocks_per_sm": blocks,
        }
    for threads, sweeps, blocks in itertools.product((128, 256, 512, 1024), (1, 2, 4), (1, 2, 3, 4, 6, 8)):
        if threads * blocks <= target.launch.max_threads_per_sm:
            yield {
                "schedule": "two_pass",
                "BLOCK_C": threads * sweeps * vector(dtypes),
                "threads": threads,
                "blocks_per_sm": blocks,
            }


def work(plan: TilePlan, dims: Mapping[str, int], part: Part, resident: int) -> Work:
    """What the tiling of a plan does for one shape on one chip."""
    if plan.schedule == "two_pass":
        return _chunked(plan, dims, resident)
    tiles, rows_all, width = plan.tiles, dims["M"], dims["C"]
    block_m, block_c, threads = tiles["BLOCK_M"], tiles["BLOCK_C"], tiles["threads"]
    lanes = block_c // vector(plan.dtypes)
    held = -(-width // block_c)
    rows = max(1, block_m * lanes // threads)
    blocks_per_sm = min(tiles["blocks_per_sm"], resident)
    cap = min(255, plan.target.registers.per_sm // (threads * blocks_per_sm))
    columns = 4 * held if tiles["preload"] else 4
    spills = 4 * held * rows + columns + 28 > cap
    converts = 8 * held * rows + columns + 28 > cap
    in_flight = block_m * width * ITEMSIZE[plan.dtypes["x"]]
    vectors = block_m * held * lanes / plan.target.launch.warp_size
    steps = max(0, lanes.bit_length() - 6)
    latency = LATENCY_CLOCKS + STEP_ABOVE_A_WARP * steps + 25 * held * rows
    clocks = vectors * CLOCKS_PER_VECTOR / 4 + latency / blocks_per_sm
    slots = held * block_c / width
    waste = (
        (SPILL_WASTE if spills else 1.0) * (1.01 if converts else 1.0) * (1 + 0.1 * (slots - 1)) * (1 + 0.01 * steps)
    )
    # Measured: exact widths are at their best with 48 KiB of x in flight on an SM, padded ones with 70.
    wanted = (48 if width % block_c == 0 else 70) * 1024
    waste *= 1 + 0.02 * abs(math.log2(max(1, in_flight * blocks_per_sm) / wanted)) if rows_all > 1024 else 1.0
    # Measured: 128 threads a block are best by 0.5 % and more; columns go with x where the width is exact.
    waste *= 1 + 0.005 * abs(math.log2(threads / 128)) + 0.003 * (tiles["preload"] != (width % block_c == 0))
    return Work(-(-rows_all // block_m), blocks_per_sm, clocks, in_flight, in_flight, waste=waste)


SECOND_READING = 1.15
"""What reading a row again costs, most of it from L2, as a factor of the bytes."""


def _chunked(plan: TilePlan, dims: Mapping[str, int], resident: int) -> Work:
    tiles, width = plan.tiles, dims["C"]
    blocks_per_sm = min(tiles["blocks_per_sm"], resident)
    chunk = tiles["BLOCK_C"] * ITEMSIZE[plan.dtypes["x"]]
    passes = len(plan.kernels[0].row_passes) + len([op for op, _ in plan.kernels[0].ops() if isinstance(op, Reduce)])
    steps = passes * -(-width // tiles["BLOCK_C"])
    vectors = steps * tiles["BLOCK_C"] / vector(plan.dtypes) / plan.target.launch.warp_size
    clocks = vectors * CLOCKS_PER_VECTOR / 4 + (LATENCY_CLOCKS + 800 * steps) / blocks_per_sm
    waste = SECOND_READING ** (passes - 1) * (-(-width // tiles["BLOCK_C"]) * tiles["BLOCK_C"] / width) ** 0.5
    return Work(dims["M"], blocks_per_sm, clocks, passes * width * ITEMSIZE[plan.dtypes["x"]], chunk, waste=waste)
