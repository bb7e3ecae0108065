"""Random specs of a row norm for the truth sweep: norms, dtypes, formulas, row lengths and tiles, legal or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

    from tilegen.targets import Target

MOVES: Mapping[str, tuple[int, ...]] = {
    "tile.BLOCK_M": (1, 2, 8),
    "tile.BLOCK_C": (8, 32, 256),
    "tile.threads": (32, 128),
    "tile.blocks_per_sm": (1,),
    "dims.C.values": (1, 8, 32, 256),
}
"""What may be moved towards a limit, and by which steps."""

FORMULAS = {
    "rms": ("x * rstd * gamma", "silu(x * rstd * gamma)", "x * rstd * gamma * gate", "x * rstd + residual"),
    "layer": ("(x - mean) * rstd * gamma + beta", "(x - mean) * rstd", "gelu((x - mean) * rstd * gamma + beta)"),
    "l2": ("x * rstd", "x * rstd * gamma"),
    "softmax": ("exp(x - row_max) / row_sum",),
}
MOST_HELD = 512
"""Elements of x a thread: with more, nvcc takes minutes for a kernel that spills in any case."""

SHAPES = {"gamma": "C", "beta": "C", "gate": "M", "residual": "M C"}


def random_spec(random: Random, target: Target) -> dict[str, Any]:
    """The tables of a spec. Most tile values are ordinary ones, so that a good half of the specs are legal."""
    norm = random.choice(tuple(FORMULAS))
    formula = random.choice(FORMULAS[norm])
    dtype = random.choices(("float16", "bfloat16", "float32", "float64", "float8_e4m3fn"), (6, 6, 3, 0.3, 0.3))[0]
    vector = 16 // {"float32": 4, "float64": 8, "float8_e4m3fn": 1}.get(dtype, 2)
    length, tile = _length(random), _tile(random, vector)
    while _held(length, tile, vector) > MOST_HELD:
        length, tile = _length(random), _tile(random, vector)
    return {
        "kernel": "sample",
        "family": "row_norm",
        "dims": {"M": {"dynamic": True, "max": 1_048_576}, "C": {"values": [length]}},
        "tensors": {
            "x": {"shape": "M C", "dtype": dtype},
            **{
                name: {"shape": shape, "dtype": random.choice((dtype, "float32"))}
                for name, shape in SHAPES.items()
                if name in formula
            },
            "y": {"shape": "M C", "dtype": dtype if random.random() < 0.8 else "float32"},
        },
        "compute": {
            "norm": norm,
            **({} if norm == "softmax" else {"eps": 1e-5}),
            "accum": random.choices(("float32", "float64", "float16"), (20, 1, 0.5))[0],
            "y": formula,
        },
        "tile": tile,
        "target": {target.name: {}},
    }


def _held(length: int, tile: Mapping[str, Any], vector: int) -> int:
    """Elements of x in the registers of a thread, where the tile is dealt evenly."""
    threads, block_c = tile.get("threads", 128), tile.get("BLOCK_C", 16 * vector)
    rows = tile.get("BLOCK_M", max(threads * vector // block_c, 1))
    return int(rows * -(-length // block_c) * block_c // threads)


def _length(random: Random) -> int:
    kind = random.random()
    if kind < 0.45:
        return random.choice((128, 256, 512, 1024, 2048, 3072, 4096, 5120, 8192, 16384))
    if kind < 0.8:
        return 32 * random.randint(1, 160)
    return 8 * random.randint(1, 300) if kind < 0.93 else random.randint(8, 3000)


def _tile(random: Random, vector: int) -> dict[str, Any]:
    """Rows in whole passes of the block in most specs; what is left out is derived."""
    lanes = 2 ** random.randint(0, 8)
    threads = random.choice((128, 128, 256, 512, 64, 1024, 32, max(lanes, 32)))
    tile: dict[str, Any] = {
        "BLOCK_C": vector * lanes,
        "threads": threads,
        "BLOCK_M": max(threads // lanes, 1) * random.choice((1, 1, 2, 4)),
        "preload": random.random() < 0.5,
        "blocks_per_sm": random.choices((1, 2, 4, 8, 10), (5, 2, 2, 1, 0.5))[0],
    }
    if random.random() < 0.2:
        tile["BLOCK_C"] = random.choice((24, 40, 48, 96, 160, 192, 320, 12))
    if random.random() < 0.1:
        tile["threads"] = random.choice((48, 96, 160, 192, 384, 768))
    for name in ("BLOCK_C", "threads", "BLOCK_M", "preload", "blocks_per_sm"):
        if random.random() < 0.07:
            del tile[name]
    return tile
