"""The roofline of a kernel: the operations and bytes that the algorithm needs, as expressions over the dims of its spec.

A family writes them into its plan (``TilePlan.flops``, ``TilePlan.bytes_moved``): every operand read once, every result
written once. What a tiling reads again is not in them, so the ratio to the roof is comparable between tilings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.expr import evaluate

if TYPE_CHECKING:
    from tilegen.expr import Size
    from tilegen.plan.model import TilePlan
    from tilegen.targets import Part


@dataclass(frozen=True)
class Roofline:
    """``flops`` and ``bytes_moved`` are sizes over the dims; ``dtype`` is that of the operands."""

    flops: Size
    bytes_moved: Size
    dtype: str

    def at(self, dims: Mapping[str, int], part: Part) -> Roof:
        """The roof for one shape on one chip. KeyError for a missing dim, or a dtype without a tensor-core rate."""
        flops, moved = float(evaluate(self.flops, dims)), float(evaluate(self.bytes_moved, dims))
        # A dtype that the tensor cores do not take has no rate of theirs; memory alone bounds it.
        rate = part.dense_flops.get(self.dtype, float("inf"))
        return Roof(flops, moved, flops / rate, moved / part.dram_bytes_per_second)


@dataclass(frozen=True)
class Roof:
    """What one shape needs: operations, bytes of DRAM, and the seconds that each takes at the chip's data-sheet rate."""

    flops: float
    bytes_moved: float
    compute_s: float
    memory_s: float

    @property
    def seconds(self) -> float:
        return max(self.compute_s, self.memory_s)

    @property
    def bound(self) -> str:
        return "tensor cores" if self.compute_s > self.memory_s else "memory"


def roofline(plan: TilePlan) -> Roofline:
    """The roofline of a plan: the same for every tiling of one kernel and choice of dtypes."""
    return Roofline(plan.flops, plan.bytes_moved, next(iter(plan.dtypes.values())))
