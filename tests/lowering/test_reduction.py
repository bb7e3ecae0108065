import pytest

from tilegen.lowering.reduction import RowReduction, fragment_tile_ok, row_layout, row_reduce_ok, row_reduction


@pytest.mark.parametrize(
    ("rows", "columns", "threads", "ok"),
    [(1, 192, 128, False), (1, 256, 128, True), (1, 100, 128, True), (8, 96, 128, True), (1, 200, 128, False)],
)
def test_fragments_are_dealt_in_whole_rounds(rows, columns, threads, ok):
    assert fragment_tile_ok(rows, columns, threads) == ok


@pytest.mark.parametrize(
    ("rows", "columns", "threads", "ok"),
    [
        (8, 96, 128, False),  # v = 2: 48 lanes
        (64, 72, 128, False),  # v = 4: 18 lanes
        (4, 2560, 256, False),
        (4, 160, 128, False),
        (8, 256, 128, True),
        (16, 128, 128, True),
        (32, 64, 128, True),
        (1, 1024, 128, True),
        (1, 960, 96, False),  # 96 threads are no power of two
        (2, 32, 128, True),
        (1, 100, 128, False),
    ],
)
def test_row_reductions(rows, columns, threads, ok):
    assert row_reduce_ok(rows, columns, threads, 2) == ok


def test_layout_of_a_row():
    assert row_layout(8, 256, 128, 2).vector == 8
    assert row_layout(8, 256, 128, 2).lanes == 32


@pytest.mark.parametrize(
    ("rows", "columns", "outcome", "held"),
    [
        (4, 160, "row_per_thread", 160),  # 32 threads hold each element
        (32, 320, "row_per_thread", 320),
        (64, 96, "row_per_thread", 96),
        (256, 96, "row_per_thread", 192),
        (8, 256, "dealt", 16),
        (1, 160, "refused", 0),
        (192, 96, "refused", 0),
        (2, 33, "refused", 0),
    ],
)
def test_a_loop_over_the_rows_turns_a_refusal_into_a_cliff(rows, columns, outcome, held):
    assert row_reduction(rows, columns, 128, 2, row_loop=True) == RowReduction(outcome, held)
    alone = row_reduction(rows, columns, 128, 2, row_loop=False)
    assert alone.outcome == ("dealt" if outcome == "dealt" else "refused")


def test_replication_of_a_row_held_whole():
    assert row_reduction(4, 160, 128, 2, row_loop=True).replication(4, 160, 128) == 32.0
    assert row_reduction(8, 256, 128, 2, row_loop=True).replication(8, 256, 128) == 1.0
