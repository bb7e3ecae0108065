import pytest

from tilegen.lowering.reduction import fragment_tile_ok, row_layout, row_reduce_ok, row_reduction


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
    found = row_reduction(rows, columns, 128, 2, row_loop=True)
    assert (found.outcome, found.elements_per_thread) == (outcome, held)
    alone = row_reduction(rows, columns, 128, 2, row_loop=False)
    assert alone.outcome == ("dealt" if outcome == "dealt" else "refused")


def test_replication_of_a_row_held_whole():
    assert row_reduction(4, 160, 128, 2, row_loop=True).replication(4, 160, 128) == 32.0
    assert row_reduction(8, 256, 128, 2, row_loop=True).replication(8, 256, 128) == 1.0


SEEN = [
    # rows, columns, threads, item size, what else -> outcome, lanes. As TileLang 0.1.15 lowers them.
    (20, 2560, 128, 2, {"term_itemsize": 4}, "dealt", 128),
    (64, 1280, 256, 2, {"term_itemsize": 4}, "row_per_thread", 1),
    (32, 384, 128, 2, {"term_itemsize": 4}, "row_per_thread", 1),
    (8, 1920, 64, 2, {"term_itemsize": 2}, "row_per_thread", 1),
    (2, 3200, 32, 2, {"term_itemsize": 4, "row_loop": False}, "dealt", 32),
    (64, 768, 256, 2, {"term_itemsize": 4, "row_loop": False}, "refused", 1),
    (2, 1760, 32, 2, {"term_itemsize": 4, "pitch": 1623, "row_loop": False}, "dealt", 32),
    (4, 640, 128, 4, {"term_itemsize": 4, "beside": True}, "dealt", 128),
    (4, 640, 128, 4, {"term_itemsize": 4}, "row_per_thread", 1),
    (32, 528, 128, 2, {"term_itemsize": 4, "beside": True}, "row_per_thread", 1),
    (256, 960, 1024, 2, {"term_itemsize": 4, "beside": True}, "refused", 1),
    (512, 264, 1024, 4, {"term_itemsize": 4, "beside": True}, "row_per_thread", 1),
    (16, 768, 96, 4, {"term_itemsize": 4, "beside": True}, "refused", 1),
]


@pytest.mark.parametrize(("rows", "columns", "threads", "itemsize", "more", "outcome", "lanes"), SEEN)
def test_another_loop_may_give_the_layout_of_the_rows(rows, columns, threads, itemsize, more, outcome, lanes):
    found = row_reduction(rows, columns, threads, itemsize, **{"row_loop": True, **more})
    assert (found.outcome, found.lanes) == (outcome, lanes)


def test_of_two_layouts_the_one_of_fewer_registers_is_taken():
    given = {"row_loop": True, "term_itemsize": 4, "beside": True}
    # A column a thread is one register a row: 64 are fewer than a row of 96 held whole, 128 are not.
    assert [row_reduction(rows, 96, 512, 2, **given).outcome for rows in (64, 128, 256)] == [
        "refused",
        "row_per_thread",
        "row_per_thread",
    ]


def test_columns_beside_rows_decide_only_where_rows_are_fewer_than_threads():
    given = {"row_loop": True, "term_itemsize": 4, "beside": True}
    assert row_reduction(64, 384, 128, 2, **given).outcome == "dealt"
    assert row_reduction(128, 384, 128, 2, **given).outcome == "row_per_thread"
