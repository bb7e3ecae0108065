"""The tilings of MLA decode that are worth asking about, and what each does for one shape."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tilegen.plan.cost import Work, tensor_clocks
from tilegen.plan.model import ITEMSIZE

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan
    from tilegen.spec.model import Spec
    from tilegen.targets import Part, Target

GROUP_ROWS = 64
REACHED = {"plain": 0.5, "delayed": 0.72}
"""Of the tensor cores' rate: the softmax leaves them idle in `plain`."""

PROLOGUE_CLOCKS = 3000
COMBINE_S = 3e-6


def tilings(spec: Spec, target: Target, dtypes: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Heads, keys, threads, stages and splits of each schedule."""
    splits: tuple[int | str, ...] = (1, "auto", 2, 4, 8, 16)
    for whole in splits:
        yield {
            "schedule": "delayed",
            "BLOCK_H": 64,
            "BLOCK_N": 64,
            "threads": 256,
            "stages": 2,
            "policy": "full_col",
            "num_split": whole,
        }
    for (heads, threads, policy), keys, stages, split in itertools.product(
        ((16, 128, "full_col"), (32, 128, "full_col"), (64, 256, "full_col"), (64, 128, "full_row")),
        (16, 32, 64, 128),
        (1, 2, 3, 4),
        splits,
    ):
        shape = {"BLOCK_H": heads, "BLOCK_N": keys, "threads": threads, "stages": stages}
        yield {"schedule": "plain", **shape, "policy": policy, "num_split": split}


def work(plan: TilePlan, dims: Mapping[str, int], part: Part, resident: int) -> Work:
    """What the tiling of a plan does for one shape on one chip."""
    tiles = plan.tiles
    heads, keys = tiles["BLOCK_H"], tiles["BLOCK_N"]
    row = dims["D_nope"] + dims["D_rope"]
    head_blocks, key_blocks = -(-dims["H"] // heads), -(-dims["S"] // keys)
    grid = dims["B"] * head_blocks
    wanted = part.sm_count // grid if tiles["num_split"] == "auto" else tiles["num_split"]
    splits = max(1, min(wanted, key_blocks))
    steps = -(-key_blocks // splits)
    rows = max(GROUP_ROWS, heads) if plan.target.name.startswith("sm_90") else heads
    flops = 2 * rows * keys * (row + dims["D_nope"])
    step = tensor_clocks(flops, plan.dtypes["kv"], part) / REACHED[plan.schedule]
    loaded = keys * row * ITEMSIZE[plan.dtypes["kv"]]
    clocks = steps * step + PROLOGUE_CLOCKS
    fixed = COMBINE_S if splits > 1 else 0.0
    return Work(grid * splits, resident, clocks, steps * loaded, loaded * tiles["stages"], fixed)
