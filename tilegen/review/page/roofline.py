"""The roofline of a chip with the points of a kernel: what its operations and bytes allow, and what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from tilegen.expr import evaluate
from tilegen.plan.roofline import roofline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilegen.plan.model import TilePlan
    from tilegen.review.page.measured import Measurement
    from tilegen.review.page.views import View
    from tilegen.spec.model import Spec

LEAST_DECADES, MARGIN = 2, 0.25
"""Decades of the y axis under the peak that are shown at least, and what is left free at the ends of an axis."""


@dataclass(frozen=True)
class Point:
    """``intensity`` in operations a byte; ``attainable`` and ``reached`` in operations a second."""

    label: str
    shape: str
    view: str
    intensity: float
    attainable: float
    bound: str
    floor_us: float
    reached: float | None = None
    measured_us: float | None = None

    @property
    def share(self) -> float | None:
        """What was reached of what the roof allows."""
        return None if self.reached is None else self.reached / self.attainable


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from 10 ** low to 10 ** high."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Where a value stands, in percent of the axis, within it."""
        place = (log10(value) - self.low) / (self.high - self.low)
        return round(100 * min(1.0, max(0.0, place)), 2)

    @property
    def decades(self) -> tuple[int, ...]:
        """The powers of ten on it."""
        return tuple(range(ceil(self.low), floor(self.high) + 1))


@dataclass(frozen=True)
class Roofline:
    """``peak`` in operations a second for ``dtype`` operands, ``bandwidth`` in bytes a second."""

    arch: str
    part: str
    dtype: str
    peak: float
    bandwidth: float
    x: Axis
    y: Axis
    cases: tuple[Point, ...]
    measured: tuple[Point, ...]

    @property
    def ridge(self) -> float:
        """Operations a byte above which the tensor cores bind."""
        return self.peak / self.bandwidth

    @property
    def edge(self) -> str:
        """The roof as the points of a line, in percent from the top left; it enters at the bottom where that comes first."""
        enters = max(10.0**self.x.low, 10.0**self.y.low / self.bandwidth)
        corners = [(enters, enters * self.bandwidth), (self.ridge, self.peak), (10.0**self.x.high, self.peak)]
        return " ".join(f"{self.x.at(x)},{round(100 - self.y.at(y), 2)}" for x, y in corners)

    @staticmethod
    def plain(decade: int) -> str:
        """A power of ten in full."""
        return f"{10**decade:,}" if decade >= 0 else f"{10.0**decade:.{-decade}f}"


def rooflines(spec: Spec, views: list[View], measurements: list[Measurement]) -> list[Roofline]:
    """One roofline for each target and operand dtype whose rate is in the chip's data."""
    found = []
    for arch in dict.fromkeys(view.arch for view in views):
        mine = [view for view in views if view.arch == arch and view.sized.shape]
        for dtype in dict.fromkeys(next(iter(view.plan.dtypes.values())) for view in mine):
            group = [view for view in mine if next(iter(view.plan.dtypes.values())) == dtype]
            line = _roofline(spec, arch, dtype, group, measurements)
            if line is not None:
                found.append(line)
    return found


def _roofline(spec: Spec, arch: str, dtype: str, group: list[View], measurements: list[Measurement]) -> Roofline | None:
    plan = group[0].plan
    part = plan.target.part
    peak = part.dense_flops.get(dtype)
    if peak is None:
        return None
    cases = [point for view in group if (point := _point(view.plan, view.sized.shape, view.name, view.id)) is not None]
    reached = []
    for entry in measurements:
        if entry.arch != arch or entry.width != plan.io_itemsize:
            continue
        point = _point(plan, entry.dims, entry.note, _view_of(group, entry.dims), entry.seconds)
        if point is not None:
            reached.append(point)
    every = [*cases, *reached]
    if not every:
        return None
    ridge = peak / part.dram_bytes_per_second
    xs = [point.intensity for point in every] + [ridge]
    ys = [point.attainable for point in every] + [point.reached for point in every if point.reached]
    x = Axis(round(log10(min(xs)) - MARGIN, 2), round(log10(max(*xs, 4 * ridge)) + MARGIN, 2))
    y = Axis(round(min(log10(min(ys)) - MARGIN, log10(peak) - LEAST_DECADES), 2), round(log10(peak) + MARGIN, 2))
    return Roofline(arch, part.name, dtype, peak, part.dram_bytes_per_second, x, y, tuple(cases), tuple(reached))


def _view_of(group: list[View], dims: Mapping[str, int]) -> str:
    """The id of the view whose case a shape belongs to; empty where none does."""
    for view in group:
        try:
            if evaluate(view.plan.case.condition, {**dims, "sm_count": view.plan.target.part.sm_count}):
                return view.id
        except (KeyError, ZeroDivisionError):
            continue
    return ""


def _point(
    plan: TilePlan, dims: Mapping[str, int], label: str, view: str, seconds: float | None = None
) -> Point | None:
    """A shape on the roof; None where the family's expressions have no value for it, or say that nothing is done."""
    try:
        roof = roofline(plan).at(dims, plan.target.part)
    except (KeyError, ZeroDivisionError):
        return None
    if not roof.flops or not roof.bytes_moved:
        return None
    return Point(
        label,
        ", ".join(f"{name} = {value}" for name, value in dims.items()),
        view,
        roof.flops / roof.bytes_moved,
        roof.flops / roof.seconds,
        roof.bound,
        roof.seconds * 1e6,
        roof.flops / seconds if seconds else None,
        seconds * 1e6 if seconds else None,
    )
