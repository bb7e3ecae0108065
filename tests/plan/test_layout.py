"""Layouts of shared-memory tiles: addresses and bank conflicts, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilegen.check.checker import settle
from tilegen.plan.layout import LayoutError, SharedLayout, layout_of
from tilegen.plan.model import TilePlan
from tilegen.spec import load

SPECS = Path(__file__).parents[2] / "specs"
SPEC = Path(__file__).parents[1] / "check" / "plain_gemm.toml"


def tile(rows: int, columns: int, span: int, itemsize: int = 2) -> SharedLayout:
    return SharedLayout("s", rows, columns, "float16", itemsize, span, 32)


def plan(arch: str, spec: Path = SPEC) -> TilePlan:
    return next(plan for plan, _ in settle(load(spec)) if plan.target.name == arch)


def test_a_row_major_tile_of_128_byte_rows_has_eight_rows_in_one_bank() -> None:
    layout = tile(64, 64, 0)
    assert [layout.bank(row, 0) for row in range(8)] == [0] * 8
    assert (layout.down_ways, layout.along_ways) == (8, 1)


def test_the_128_byte_swizzle_turns_each_row_of_eight_differently() -> None:
    layout = tile(64, 64, 128)
    assert [layout.bank(row, 0) for row in range(8)] == [0, 4, 8, 12, 16, 20, 24, 28]
    assert [layout.bank(1, chunk) for chunk in range(4)] == [4, 0, 12, 8]
    assert (layout.down_ways, layout.along_ways) == (1, 1)


@pytest.mark.parametrize(("columns", "span"), [(32, 64), (16, 32)])
def test_narrower_spans_are_free_of_conflicts_on_rows_of_their_width(columns: int, span: int) -> None:
    assert tile(64, columns, span).down_ways == 1


def test_rows_of_32_bytes_without_a_swizzle_conflict_twice() -> None:
    # 8 rows x 32 B are 256 B: rows 0 and 4 share a bank.
    assert tile(64, 16, 0).down_ways == 2


def test_a_row_padded_by_16_bytes_is_free_of_conflicts() -> None:
    assert tile(64, 72, 0).down_ways == 1


@pytest.mark.parametrize("span", [0, 32, 64, 128])
def test_a_layout_gives_every_chunk_its_own_address(span: int) -> None:
    layout = tile(32, 128, span)
    addresses = {layout.address(row, chunk) for row in range(32) for chunk in range(layout.chunks)}
    assert addresses == set(range(0, 32 * 128 * 2, 16))


def test_a_wide_tile_lies_in_panels_of_the_span() -> None:
    layout = tile(64, 256, 128)
    assert layout.address(0, 8) == 64 * 128
    assert layout.address(1, 8) == 64 * 128 + 128 + 16


def test_the_operands_of_a_gemm_are_swizzled() -> None:
    assert layout_of(plan("sm_90a"), "a_shared").title == "a_shared (128, 64) float16, 128-byte swizzle"
    assert layout_of(plan("sm_90a"), "b_shared").down_ways == 1


def test_one_of_the_stages_that_a_schedule_allocates_itself_is_shown() -> None:
    found = plan("sm_90a", SPECS / "gemm_relu.toml")
    rows = found.tiles["BLOCK_M"]
    assert layout_of(found, "a_shared").title == f"a_shared ({rows}, 64) float16, 128-byte swizzle"


def test_the_output_tile_is_swizzled_where_tma_stores_it_and_conflicts_where_it_does_not() -> None:
    assert layout_of(plan("sm_90a"), "c_shared").down_ways == 1
    # TileLang's own code for sm_80: row * 256 + column, 8 rows of 512 B apart.
    assert layout_of(plan("sm_80"), "c_shared").down_ways == 8


def test_an_unknown_buffer_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(LayoutError, match="it has a_shared, b_shared, c_shared"):
        layout_of(plan("sm_90a"), "acc")
