"""The tilings of a gemm that are worth asking about, and what each does for one shape."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tilegen.plan.cost import SHARED_BYTES_PER_CLOCK, Work, tensor_clocks
from tilegen.plan.model import ITEMSIZE
from tilegen.spec.model import Swizzle

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan
    from tilegen.spec.model import Spec
    from tilegen.targets import Part, Target

GROUP_ROWS = 64
PROLOGUE_CLOCKS = 1500
"""From the launch to the first product: barriers, descriptors, the first load."""

EPILOGUE_BYTES_PER_CLOCK = 32
FIX_UP_S = 4e-6
SHALLOW, DEEP_BYTES = 0.3, 96 * 1024
"""A pipeline with little in flight waits for its loads: up to so much of a step, none from so many bytes on."""

PRODUCT_REACHED = 0.92
"""Of the data-sheet rate: what the loop of a persistent block reaches."""


def tilings(spec: Spec, target: Target, dtypes: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Every combination of the usual sizes for each schedule of the chip; what is left out is derived."""
    depth = 128 // ITEMSIZE[dtypes["a"]]
    for m, n, k, stages, threads in itertools.product(
        (16, 32, 64, 128, 256), (32, 64, 128, 256), (depth // 2, depth, 2 * depth), (2, 3, 4, 5), (128, 256)
    ):
        found = {"schedule": "plain", "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "stages": stages, "threads": threads}
        yield {**found, "policy": "square", "swizzle": _swizzle(spec)}
    if not target.name.startswith("sm_90"):
        return
    for m, n, k, stages, group in itertools.product(
        (64, 128), range(64, 257, 32), (depth, 2 * depth), range(3, 9), (4, 8, 16)
    ):
        yield {"schedule": "persistent", "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "stages": stages, "group_m": group}
    for m, n, k, stages, evict in itertools.product(
        (64, 128), (64, 96, 128, 192, 256), (depth, 2 * depth), range(3, 9), (False, True)
    ):
        yield {"schedule": "stream_k", "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "stages": stages, "evict_b": evict}
    for m, n, k, stages in itertools.product((8, 16, 32), (64, 128), (depth, 2 * depth, 4 * depth), range(3, 10)):
        yield {"schedule": "skinny", "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "stages": stages}


def _swizzle(spec: Spec) -> Swizzle:
    """That of the spec, for a kernel is printed with one order of its output tiles."""
    values = [target.tile.get("swizzle") for target in spec.targets] + [spec.tile.get("swizzle")]
    given = [rule.use for value in values if value is not None for rule in value.rules]
    return given[0] if given and isinstance(given[0], Swizzle) else Swizzle(panel=10, order="row")


def work(plan: TilePlan, dims: Mapping[str, int], part: Part, resident: int) -> Work:
    """What the tiling of a plan does for one shape on one chip."""
    tiles, sm_count = plan.tiles, part.sm_count
    m, n, k = tiles["BLOCK_M"], tiles["BLOCK_N"], tiles["BLOCK_K"]
    itemsize = ITEMSIZE[plan.dtypes["a"]]
    output_tiles = -(-dims["M"] // m) * -(-dims["N"] // n)
    steps = -(-dims["K"] // k)
    step_bytes = (m + n) * k * itemsize
    step = _step_clocks(plan, part, step_bytes)
    store = m * n * ITEMSIZE[plan.dtypes["c"]] / EPILOGUE_BYTES_PER_CLOCK
    in_flight = step_bytes * max(1, tiles["stages"] - 1)
    step *= 1 + SHALLOW * max(0.0, 1 - in_flight / DEEP_BYTES)
    schedule = plan.schedule
    if schedule in ("stream_k", "skinny"):
        blocks = output_tiles * (sm_count // output_tiles) if output_tiles <= sm_count else sm_count
        run = output_tiles * steps / blocks
        shared = output_tiles != blocks or output_tiles > sm_count
        fix_up = FIX_UP_S * m * n / (128 * 128) if shared else 0.0
        return Work(blocks, resident, run * step + PROLOGUE_CLOCKS + store, run * step_bytes, in_flight, fix_up)
    if schedule == "persistent":
        blocks = min(output_tiles, sm_count)
        rounds = -(-output_tiles // blocks)
        # Of two groups one stores while the other multiplies; a group alone stores by itself.
        exposed = store * (0.5 if m > GROUP_ROWS else 1.0)
        clocks = rounds * (steps * step + exposed) + PROLOGUE_CLOCKS
        return Work(blocks, resident, clocks, rounds * steps * step_bytes, in_flight)
    clocks = steps * step + (PROLOGUE_CLOCKS + store) / max(1, resident)
    return Work(output_tiles, resident, clocks, steps * step_bytes, in_flight)


def _step_clocks(plan: TilePlan, part: Part, step_bytes: float) -> float:
    """Tensor cores and shared memory work side by side: the tile is written once; each warp group reads all of the other
    operand.
    """
    tiles = plan.tiles
    m, n, k = tiles["BLOCK_M"], tiles["BLOCK_N"], tiles["BLOCK_K"]
    itemsize = ITEMSIZE[plan.dtypes["a"]]
    rows, columns = (max(GROUP_ROWS, n), m) if plan.schedule == "skinny" else (max(GROUP_ROWS, m), n)
    padded = rows * max(columns, 8) * k
    groups = max(1, rows // GROUP_ROWS)
    read = rows * k * itemsize + groups * columns * k * itemsize
    tensor = tensor_clocks(2 * padded, plan.dtypes["a"], part) / (PRODUCT_REACHED if plan.schedule != "plain" else 0.85)
    shared: float = (step_bytes + read) / SHARED_BYTES_PER_CLOCK
    return max(tensor, shared)
