"""Sizes as the command line gives them."""

from pathlib import Path

import pytest

from tilegen.bench.shapes import ShapeError, shapes
from tilegen.spec import load

SPEC = load(Path(__file__).parent.parent.parent / "specs/rms_silu.toml")


def test_sizes_are_lists_ranges_and_expressions_of_other_dims():
    found = shapes(SPEC, {"C": "32:128:32, 4096", "M": "ceildiv(1048576, C)"})
    assert [dims["C"] for dims in found] == [32, 64, 96, 128, 4096]
    assert [dims["M"] for dims in found] == [32768, 16384, 10923, 8192, 256]


def test_a_dim_that_is_not_given_takes_its_listed_sizes():
    assert {dims["C"] for dims in shapes(SPEC, {"M": "7"})} == {160, 256, 320, 512, 640, 1024}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"K": "1"}, "has no dim `K`"),
        ({"C": "100"}, "C = 100 is outside the domain"),
        ({"C": "C"}, "`C`"),
        ({"C": "64:32"}, "rising"),
        ({"C": "a:b"}, "in integers"),
        ({"C": ""}, "is given no size"),
        ({"M": "1 // (C - 160)", "C": "160"}, "division by zero"),
        ({"M": "C", "C": "M"}, "refer to each other"),
        ({"M": "1:4096", "C": "32,64"}, "the limit is 4096"),
    ],
)
def test_a_size_that_cannot_be_used_is_named(given, message):
    with pytest.raises(ShapeError, match=message):
        shapes(SPEC, given)
