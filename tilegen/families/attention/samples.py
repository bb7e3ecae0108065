"""Random specs of MLA decode for the truth sweep: widths, heads, tiles and splits, legal or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

    from tilegen.targets import Target

MOVES: Mapping[str, tuple[int, ...]] = {
    "tile.BLOCK_H": (8, 16),
    "tile.BLOCK_N": (8, 16),
    "tile.threads": (32, 128),
    "tile.stages": (1,),
    "dims.D_nope.values": (8, 16, 64),
    "dims.D_rope.values": (8, 16),
}
"""What may be moved towards a limit, and by which steps."""


def random_spec(random: Random, target: Target) -> dict[str, Any]:
    """The tables of a spec. Most tile values are ordinary ones, so that a good half of the specs are legal."""
    delayed = random.random() < (0.25 if target.tma else 0.03)
    tile = _delayed(random) if delayed else _plain(random, target)
    if random.random() < 0.7:
        tile["num_split"] = random.choice((1, 1, 2, 4, "auto"))
    rope = random.choices((64, 32, 16, 128, 24, 40), (12, 3, 1, 1, 0.5, 0.5))[0]
    nope = random.choices((512, 256, 128, 384, 64, 192, 576, 96, 200), (6, 7, 5, 2, 1, 1, 1, 0.5, 0.3))[0]
    return {
        "kernel": "sample",
        "family": "attention",
        "variant": "mla_decode",
        **({"schedule": "delayed" if delayed else "plain"} if random.random() < 0.9 else {}),
        "dims": {
            "B": {"dynamic": True, "max": 4096},
            "H": {"values": [random.choices((128, 64, 16, 32, 8, 40, 100), (4, 3, 3, 1, 1, 0.5, 0.5))[0]]},
            "S": {"dynamic": True, "max": random.choice((8192, 65_536, 1_048_576))},
            "D_nope": {"values": [512 if delayed and random.random() < 0.7 else nope]},
            "D_rope": {"values": [64 if delayed and random.random() < 0.9 else rope]},
        },
        "tensors": {"q_nope": {"shape": "B H D_nope", "dtype": random.choice(("float16", "bfloat16"))}},
        "compute": {"scale": "(D_nope + D_rope) ** -0.5"},
        "tile": tile,
        "target": {target.name: {}},
    }


def _delayed(random: Random) -> dict[str, Any]:
    """The one tiling that the schedule is written for, or one beside it."""
    tile = {"BLOCK_H": 64, "BLOCK_N": 64, "threads": 256, "stages": 2}
    if random.random() < 0.25:
        name = random.choice(list(tile))
        tile[name] = random.choice(
            {"BLOCK_H": (32, 128), "BLOCK_N": (32, 128), "threads": (128, 384)}.get(name, (1, 3))
        )
    return tile


def _plain(random: Random, target: Target) -> dict[str, Any]:
    block_h = random.choices((64, 16, 32, 128, 48, 80, 8), (8, 5, 2, 1, 0.5, 0.5, 0.3))[0]
    usual = (256, 256, 256, 256, 128, 512) if block_h >= 64 else (128, 128, 128, 128, 64, 256)
    tile = {
        "BLOCK_H": block_h,
        "BLOCK_N": random.choices((64, 32, 128, 16, 48, 80, 96, 24, 40), (9, 4, 3, 1, 1, 1, 1, 0.3, 0.3))[0],
        "threads": random.choice(usual)
        if random.random() < 0.85
        else random.choice((32, 96, 160, 192, 384, 640, 1024)),
        "stages": random.choices((1, 2, 3, 4), (2, 5, 2, 1) if target.tma else (14, 1.5, 0.4, 0.4))[0],
        "policy": random.choices(("full_col", "square", "full_row"), (4, 1, 1))[0],
    }
    for name in ("policy", "stages", "threads"):
        if random.random() < 0.05:
            del tile[name]
    return tile
