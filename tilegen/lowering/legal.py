"""The nearest legal value of a tile parameter: what a refusal offers instead."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Neighbours:
    """The closest legal value at or below, and at or above, the value asked about; None where the range has none."""

    below: int | None
    above: int | None

    def values(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(v for v in (self.below, self.above) if v is not None))


def nearest_legal(
    value: int, ok: Callable[[int], bool], step: int = 1, *, low: int = 1, high: int = 1 << 16
) -> Neighbours:
    """The legal values on both sides of `value` among the multiples of `step` in [low, high].

    `ok` is any rule of this package. A value that is itself legal is returned on both sides.
    """
    return Neighbours(
        below=next(filter(ok, _multiples_down(min(value, high), step, low)), None),
        above=next(filter(ok, _multiples_up(max(value, low), step, high)), None),
    )


def _multiples_down(value: int, step: int, low: int) -> Iterator[int]:
    return iter(range(value // step * step, max(low, 1) - 1, -step))


def _multiples_up(value: int, step: int, high: int) -> Iterator[int]:
    return iter(range(-(-value // step) * step, high + 1, step))


def largest_divisor(value: int, limit: int, ok: Callable[[int], bool] = lambda _: True) -> int | None:
    """The largest divisor of `value` in [2, limit] that `ok` accepts; None where there is none."""
    return next((d for d in range(min(limit, value), 1, -1) if value % d == 0 and ok(d)), None)


def align_up(value: int, alignment: int) -> int:
    """The least multiple of `alignment` that is at least `value`."""
    return -(-value // alignment) * alignment


def is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0
