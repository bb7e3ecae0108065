"""Interleaved timing with a clock of the test instead of a GPU."""

import pytest

from tilegen.bench.rounds import MOST, Spread, interleave, ratio, spread


class Clock:
    """Times a call by the number that it returns; ``drift`` slows every call down from round to round."""

    def __init__(self, drift=0.0):
        self.drift, self.calls, self.order = drift, 0, []

    def samples(self, call, *, cold, count):
        name, seconds = call()
        self.order.append((name, cold, count))
        self.calls += 1
        return [seconds * (1 + self.drift * self.calls)] * count


CALLS = {"ours": lambda: ("ours", 1e-3), "torch": lambda: ("torch", 2e-3), "copy": lambda: ("copy", 0.5e-3)}


def rounds_of(clock, **options):
    return interleave(CALLS, clock, **{"cold": True, "rounds": 6, "round_s": 0.01, "seed": 0, **options})


def test_every_round_times_every_call_once():
    clock = Clock()
    found = rounds_of(clock)
    timed = clock.order[len(CALLS) :]
    assert [len(samples) for samples in found.values()] == [6, 6, 6]
    assert all({name for name, _, _ in timed[i : i + 3]} == set(CALLS) for i in range(0, 18, 3))


def test_the_order_differs_between_rounds_and_is_the_same_for_the_same_seed():
    first, again, other = Clock(), Clock(), Clock()
    rounds_of(first), rounds_of(again), rounds_of(other, seed=1)
    orders = {tuple(first.order[i : i + 3]) for i in range(3, 21, 3)}
    assert len(orders) > 1
    assert first.order == again.order
    assert first.order != other.order


def test_a_ratio_is_taken_within_a_round_so_drift_cancels():
    found = rounds_of(Clock(drift=0.01))
    to_torch = ratio(found["torch"], found["ours"])
    assert to_torch.median == pytest.approx(2, rel=0.02)
    assert max(max(samples) for samples in found["ours"]) > 1.15e-3


def test_a_fast_call_gets_more_samples_up_to_a_limit_and_a_slow_one_at_least_three():
    clock = Clock()
    slow_and_fast = {"fast": lambda: ("fast", 1e-6), "slow": lambda: ("slow", 1.0)}
    interleave(slow_and_fast, clock, cold=False, rounds=1, round_s=0.01, seed=0)
    assert {name: count for name, _, count in clock.order[2:]} == {"fast": MOST, "slow": 3}


def test_the_spread_leaves_a_tenth_of_the_samples_on_each_side():
    assert spread([[1.0] * 2, [float(i) for i in range(2, 10)]]) == Spread(4.5, 1.0, 8.0)
