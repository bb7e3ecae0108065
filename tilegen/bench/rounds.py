"""Interleaved timing: in each round every call is timed once, in an order of its own, so that drift of the card meets all
of them alike. The ratio of two calls is taken within a round.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Call = Callable[[], object]

LEAST, MOST = 3, 40
"""Samples of one call in one round."""


class Timer(Protocol):
    """What times calls: a GPU, or a clock of a test."""

    def samples(self, call: Call, *, cold: bool, count: int) -> list[float]:
        """Seconds of ``count`` calls; ``cold``: with nothing of them in L2."""
        ...


@dataclass(frozen=True)
class Spread:
    """A median with the values that a tenth of the samples lie under and over."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """ValueError for no values."""
        ordered = sorted(values)
        tenth = len(ordered) // 10
        return cls(statistics.median(ordered), ordered[tenth], ordered[-1 - tenth])


def interleave(
    calls: Mapping[str, Call], timer: Timer, *, cold: bool, rounds: int, round_s: float, seed: int
) -> dict[str, list[list[float]]]:
    """The samples of each call, round by round. A call gets about ``round_s`` seconds a round."""
    order = random.Random(seed)
    counts = {name: _count(timer, call, cold, round_s) for name, call in calls.items()}
    found: dict[str, list[list[float]]] = {name: [] for name in calls}
    for _ in range(rounds):
        names = list(calls)
        order.shuffle(names)
        for name in names:
            found[name].append(timer.samples(calls[name], cold=cold, count=counts[name]))
    return found


def _count(timer: Timer, call: Call, cold: bool, round_s: float) -> int:
    once = statistics.median(timer.samples(call, cold=cold, count=LEAST))
    return max(LEAST, min(MOST, int(round_s / max(once, 1e-9))))


def spread(rounds: Sequence[Sequence[float]]) -> Spread:
    """Over all samples of a call."""
    return Spread.of([sample for samples in rounds for sample in samples])


def ratio(peer: Sequence[Sequence[float]], ours: Sequence[Sequence[float]]) -> Spread:
    """How many times as long the peer takes: the median over the rounds, and the lowest and highest round."""
    found = [statistics.median(p) / statistics.median(o) for p, o in zip(peer, ours, strict=True)]
    return Spread(statistics.median(found), min(found), max(found))
