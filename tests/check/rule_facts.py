"""What a rule must say of specs at its limits: one line each, for what its examples do not show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.check.rule_cases import settled
from tilegen.check.examples import Example
from tilegen.check.rule import Rule


@dataclass(frozen=True)
class Fact:
    """Rule ``rule`` on the example of ``of`` with ``change``: every obligation proved, some refuted, or none stated.

    ``says`` and ``at`` are as in an example of a rule, ``helps`` is part of the help; ``count`` is how many obligations
    there are.
    """

    rule: str
    of: str
    change: dict[str, Any] = field(default_factory=dict)
    holds: bool | None = True
    says: str = ""
    at: str = ""
    helps: str = ""
    count: int | None = None

    def is_true(self, rule: Rule) -> bool:
        results = settled(rule, Example("", False, self.of, self.change, "").spec())
        failed = [(obligation, outcome) for obligation, outcome in results if not outcome.proved]
        if self.count is not None and len(results) != self.count:
            return False
        if self.holds is None:
            return not results
        if self.holds:
            return bool(results) and not failed
        return any(
            self.says in obligation.explain(outcome.counterexample).replace("\n", " ")
            and self.at in ("", obligation.at)
            and self.helps in " ".join(obligation.advice())
            for obligation, outcome in failed
        )


MLA = "attention/mla_decode"
SM_80: dict[str, Any] = {"target": {"sm_80": {}}}
SM_120: dict[str, Any] = {"target": {"sm_120a": {}}}
GFX942: dict[str, Any] = {"target": {"gfx942": {}}}
DYNAMIC_K: dict[str, Any] = {"dims": {"K": {"dynamic": True, "max": 8192, "multiple_of": 8}}}
EIGHT_BIT_OPERANDS: dict[str, Any] = {"tensors": {"a": {"shape": "M K", "dtype": "int8"}}}
SMALL: dict[str, Any] = {"BLOCK_N": 128, "threads": 128}
EIGHT_BIT: dict[str, Any] = {
    "b": {"shape": "N K", "dtype": "same_as(a)"},
    "bias": {"shape": "N", "dtype": "int32"},
    "c": {"shape": "M N", "dtype": "int32"},
}


def integers(dtype: str, k: int) -> dict[str, Any]:
    return {
        "dims": {"K": {"values": [k]}},
        "tensors": {"a": {"shape": "M K", "dtype": dtype}, **EIGHT_BIT},
        "compute": {"accum": "int32", "c": "acc + bias"},
    }


def stored(dtype: str, low: float, high: float) -> dict[str, Any]:
    return {
        "tensors": {"y": {"shape": "M C", "dtype": dtype}},
        "compute": {"y": f"clamp(x * rstd * gamma, {low}, {high})"},
    }


def eps(value: float, accum: str) -> dict[str, Any]:
    return {"compute": {"eps": value, "accum": accum}}


def norm(c: int, **tile: Any) -> dict[str, Any]:
    return {"dims": {"C": {"values": [c]}}, "tile": tile}


def in_chunks(**tile: Any) -> dict[str, Any]:
    return {"schedule": "two_pass", **norm(65_536, **tile)}


def split_block(heads: int, rotary: int, keys: int, threads: int) -> dict[str, Any]:
    """A plain pass over the parts of a sequence, 64 heads a block."""
    tile = {"BLOCK_H": 64, "BLOCK_N": keys, "threads": threads, "stages": 2, "num_split": 4}
    dims = {"H": {"values": [heads]}, "D_rope": {"values": [rotary]}}
    return {"schedule": "plain", "dims": dims, "tile": tile}


def one_tile(m: int) -> dict[str, Any]:
    """A stream-K product with one step for every 128 rows."""
    dims = {"M": {"dynamic": True, "max": m}, "N": {"values": [128]}, "K": {"values": [64]}}
    return {"schedule": "stream_k", "dims": dims, "tile": {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}}


FACTS: list[Fact] = [
    # Launch
    Fact("A2", "gemm", {"tile": {"threads": 896}}),
    Fact("A4", "gemm", SM_80, holds=None),
    Fact("A4", "gemm", SM_120, holds=None),  # a producer, and no warp groups
    Fact("A4", "row_norm", {"tile": {"threads": 96}}, holds=None),
    Fact("A5", "gemm", {"dims": {"M": {"dynamic": True, "max": 8_388_481}}}, False, helps="declare max = 8388480"),
    Fact("A5", "row_norm", {"dims": {"M": {"dynamic": True, "max": 2**40}}}, False, "grid.x", "dims.M.max"),
    Fact(
        "A5",
        MLA,
        {"dims": {"B": {"dynamic": True, "max": 2**20}}, "tile": {"num_split": 1}, "schedule": "plain"},
        False,
    ),
    Fact("A6", MLA, {"schedule": "plain", "tile": {"num_split": 4}}),  # three axes
    Fact("A6", "row_norm"),  # one
    # Shared memory
    Fact("B1", MLA, {"schedule": "plain"}),  # 231,424 and 1,024 are all that there is
    Fact("B1", MLA, {"schedule": "plain", "tile": {"stages": 1, "BLOCK_N": 256}}, False, at="tile.BLOCK_H"),
    Fact("B6", "gemm", {"tile": {"stages": 1}, "dims": {"K": {"values": [64]}}}),
    Fact("B6", "gemm", DYNAMIC_K, holds=None),
    Fact("B6", "row_norm", in_chunks(threads=256, BLOCK_C=2048), holds=None),
    # Copies
    Fact("C2", "gemm", count=4),
    Fact("C2", "gemm", {"tensors": {"b": {"shape": "N K", "dtype": "same_as(a)"}}, "tile": {"BLOCK_K": 20}}),
    Fact("C3", MLA, {"schedule": "plain", "tile": {"num_split": 1}}, count=4),
    Fact("C3", MLA, {"schedule": "plain", "tile": {"num_split": 1, "stages": 1}}, holds=None),
    Fact("C4", "gemm", count=6),
    Fact("C4", "gemm", SM_80, holds=None),
    Fact("C4", "gemm", {"dims": {"N": {"values": [2**39]}}}, False, at="dims.N"),
    Fact("C4", MLA, {"schedule": "plain", "tile": {"num_split": 1}}, count=4),
    Fact("C10", "gemm", {"tile": SMALL, **SM_80}, count=4),
    Fact("C10", "gemm", {"tile": {"BLOCK_N": 2, "threads": 128}, **SM_80}, count=4, holds=False),
    Fact("C10", "gemm", {"tile": {"BLOCK_N": "N // 32", "threads": 128}, "dims": {"N": {"values": [4096]}}, **SM_80}),
    Fact("C10", MLA, {"schedule": "plain", "tile": {"stages": 1}, **SM_80}, holds=None),
    Fact("C10", "gemm", holds=None),
    Fact("C10", "gemm", GFX942, holds=None),
    # Products
    Fact("D1", "gemm", {"tile": {"BLOCK_M": 64, "BLOCK_N": 64, "threads": 64}}, False, at="tile.threads"),
    Fact("D1", "gemm", {"tile": {"BLOCK_K": 8}}, False, "K = 8", at="tile.BLOCK_K"),
    Fact("D1", "gemm", {"tensors": {"a": {"shape": "M K", "dtype": "float32"}}}, False, at="tensors.a.dtype"),
    Fact("D1", "gemm", SM_80, holds=None),
    Fact("D2", "gemm", holds=None),
    Fact("D2", "gemm", {**EIGHT_BIT_OPERANDS, **SM_80}, holds=None),
    Fact("D3", "gemm", {"tile": {"BLOCK_N": 128, "threads": 640}}, False, helps="can be shared by: 128, 256, 512"),
    Fact(
        "D3", "gemm", {"tile": {"BLOCK_M": 48, "BLOCK_N": 40, "threads": 256}, **SM_80}, False, helps="32, 96, 160, 480"
    ),
    Fact("D3", "gemm", {"tile": {"BLOCK_M": 64, "BLOCK_N": 48, "threads": 640}}, False, helps="by: 128, 256, 384, 768"),
    Fact("D3", "gemm", {"tile": {"BLOCK_N": "N // 32", "threads": 640}}, False),
    Fact("D3", "gemm", {"tile": {"BLOCK_M": "N // 32", "BLOCK_N": 128, "threads": 640}}, False),
    Fact("D7", "gemm", {"tile": {"BLOCK_N": 496, "threads": 128}}, False, "run at n16"),
    Fact("D16", "gemm", {"tile": {"BLOCK_N": "N // 16"}}, holds=None),
    Fact("D7", "gemm", {"tile": {"BLOCK_N": 64, "threads": 128}}),
    Fact("D7", "gemm", {"tile": {"BLOCK_N": 48, "threads": 128}}),
    Fact("D7", "gemm", {"tile": {"BLOCK_N": 4288, "threads": 128}}),
    Fact("D7", "gemm", SM_80),
    Fact("D16", MLA, {"schedule": "delayed", "tile": {"num_split": 1}}, count=4),
    Fact("D16", MLA, {"schedule": "plain", "tile": {"num_split": 1}}, count=2),
    Fact("D16", "gemm", {"schedule": "persistent"}, count=4),
    Fact("D17", "gemm", {"target": {"sm_80": {}}}, holds=None),
    Fact("D17", "gemm", SM_120, holds=None),
    Fact("D17", "gemm", {"schedule": "persistent"}, holds=None),
    Fact("D17", MLA, {"schedule": "plain", "tile": {"num_split": 1, "stages": 1}}, holds=None),
    Fact("D24", "gemm", SM_80),
    Fact("D24", "gemm", {"tile": {"BLOCK_N": 128, "threads": 640}}),  # rule D3 speaks of it
    Fact("E1", "gemm", holds=None),
    # Attention
    Fact("E4", "gemm", SM_80, holds=None),
    Fact("E4", "gemm", DYNAMIC_K, holds=None),  # TMA, not cp.async
    Fact("E4", "gemm", {**DYNAMIC_K, **GFX942}, holds=None),
    Fact("E4", "gemm", {**DYNAMIC_K, **SM_80, "tile": {**SMALL, "stages": "1 + N // 8192"}}, True),
    Fact("E4", "gemm", {**DYNAMIC_K, **SM_80, "tile": {**SMALL, "stages": "2 + N // 8192"}}, False, "3 stages issue"),
    Fact("E5", "row_norm", holds=None),
    Fact("E6", "row_norm", {"compute": {"norm": "softmax", "eps": 0.0, "y": "exp(x - row_max) / row_sum"}}, holds=None),
    Fact("E13", MLA, {"tile": {"num_split": 1}}),
    Fact(
        "E13",
        MLA,
        {"dims": {"H": {"values": [64]}}, "tile": {"num_split": [{"use": 2, "when": "B <= sm_count"}, {"use": 1}]}},
        False,
    ),
    Fact("E13", MLA, {"tile": {"num_split": "drop"}}, holds=None),
    Fact("E15", MLA, split_block(128, 64, 64, 384)),  # 512 with the producer's 128
    Fact("E15", MLA, split_block(128, 64, 64, 512), False, "512 threads and 128 of the producer"),
    Fact("E15", MLA, split_block(64, 64, 64, 512)),
    Fact("E15", MLA, split_block(128, 32, 128, 256)),
    Fact("E15", MLA, split_block(128, 16, 128, 256), False, "256 threads on 128 keys of 16 rotary columns"),
    Fact("E15", MLA, split_block(128, 16, 128, 128)),
    Fact("E15", MLA, split_block(128, 16, 112, 256)),
    Fact("E15", MLA, {**split_block(128, 64, 64, 512), **SM_80}, holds=None),  # no producers
    Fact("E15", MLA, {"schedule": "delayed", "tile": {"num_split": 2}}, holds=None),  # barriers of its own
    # Rows
    Fact("F1", MLA, {"schedule": "plain", "tile": {"num_split": 2}}, count=2),  # the combine's row, for each dtype
    Fact("F17", MLA, {"schedule": "plain", "tile": {"num_split": 2}}, count=2),
    Fact("F2", "row_norm", norm(256, BLOCK_C=128, BLOCK_M=8, threads=128), holds=None),
    Fact("F2", MLA, {"schedule": "plain"}, holds=None),
    Fact("F2", "row_norm", norm(160, BLOCK_C=160, BLOCK_M=8, threads=256, preload=False)),
    Fact("F2", "row_norm", norm(160, BLOCK_C=160, BLOCK_M=8, threads=256, preload=True), False),  # `gamma` beside x
    Fact("F1", "row_norm", norm(96, BLOCK_C=96, BLOCK_M=1, threads=96), holds=None),
    Fact("F9", "row_norm", norm(1280, BLOCK_C=128, BLOCK_M=16, threads=256, blocks_per_sm=2)),
    Fact("F9", "row_norm", norm(1408, BLOCK_C=128, BLOCK_M=16, threads=256, blocks_per_sm=2), False),
    Fact("F9", "row_norm", {**norm(2944, BLOCK_C=128, BLOCK_M=16, threads=256), "compute": {"y": "x * rstd"}}, count=2),
    Fact("F18", "row_norm", norm(256, BLOCK_C=1024, BLOCK_M=1, threads=128)),
    Fact("F18", "row_norm", norm(4096, BLOCK_C=2048, BLOCK_M=1, threads=128), False, "256 lanes"),
    Fact("F18", "row_norm", norm(256, BLOCK_C=128, BLOCK_M=4, threads=128)),
    Fact("F18", "row_norm", norm(256, BLOCK_C=128, BLOCK_M=16, threads=128)),
    Fact("F18", "row_norm", norm(256, BLOCK_C=128, BLOCK_M=1, threads=128), False),
    Fact("F18", "row_norm", norm(256, BLOCK_C=128, BLOCK_M=2, threads=128)),
    Fact("F18", "row_norm", norm(256, BLOCK_C=128, BLOCK_M=9, threads=128), False),
    Fact("F18", "row_norm", norm(256, BLOCK_C=8, BLOCK_M=128, threads=128)),  # one lane a row
    Fact("F18", "row_norm", in_chunks(threads=256, BLOCK_C=2048)),
    Fact("F18", "row_norm", in_chunks(threads=96, BLOCK_C=768), False, "96 threads share a row", at="tile.threads"),
    Fact("F20", "row_norm", in_chunks(threads=256, BLOCK_C=2048)),
    Fact("F20", "row_norm", norm(256, BLOCK_C=128, BLOCK_M=8, threads=128)),
    Fact("F20", "row_norm", norm(256, BLOCK_C=128, BLOCK_M=7, threads=128), False, at="tile.BLOCK_M"),
    Fact("G1", "gemm", {"tile": {"stages": 1}}, holds=None),
    Fact("G2", "gemm", holds=None),
    Fact("G2", "gemm", GFX942, holds=None),
    # Bandwidth
    Fact("I3", "gemm", holds=None),
    Fact(
        "I3", MLA, {"schedule": "plain", "tile": {"num_split": 2, "stages": 1}, **GFX942}
    ),  # the combine has no product
    Fact("J1", "gemm", {"tile": {**SMALL, "stages": 1}, **GFX942}, holds=None),
    Fact("J8", "gemm", {"tile": {**SMALL, "stages": "drop"}, **SM_80}, holds=None),
    Fact("J8", "gemm", {"tile": {**SMALL, "BLOCK_K": 64, "stages": 3}, **SM_80}, False, "with 2, two fit"),
    Fact("J8", "gemm", {"tile": {**SMALL, "BLOCK_K": 128, "stages": 2}, **SM_80}),
    Fact("J8", "gemm", {"tile": {**SMALL, "BLOCK_M": 64, "BLOCK_K": 128, "stages": 3}, **SM_80}),  # 2 leave one too
    Fact("J8", "gemm", {"tile": {"stages": 4}}, holds=None),
    Fact("J8", "row_norm", holds=None),
    Fact("J8", "gemm", {"tile": {**SMALL, "BLOCK_M": "N // 32", "stages": 3}, **SM_80}, holds=None),
    Fact("J10", "gemm", holds=None),
    Fact("J10", "row_norm", GFX942, holds=None),
    Fact("J10", "row_norm", norm(256, BLOCK_C=256, BLOCK_M=1, threads=32, blocks_per_sm=32)),
    Fact("J10", "row_norm", norm(256, BLOCK_C=256, BLOCK_M=1, threads=32, blocks_per_sm=33), False),
    Fact("J9", MLA, {"schedule": "plain", "tile": {"num_split": 4}}, count=2),
    Fact("J9", "row_norm", count=4),
    Fact("J9", "gemm", {"dims": {"M": {"dynamic": True, "max": 16_896}, "N": {"values": [256]}}}),
    Fact("J9", "gemm", {"schedule": "persistent"}, holds=None),
    # Numerics
    Fact("N1", "gemm", integers("uint8", 33_025)),
    Fact("N1", "gemm", integers("uint8", 33_026), False, at="dims.K", helps="declare K up to 33025"),
    Fact("N1", "gemm", {**integers("int8", 2**20), "compute": {"accum": "float32", "c": "acc"}}, holds=None),
    Fact("N3", "row_norm", eps(2.0**-24, "float16")),
    Fact("N3", "row_norm", eps(5.9e-8, "float16"), False),
    Fact("N3", "row_norm", eps(2.2250738585072014e-308, "float64")),
    Fact("N3", "row_norm", eps(2e-308, "float64"), False),
    Fact("N3", "row_norm", eps(1.1754943508222875e-38, "float32")),
    Fact("N3", "row_norm", eps(1.1754943508222873e-38, "bfloat16"), False),
    Fact("N4", MLA, {"compute": {"scale": "1e308 * D_nope"}}, False, "= inf"),
    Fact("N3", "row_norm", {"compute": {"norm": "softmax", "eps": 0.0, "y": "exp(x - row_max) / row_sum"}}, holds=None),
    Fact("N4", "gemm", holds=None),
    Fact("N5", "row_norm", stored("int8", -128, 127)),
    Fact("N5", "row_norm", stored("int8", -129, 127), False),
    Fact("N5", "row_norm", stored("int8", -128, 128), False),
    Fact("N5", "row_norm", stored("uint8", 0, 255)),
    Fact("N5", "row_norm", stored("uint8", -1, 255), False),
    Fact("N5", "row_norm", stored("uint8", 0, 256), False),
    Fact("N5", "row_norm", stored("float8_e5m2", -57_344, 57_344)),
    Fact("N5", "row_norm", stored("float8_e5m2", -57_345, 57_344), False),
    Fact("N5", "row_norm", stored("float8_e5m2", -57_344, 57_345), False),
    Fact("N5", "row_norm", holds=None),
    # Schedules
    Fact(
        "S1",
        "gemm",
        {"schedule": [{"use": "persistent", "when": "M <= 16"}, {"use": "plain"}], **SM_80},
        False,
        at="schedule[0].use",
    ),
    Fact("S3", "gemm", {"schedule": "persistent", "tile": {"STORE_N": 256}}),
    Fact("S3", "gemm", {"schedule": "persistent", "tile": {"BLOCK_N": 272, "STORE_N": 272}}, False),
    Fact("S3", "gemm", {"schedule": "stream_k", "tile": {"BLOCK_M": 256, "threads": 256}}),
    Fact("S3", MLA, {"schedule": "delayed"}, holds=None),
    Fact("S3", "gemm", holds=None),
    Fact("S4", "gemm", {"schedule": "persistent", "tile": {"BLOCK_M": 128}}),
    Fact("S5", "gemm", {"schedule": "stream_k", "tile": {"BLOCK_M": 64, "threads": 128}}),
    Fact("S6", "gemm", {"schedule": "persistent"}, holds=None),
    Fact("S7", "gemm", one_tile((2**31 - 1 - 512 - 1) * 128)),
    Fact("S7", "gemm", one_tile((2**31 - 1 - 512) * 128), False, at="dims.M"),
    Fact("S7", MLA, {"schedule": "delayed"}, holds=None),
    # Tile values
    Fact("T4", "row_norm", {"dispatch": {"prefer": [{"when": "C < 2", "call": "a:b"}]}}),
    Fact("T4", "row_norm", {"dispatch": {"prefer": [{"when": "C < 1", "call": "a:b"}]}}, False),
    Fact("T4", "row_norm", {"dispatch": {"prefer": [{"call": "a:b"}]}}),
    Fact("T1", "row_norm", {"dims": {"C": {"values": [256], "also": "4096 % C == 0"}}}),
    Fact("T1", "row_norm", {"dims": {"C": {"values": [256], "also": "4096 % (C - 1) == 0"}}}, False, at="dims.C.also"),
    Fact(
        "T1",
        "gemm",
        {"tile": {"BLOCK_N": [{"use": 128, "when": "N > 5000"}, {"use": "65536 // (N - 4096)"}]}},
        False,
        at="tile.BLOCK_N[1].use",
    ),
    Fact(
        "T1",
        "gemm",
        {"tile": {"BLOCK_N": [{"use": 128, "when": "K % (N - 4096) == 0"}, {"use": 64}]}},
        False,
        at="tile.BLOCK_N[0].when",
    ),
    Fact("T2", "gemm", {"tile": {"BLOCK_N": [{"use": 128, "when": "N > 4096"}, {"use": 64}]}}, holds=None),
    Fact("T3", "gemm", {"tile": {"stages": "K // 4096"}}),
    Fact(
        "T3",
        "gemm",
        {"tile": {"stages": [{"use": "K // 8192", "when": "N > 4096"}, {"use": 2}]}},
        False,
        at="tile.stages[0].use",
    ),
]
