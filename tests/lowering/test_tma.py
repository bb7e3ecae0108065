import pytest

from tilegen.lowering.legal import nearest_legal
from tilegen.lowering.tma import TmaPlan, swizzle_span, tma_copy, tma_plan
from tilegen.targets import target

TMA = target("sm_90a").tma


@pytest.mark.parametrize(
    ("rows", "columns", "itemsize", "span"),
    [
        (64, 64, 2, 128),
        (64, 32, 2, 64),
        (64, 96, 2, 64),
        (64, 16, 2, 32),
        (64, 40, 2, 0),
        (60, 64, 2, 0),
        (8, 128, 1, 128),
    ],
)
def test_swizzle_is_the_widest_span_that_divides_a_row(rows, columns, itemsize, span):
    assert swizzle_span(rows, columns, itemsize, TMA) == span


@pytest.mark.parametrize(
    ("rows", "columns", "plan"),
    [
        (128, 64, TmaPlan(128, 128, 64, 1, 1024)),
        (64, 256, TmaPlan(128, 64, 64, 4, 1024)),
        (64, 512, TmaPlan(128, 64, 64, 8, 1024)),
        (320, 64, TmaPlan(128, 64, 64, 5, 1024)),  # 320 = 5 x 64; 160 and 80 rows are no multiple of 128 bytes alone
        (384, 64, TmaPlan(128, 192, 64, 2, 1024)),
        (512, 64, TmaPlan(128, 256, 64, 2, 1024)),
        (64, 96, TmaPlan(64, 64, 32, 3, 512)),
    ],
)
def test_boxes_of_a_swizzled_float16_tile(rows, columns, plan):
    assert tma_plan(rows, columns, 2, TMA) == plan


@pytest.mark.parametrize("rows", [257, 272, 288])
def test_rows_that_tilelang_cannot_split(rows):
    reason = tma_plan(rows, 64, 2, TMA)
    assert isinstance(reason, str)
    assert str(rows) in reason


def test_an_unswizzled_row_is_boxed_whole_up_to_256():
    assert tma_plan(4, 200, 2, TMA) == TmaPlan(0, 4, 200, 1, 128)
    assert tma_plan(4, 512, 2, TMA, swizzled=False) == TmaPlan(0, 4, 256, 2, 128)


def test_the_four_outcomes_of_a_pipelined_load():
    def outcome(rows, columns, stride=4096):
        return tma_copy(rows, columns, 2, TMA, "pipelined_load", row_stride=stride).outcome

    assert outcome(256, 64) == "fits"
    assert outcome(384, 64) == "splits"
    assert outcome(128, 64, 1001) == "falls_back"  # the row of 2002 bytes is no multiple of 16
    assert outcome(128, 60) == "falls_back"
    assert outcome(272, 64) == "refused"


def test_a_store_never_stops_the_compiler_and_an_explicit_copy_always_does():
    assert tma_copy(272, 64, 2, TMA, "store", row_stride=4096).outcome == "falls_back"
    assert tma_copy(272, 64, 2, TMA, "explicit", row_stride=4096).outcome == "refused"
    assert tma_copy(128, 64, 2, TMA, "explicit", row_stride=1001).outcome == "refused"


def test_a_chip_without_tma_copies_plainly():
    assert tma_copy(128, 64, 2, target("sm_80").tma, "pipelined_load", row_stride=4096).outcome == "falls_back"


def test_a_stride_of_a_tebibyte_does_not_fit_a_tensor_map():
    assert tma_copy(128, 64, 2, TMA, "store", row_stride=1 << 39).outcome == "falls_back"
    assert tma_copy(128, 64, 2, TMA, "store", row_stride=(1 << 39) - 8).outcome == "fits"


def test_the_nearest_rows_to_272_are_256_and_320():
    near = nearest_legal(272, lambda rows: not isinstance(tma_plan(rows, 64, 2, TMA), str), step=16)
    assert near.values() == (256, 320)
