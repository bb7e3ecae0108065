import pytest

from tilegen.lowering.vector import contiguous_bytes, cp_async_bytes, fragment_vector_bytes, shared_vector_bytes
from tilegen.targets import target

SM90 = target("sm_90a")


@pytest.mark.parametrize(
    ("columns", "stride", "itemsize", "width"),
    [(64, 4096, 2, 16), (64, 1004, 2, 8), (64, 1001, 2, 2), (4, 4096, 2, 8), (96, 96, 1, 16), (3, 3, 4, 4)],
)
def test_rows_bound_the_width_of_an_access(columns, stride, itemsize, width):
    assert contiguous_bytes(columns, stride, itemsize, 16) == width


def test_a_fragment_is_dealt_evenly():
    assert fragment_vector_bytes(8, 256, 256, 2, 128, SM90) == 16
    assert fragment_vector_bytes(4, 160, 160, 2, 128, SM90) == 2
    assert fragment_vector_bytes(8, 256, 256, 2, 128, target("sm_100a")) == 32


@pytest.mark.parametrize(
    ("columns", "itemsize", "width"), [(8, 2, 8), (4, 2, 4), (2, 2, None), (16, 1, 8), (4, 4, 8), (64, 2, 16)]
)
def test_width_of_cp_async_of_64_rows_over_128_threads(columns, itemsize, width):
    assert cp_async_bytes(64, columns, columns, itemsize, 128, SM90) == width


def test_the_widest_access_that_leaves_no_lane_idle():
    assert shared_vector_bytes(64, 8, 8, 2, 128, SM90) == 8
