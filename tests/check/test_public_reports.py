"""What people reported against TileLang and its users, each as a small spec: the checker gives the answer they needed."""

from __future__ import annotations

from typing import Any

import pytest

from tilegen.check.checker import check, plans
from tilegen.check.examples import Example
from tilegen.plan.model import Scope
from tilegen.spec import Severity, SpecError, load_bytes

NT = {"b": {"shape": "N K", "dtype": "same_as(a)"}}
FP16 = {"a": {"shape": "M K", "dtype": "float16"}}

# (thread, family, change, rule or None where the kernel is fine, part of the arithmetic)
REPORTS: list[tuple[str, str, dict[str, Any], str | None, str]] = [
    (
        "tilelang#2398: no available layout found for 192 elements over 128 threads",
        "row_norm",
        {"dims": {"C": {"values": [192]}}, "tile": {"BLOCK_C": 192, "BLOCK_M": 1, "threads": 128}},
        "TG-F2",
        "192",
    ),
    (
        "tilelang#2537: columns 96 to 103 of 16 x 104 over 384 threads stay unwritten",
        "gemm",
        {"tile": {"BLOCK_M": 16, "BLOCK_N": 104, "threads": 384}, "target": {"sm_80": {}}},
        "TG-D3",
        "12 warps cannot share 16 x 104",
    ),
    (
        "tilelang#2381: the tail of K is dropped at BLOCK_K 24",
        "gemm",
        {"tile": {"BLOCK_N": 128, "BLOCK_K": 24, "stages": 2}, "target": {"sm_86": {}}},
        "TG-D8",
        "K = 24 is no multiple of 16",
    ),
    (
        "tilelang#358: warp rows are no multiple of 16",
        "gemm",
        {"tile": {"BLOCK_M": 24, "BLOCK_N": 64, "threads": 128, "stages": 2}, "target": {"sm_80": {}}},
        "TG-D4",
        "24 x 64 is no whole number of 16 x 8 tiles",
    ),
    ("tilelang#2555: BLOCK_K 48 aborts; it is fine by now", "gemm", {"tile": {"BLOCK_K": 48}}, None, ""),
    (
        "tilelang#2928: BLOCK_N 160 runs as n32; it is n160 by now",
        "gemm",
        {"tile": {"BLOCK_N": 160, "threads": 128}},
        None,
        "",
    ),
    (
        "tilelang#460: TMA cannot be initialised for a dynamic N",
        "gemm",
        {"dims": {"N": {"dynamic": True, "max": 8192}}},
        "TG-C5",
        "not a multiple of 16",
    ),
    (
        "TileOPs#2151: K that is no multiple of 8 leaves the fast path",
        "gemm",
        {"dims": {"K": {"values": [4100]}}, "tensors": NT},
        "TG-C4",
        "K x 2 B = 8200 B, not a multiple of 16",
    ),
    (
        "cutlass#1840, #2219: 256 x 208 spills",
        "gemm",
        {"tile": {"BLOCK_M": 256, "BLOCK_N": 224, "threads": 256, "policy": "full_row", "stages": 2}},
        "TG-D16",
        "= 224 registers a thread",
    ),
    (
        "vllm#56974: 65536 blocks in y",
        "gemm",
        {"dims": {"M": {"dynamic": True, "max": 8_388_481}}},
        "TG-A5",
        "65536, allowed are 1 to 65535",
    ),
    (
        "fla#172: 10923 x 6 blocks in y",
        "gemm",
        {"dims": {"M": {"dynamic": True, "max": 10_923 * 6 * 128}}},
        "TG-A5",
        "65536, allowed are 1 to 65535",
    ),
    (
        "DeepSpeed#1239: 32 x 2048 sequences in z",
        "attention/mla_decode",
        {"schedule": "plain", "dims": {"B": {"dynamic": True, "max": 32 * 2048}}, "tile": {"num_split": 2}},
        "TG-A5",
        "grid.z = B = 65536, allowed are 1 to 65535",
    ),
    (
        "flashinfer#2655: MLA does not fit the shared memory of sm_120",
        "attention/mla_decode",
        {"target": {"sm_120a": {}}},
        "TG-B1",
        "sm_120a gives a block 101376 B",
    ),
    (
        "TileOPs#1852: Downcast from tirx.Sub to ir.IntImm failed",
        "gemm",
        {
            "dims": {"K": {"dynamic": True, "max": 8192, "multiple_of": 8}},
            "tile": {"BLOCK_N": 128, "stages": 3},
            "target": {"sm_89": {}},
        },
        "TG-E4",
        "the loop over ceildiv(K, 64) blocks",
    ),
    (
        "aiter#3257: 98304 bytes of LDS on a chip with 65536",
        "gemm",
        {"tile": {"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 128, "stages": 1}, "target": {"gfx942": {}}},
        "TG-B1",
        "gfx942 gives a block 65536 B",
    ),
    (
        "TileOPs#348: no tile of a row fits; its registers are what a norm runs out of",
        "row_norm",
        {"dims": {"C": {"values": [65536]}}, "tile": {"BLOCK_C": 128, "BLOCK_M": 8, "threads": 128}},
        "TG-F9",
        "4096 registers a thread",
    ),
    (
        "tilelang#330, #390, #2560: products of dims beyond int32 are promoted, a single dim is not",
        "row_norm",
        {"dims": {"M": {"dynamic": True, "max": 2**31}}},
        "TG-H2",
        "over 2^31 - 1",
    ),
    (
        "tilelang#2399: a reduction of 96 columns over 128 threads crashes",
        "row_norm",
        {"dims": {"C": {"values": [96]}}, "tile": {"BLOCK_C": 96, "BLOCK_M": 1, "threads": 128}},
        "TG-F2",
        "1 x 96, has no power of two of 128 threads",
    ),
    (
        "tilelang#2542: a sum of 48 columns gives 528 for 1176",
        "row_norm",
        {"dims": {"C": {"values": [48]}}, "tile": {"BLOCK_C": 48, "BLOCK_M": 1, "threads": 64}},
        "TG-F2",
        "1 x 48, has no power of two of 64 threads",
    ),
    (
        "tilelang#3266: lanes of a reduction that are 3 apart",
        "row_norm",
        {"dims": {"C": {"values": [96]}}, "tile": {"BLOCK_C": 96, "BLOCK_M": 8, "threads": 96}},
        "TG-F2",
        "8 x 96, has no power of two of 96 threads",
    ),
    (
        "tilelang#2522: 64-row blocks swapped at 256 rows; right by now",
        "gemm",
        {"tile": {"BLOCK_M": 256, "BLOCK_N": 128, "policy": "full_row"}},
        None,
        "",
    ),
    (
        "tilelang#1252: MLA of 128 heads a block does not fit",
        "attention/mla_decode",
        {"schedule": "plain", "tile": {"BLOCK_H": 128}},
        "TG-B1",
        "sm_90a gives a block 232448 B",
    ),
    (
        "miles#1123: the 231424 bytes of two stages do not fit where one block has 163 KB",
        "attention/mla_decode",
        {"target": {"sm_80": {}}},
        "TG-B1",
        "sm_80 gives a block 166912 B",
    ),
    (
        "vllm#53748, Lvllm#77: two stages of MLA do not fit 99 KB",
        "attention/mla_decode",
        {"tile": {"BLOCK_H": 16, "threads": 128, "stages": 2}, "target": {"sm_120a": {}}},
        "TG-B1",
        "sm_120a gives a block 101376 B",
    ),
    (
        "aiter#5035: a tile one step wider than the LDS",
        "gemm",
        {"tile": {"BLOCK_N": 144, "BLOCK_K": 128, "stages": 1}, "target": {"gfx942": {}}},
        "TG-B1",
        "4096 over",
    ),
    (
        "tilelang#1165, #1117: layouts of scores and output disagree",
        "attention/mla_decode",
        {"schedule": "plain", "tile": {"BLOCK_N": 32, "stages": 1}, "target": {"sm_80": {}}},
        "TG-D22",
        "`scores`, 64 x 32, is shared by 2 x 4 warps and `acc`, 64 x 512, is shared by 1 x 8 warps",
    ),
    (
        "TileOPs#1455: MLA over 384 threads",
        "attention/mla_decode",
        {"schedule": "plain", "tile": {"threads": 384}},
        "TG-D3",
        "12 warps cannot share 64 x 64",
    ),
    (
        "TileOPs#1394, tilelang#3039: what a pipeline fills is not used outside of it here",
        "attention/mla_decode",
        {"schedule": "plain"},
        None,
        "",
    ),
    (
        "tilelang#2668: a tile that cp.async fills is overwritten in the loop",
        "attention/mla_decode",
        {"tile": {"BLOCK_N": 32}, "target": {"sm_80": {}}},
        "TG-G2",
        "overwritten in the same iteration",
    ),
    (
        "tilelang#2566: one trip round a warp-specialised loop hangs; not seen by now",
        "gemm",
        {"dims": {"K": {"values": [64]}}, "tile": {"stages": 1}},
        None,
        "",
    ),
    (
        "tilelang#1213: 296 keys in blocks of 64; the keys past the end are masked here",
        "attention/mla_decode",
        {"schedule": "plain", "dims": {"S": {"dynamic": True, "max": 296}}},
        None,
        "",
    ),
    (
        "tilelang#2562: a TMA store of fewer than 32 threads writes nothing",
        "gemm",
        {"tile": {"threads": 16}},
        "TG-A3",
        "16 threads are not a multiple of the 32 threads of a warp",
    ),
    (
        "sglang#20661: a width that the kernel was never meant for",
        "row_norm",
        {"dims": {"C": {"values": [128, 16_384]}}, "tile": {"BLOCK_C": 128, "BLOCK_M": 8, "threads": 128}},
        "TG-F9",
        "registers a thread",
    ),
    (
        "aiter#1468, flashinfer#5106, #5323: MLA of 4 and of 32 heads",
        "attention/mla_decode",
        {
            "dims": {"H": {"values": [4, 32]}},
            "tile": {"BLOCK_H": 16, "BLOCK_N": 32, "threads": 128, "stages": 1},
            "target": {"sm_80": {}},
        },
        None,
        "",
    ),
    ("tilelang#2379: the base of a swizzled tile is a multiple of 1024 here", "gemm", {}, None, ""),
    (
        "tilelang dtypes.py: operands of two dtypes",
        "gemm",
        {"tensors": {**FP16, "b": {"shape": "K N", "dtype": "bfloat16"}}},
        "TG-D10",
        "is float16",
    ),
]


@pytest.mark.parametrize(
    ("thread", "family", "change", "code", "says"), REPORTS, ids=[r[0].split(":")[0] for r in REPORTS]
)
def test_a_reported_spec_gets_the_verdict_that_was_missing(
    thread: str, family: str, change: dict[str, Any], code: str | None, says: str
) -> None:
    spec = load_bytes(Example("", True, family, change, "").spec(), "report.toml")
    diagnostics = check(spec).diagnostics
    if code is None:
        assert not [d for d in diagnostics if d.severity in (Severity.ERROR, Severity.SLOW)], thread
        return
    found = [d for d in diagnostics if d.code == code]
    assert found, f"{thread}: {[d.code for d in diagnostics]}"
    assert any(says in d.label.replace("\n", " ") for d in found), [d.label for d in found]


REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    (
        "tilelang#2633: -1 threads are a kernel that does nothing",
        "gemm",
        {"tile": {"threads": -1}},
        "spec-out-of-range",
    ),
    (
        "tilelang#2311, #3005: an epilogue that reads its neighbour",
        "gemm",
        {"compute": {"c": "acc[i, j] * acc[i, j + 64]"}},
        "spec-bad-expression",
    ),
]


@pytest.mark.parametrize(("thread", "family", "change", "code"), REFUSED, ids=[r[0].split(":")[0] for r in REFUSED])
def test_a_reported_spec_is_not_even_read(thread: str, family: str, change: dict[str, Any], code: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_bytes(Example("", True, family, change, "").spec(), "report.toml")
    assert code in [entry.code for entry in caught.value.diagnostics], thread


def test_a_swizzled_tile_starts_at_a_multiple_of_1024() -> None:
    """tilelang#2379: TMA writes a 128-byte swizzle into a base of that alignment alone."""
    plan = next(iter(plans(load_bytes(Example("", True, "gemm", {}, "").spec(), "report.toml"))))
    (kernel,) = plan.kernels
    assert {buffer.alignment for buffer in kernel.scope(Scope.SHARED)} == {1024}
