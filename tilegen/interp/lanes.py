"""Lane axes: how one numpy operation stands for all threads and all iterations of a T.Parallel nest.

A value that differs between lanes is an array with ``axes`` dimensions: axis 0 for the threads of the frame, then one for
each enclosing T.Parallel or T.vectorized loop. An axis along which a value does not vary has size one, so numpy broadcasting
combines values of any nesting. A value that is the same everywhere is a Python or numpy scalar.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.interp.frame import Frame
from tilegen.interp.number_formats import Array

THREAD_AXIS = 0

Run = Callable[[Frame], Any]


@dataclass(frozen=True)
class Affine:
    """An integer as ``base + offset + sum(step * lane number of axis)``; ``base`` is None where it is zero."""

    base: Run | None
    offset: int
    steps: tuple[tuple[int, int], ...]

    def plus(self, other: Affine) -> Affine:
        steps = dict(self.steps)
        for axis, step in other.steps:
            steps[axis] = steps.get(axis, 0) + step
        return Affine(_sum(self.base, other.base), self.offset + other.offset, _tidy(steps))

    def times(self, factor: int) -> Affine:
        base = self.base
        scaled = None if base is None or factor == 0 else (base if factor == 1 else lambda frame: base(frame) * factor)
        return Affine(scaled, self.offset * factor, _tidy({axis: step * factor for axis, step in self.steps}))


def _sum(left: Run | None, right: Run | None) -> Run | None:
    if left is None or right is None:
        return left or right
    return lambda frame: left(frame) + right(frame)


def _tidy(steps: dict[int, int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((axis, step) for axis, step in steps.items() if step))


@dataclass(frozen=True)
class Code:
    """A compiled expression. ``const`` is its value where that is known; ``affine`` its form where it is an integer."""

    run: Run
    dtype: str
    const: Any = None
    affine: Affine | None = None

    def as_affine(self) -> Affine:
        if self.affine is not None:
            return self.affine
        if isinstance(self.const, int):
            return Affine(None, int(self.const), ())
        return Affine(self.run, 0, ())


def constant(value: Any, dtype: str) -> Code:
    return Code(lambda frame: value, dtype, const=value)


def lane_numbers(extent: int, axis: int, axes: int, start: int = 0) -> Array:
    """``start, start + 1, ...`` along one axis of ``axes``."""
    shape = [1] * axes
    shape[axis] = extent
    return np.arange(start, start + extent, dtype=np.int64).reshape(shape)


def is_lane_array(value: Any) -> bool:
    """Whether a value truly differs between lanes (or could: it has more than one element)."""
    return isinstance(value, np.ndarray) and value.size != 1


def as_scalar(value: Any) -> Any:
    """A one-element array as a Python number; other values unchanged."""
    if type(value) is int:
        return value
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(())[()]
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.bool_):
        return bool(value)
    return value


def own(value: Any) -> Any:
    """A value that later writes to memory cannot change: a load gives a view of its buffer."""
    return value.copy() if isinstance(value, np.ndarray) and value.base is not None else value


def combine_masks(left: Array | None, right: Array | None) -> Array | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right
