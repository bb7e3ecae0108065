"""Numbers that follow one another, as spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby


def spans(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of consecutive numbers, which come in increasing order."""
    for _, run in groupby(enumerate(numbers), key=lambda entry: entry[1] - entry[0]):
        members = [number for _, number in run]
        yield members[0], members[-1]
