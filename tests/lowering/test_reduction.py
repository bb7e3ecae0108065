import pytest

from tilegen.lowering.reduction import fragment_tile_ok, row_layout, row_reduce_ok


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
