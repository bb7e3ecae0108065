"""Random specs of a gemm for the truth sweep: dtypes, transposes, tails, epilogues and tiles, legal or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

    from tilegen.targets import Target

MOVES: Mapping[str, tuple[int, ...]] = {
    "tile.BLOCK_M": (16, 64),
    "tile.BLOCK_N": (8, 16, 64),
    "tile.BLOCK_K": (8, 16, 32),
    "tile.threads": (32, 128),
    "tile.stages": (1,),
    "tile.STORE_N": (8, 32),
    "dims.N.values": (1, 4, 8),
    "dims.K.values": (1, 4, 8),
}
"""What may be moved towards a limit, and by which steps."""

DTYPES = (
    # operands, accumulator, output
    ("float16", "float32", "float16"),
    ("float16", "float32", "float16"),
    ("bfloat16", "float32", "bfloat16"),
    ("bfloat16", "float32", "float32"),
    ("float16", "float16", "float16"),
    ("float32", "float32", "float32"),
    ("int8", "int32", "int32"),
    ("float8_e4m3fn", "float32", "float16"),
    ("float8_e5m2", "float32", "bfloat16"),
    ("bfloat16", "bfloat16", "bfloat16"),
)
DTYPE_WEIGHTS = (6, 6, 6, 3, 2, 2, 2, 2, 1, 0.3)

Epilogue = tuple[str, Mapping[str, str], Mapping[str, str]]

EPILOGUES: tuple[Epilogue, ...] = (
    # formula, further tensors, scalars
    ("acc", {}, {}),
    ("relu(acc)", {}, {}),
    ("relu(acc + bias)", {"bias": "N"}, {}),
    ("gelu(alpha * acc) + residual", {"residual": "M N"}, {"alpha": "float32"}),
    ("silu(acc * scale) * gate", {"scale": "M", "gate": "M N"}, {}),
    (
        "relu(alpha * acc * scale + bias) + residual",
        {"bias": "N", "scale": "M", "residual": "M N"},
        {"alpha": "float32"},
    ),
)
INTEGER_EPILOGUES: tuple[Epilogue, ...] = (("acc", {}, {}), ("max(acc, 0)", {}, {}))

EXPLICIT = ("persistent", "stream_k", "skinny")


def random_spec(random: Random, target: Target) -> dict[str, Any]:
    """The tables of a spec. Most tile values are ordinary ones, so that a good half of the specs are legal."""
    explicit = 0.55 if target.tma else 0.04
    schedule = random.choice(EXPLICIT) if random.random() < explicit else "plain"
    (operand, accum, out) = random.choices(DTYPES, DTYPE_WEIGHTS)[0]
    eight_bit = operand.startswith(("int8", "float8"))
    a = random.choices(("M K", "K M"), (9, 1) if eight_bit else (3, 1))[0]
    b = random.choices(("N K", "K N"), (9, 1) if eight_bit else (1, 1))[0]
    tile = _TILES[schedule](random, 128 // {"float32": 4, "int8": 1}.get(operand, 1 if eight_bit else 2))
    formula, extra, scalars = random.choice(INTEGER_EPILOGUES if operand == "int8" else EPILOGUES)
    multiple = random.choices((16, 8, 1), (8, 2, 1))[0] if a == "K M" else 1
    return {
        "kernel": "sample",
        "family": "gemm",
        "schedule": schedule,
        "dims": {
            "M": {"dynamic": True, "max": 65_536, "multiple_of": multiple},
            "N": {"values": [_extent(random, tile["BLOCK_N"])]},
            "K": {"values": [_extent(random, tile["BLOCK_K"])]},
        },
        "tensors": {
            "a": {"shape": a, "dtype": operand},
            "b": {"shape": b, "dtype": "same_as(a)"},
            **{name: {"shape": shape, "dtype": _extra_dtype(random, operand, out)} for name, shape in extra.items()},
            "c": {"shape": "M N", "dtype": out},
        },
        "scalars": {name: {"dtype": dtype} for name, dtype in scalars.items()},
        "compute": {"accum": accum, "c": formula},
        "tile": tile,
        "target": {target.name: {}},
    }


def _extra_dtype(random: Random, operand: str, out: str) -> str:
    return "float32" if operand.startswith("float8") else random.choice((out, "float32"))


def _extent(random: Random, block: int) -> int:
    """A whole number of tiles; or with a tail of a multiple of 16, of 8, or of nothing."""
    whole = block * random.randint(1, 40)
    tail = random.choices(
        (0, 16 * random.randint(1, 8), 8 * random.randint(1, 15), random.randint(1, 63)), (5, 3, 2, 1)
    )
    return whole + tail[0]


def _one_of(random: Random, usual: tuple[int, ...], odd: tuple[int, ...], odds: float = 0.15) -> int:
    return random.choice(odd if random.random() < odds else usual)


def _plain(random: Random, row: int) -> dict[str, Any]:
    block_m = _one_of(random, (64, 128, 128, 192, 256), (16, 32, 48, 80, 96, 112, 160, 320, 512))
    block_n = _one_of(random, (64, 96, 128, 128, 160, 192, 256), (8, 16, 24, 32, 40, 72, 112, 136, 224, 272, 320, 384))
    tile: dict[str, Any] = {
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "BLOCK_K": row if random.random() < 0.6 else _one_of(random, (32, 64, 128), (8, 16, 24, 48, 96, 256)),
        "threads": _one_of(random, (128, 128, 256, 256, 384, 512), (32, 64, 96, 160, 192, 320, 768, 896, 1024)),
        "stages": random.randint(1, 5),
        "policy": random.choice(("square", "square", "full_row", "full_col")),
    }
    if random.random() < 0.3:
        tile["swizzle"] = {"panel": random.randint(2, 12), "order": random.choice(("row", "column"))}
    return tile


def _persistent(random: Random, row: int) -> dict[str, Any]:
    block_n = _one_of(random, (64, 96, 128, 192, 256), (8, 24, 32, 80, 112, 144, 176, 208, 224, 240, 272, 320))
    tile = {
        "BLOCK_M": _one_of(random, (64, 128, 128), (32, 96, 192, 256), 0.05),
        "BLOCK_N": block_n,
        "BLOCK_K": row if random.random() < 0.6 else _one_of(random, (32, 64, 128), (16, 24, 48, 96, 256)),
        "stages": random.randint(2, 6),
        "group_m": random.randint(1, 16),
    }
    if random.random() < 0.5:
        tile["STORE_N"] = block_n // random.choice((1, 1, 2, 4)) or 8
    return tile


def _stream_k(random: Random, row: int) -> dict[str, Any]:
    block_m = _one_of(random, (64, 64, 128, 128), (32, 96, 192, 256), 0.1)
    tile = _persistent(random, row)
    del tile["group_m"]
    tile["BLOCK_M"] = block_m
    if random.random() < 0.6:
        tile["threads"] = _one_of(random, (128, 256, 2 * block_m), (64, 192, 384), 0.1)
    tile["evict_b"] = random.random() < 0.5
    return tile


def _skinny(random: Random, row: int) -> dict[str, Any]:
    return {
        "BLOCK_M": _one_of(random, (8, 16, 16, 32), (24, 40, 48, 64, 128, 4), 0.2),
        "BLOCK_N": _one_of(random, (64, 64, 128, 128), (32, 96, 192, 256), 0.2),
        "BLOCK_K": row if random.random() < 0.5 else _one_of(random, (64, 128, 256), (16, 24, 48, 96), 0.2),
        "threads": _one_of(random, (128, 256), (64, 192, 384), 0.1),
        "stages": random.randint(2, 8),
    }


_TILES = {"plain": _plain, "persistent": _persistent, "stream_k": _stream_k, "skinny": _skinny}
