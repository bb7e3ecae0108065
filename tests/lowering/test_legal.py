from tilegen.lowering.legal import Neighbours, align_up, is_power_of_two, largest_divisor, nearest_legal


def test_neighbours_on_both_sides():
    assert nearest_legal(100, is_power_of_two) == Neighbours(64, 128)
    assert nearest_legal(64, is_power_of_two).values() == (64,)
    assert nearest_legal(100, lambda v: v % 48 == 0, step=16) == Neighbours(96, 144)


def test_no_neighbour_beyond_the_range():
    assert nearest_legal(100, is_power_of_two, low=70, high=120) == Neighbours(None, None)
    assert nearest_legal(5000, is_power_of_two, high=1024) == Neighbours(1024, None)


def test_divisors_and_rounding():
    assert largest_divisor(272, 256) == 136
    assert largest_divisor(257, 256) is None
    assert align_up(1, 16) == 16
    assert align_up(32, 16) == 32
