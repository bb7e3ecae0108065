"""The arithmetic behind tiles: the figures are those worked out by hand, and follow the plan."""

from __future__ import annotations

from typing import Any

import pytest

from tilegen.check.argument import argument
from tilegen.check.checker import plans
from tilegen.check.examples import Example
from tilegen.spec import load_bytes


def lines(of: str, change: dict[str, Any]) -> str:
    plan = next(iter(plans(load_bytes(Example("", False, of, change, "").spec(), "example.toml"))))
    return "\n".join(argument(plan))


MLA = "attention/mla_decode"


@pytest.mark.parametrize(
    ("change", "accumulator"),
    [({"schedule": "plain"}, "`acc`"), ({"schedule": "delayed"}, "`acc_left`, `acc_middle`, `acc_right`")],
    ids=["plain", "delayed"],
)
def test_mla_decode_needs_two_warp_groups_side_by_side(change: dict[str, Any], accumulator: str) -> None:
    text = lines(MLA, change)
    assert "BLOCK_H = 64 rows: the least that a warp group may own, for WGMMA has 64 rows" in text
    assert f"{accumulator}: 64 x 512 float32 over 128 threads is 256 registers a thread" in text
    assert f"{accumulator}: 64 x 512 float32 over 256 threads is 128 registers a thread" in text
    assert "282 of 2" in text.split("spills")[0]
    assert "hence 2 warp groups at least; threads = 256 are 2 warp groups" in text
    assert "64 rows are 1 warp group high, so the 2 stand side by side along the columns: policy full_col" in text


def test_half_the_latent_needs_one_warp_group() -> None:
    text = lines(MLA, {"schedule": "plain", "dims": {"D_nope": {"values": [256]}}, "tile": {"threads": 128}})
    assert (
        "64 x 256 float32 over 128 threads is 128 registers a thread; with about 26 for the rest, 154 of 240: fits"
        in text
    )
    assert "hence 1 warp group at least; threads = 128 are 1 warp group" in text
    assert "side by side" not in text


def test_a_gemm_tile_of_128_rows_is_two_wgmma_high() -> None:
    text = lines("gemm", {})
    assert "BLOCK_M = 128 rows: 2 times the 64 rows of a WGMMA" in text
    assert "128 x 256 float32 over 256 threads is 128 registers a thread" in text
    assert "square: 4 x 2 warps, 2 columns of warps beside each other, each with 32 x 128 of `acc`" in text
    assert "full_col would come to the same" in text


def test_the_groups_of_a_persistent_gemm_hold_parts_one_below_the_other() -> None:
    text = lines("gemm", {"schedule": "persistent"})
    assert "`acc_upper`, `acc_lower`: 128 x 256 float32 over 256 threads is 128 registers a thread" in text
    assert "one below the other: `acc_upper` 64 x 256, `acc_lower` 64 x 256" in text


def test_shared_memory_says_what_is_left_or_over() -> None:
    assert "together 147456 B; sm_90a gives a block 232448 B" not in lines("gemm", {"tile": {"stages": 5}})
    assert "together 148480 B; sm_90a gives a block 232448 B, 83968 left" in lines("gemm", {})
    assert "14336 over" in lines("gemm", {"tile": {"stages": 5}})


def test_a_row_norm_is_argued_by_lanes_and_registers() -> None:
    text = lines("row_norm", {"dims": {"C": {"values": [256]}}, "tile": {"BLOCK_C": 128, "BLOCK_M": 8}})
    assert "16 lanes of 16 bytes share a row: 128 threads are 8 rows a pass, a block has 8" in text
    assert "`x_row`" in text
