"""What people reported against TileLang and its users, each as a small spec: the checker gives the answer they needed."""

from __future__ import annotations

from typing import Any

import pytest

from tilegen.check.checker import check
from tilegen.check.examples import Example
from tilegen.spec import Severity, load_bytes

NT = {"b": {"shape": "N K", "dtype": "same_as(a)"}}
FP16 = {"a": {"shape": "M K", "dtype": "float16"}}

# (thread, family, change, rule or None where the kernel is fine, part of the arithmetic)
REPORTS: list[tuple[str, str, dict[str, Any], str | None, str]] = [
    (
        "tilelang#2398: no available layout found for 192 elements over 128 threads",
        "row_norm",
        {"dims": {"C": {"values": [192]}}, "tile": {"BLOCK_C": 192, "BLOCK_M": 1, "threads": 128}},
        "TG-F1",
        "192 elements over 128 threads",
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
        "cutlass#1840: 256 x 208 spills",
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
        "2048 registers a thread",
    ),
    (
        "tilelang#330: products of dims beyond int32 are promoted, a single dim is not",
        "row_norm",
        {"dims": {"M": {"dynamic": True, "max": 2**31}}},
        "TG-H2",
        "over 2^31 - 1",
    ),
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
