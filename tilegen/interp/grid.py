"""The blocks of a grid, by number and by coordinates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilegen.interp.findings import InvalidKernelError

Coordinates = tuple[int, ...]

#: Blocks along each axis of a grid (CUDA C++ Programming Guide, technical specifications by compute capability).
LIMITS = (2**31 - 1, 65535, 65535)


@dataclass(frozen=True)
class Blocks:
    """Some blocks of a grid by number, x fastest, and their coordinates; never all of them in memory."""

    extents: Coordinates
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[tuple[int, Coordinates]]:
        for number in self.numbers:
            place, rest = [], number
            for extent in self.extents:
                place.append(rest % extent)
                rest //= extent
            yield number, tuple(place)

    def share(self, job: int, jobs: int) -> Blocks:
        """Every ``jobs``-th block from ``job`` on."""
        return Blocks(self.extents, self.numbers[job::jobs])


def blocks_of(name: str, extents: Sequence[Any], wanted: Coordinates | None) -> Blocks:
    """All blocks of a grid, or the wanted one (axes that it leaves out are 0).

    Raises ``InvalidKernelError`` for a grid that CUDA cannot launch, and for a block outside it.
    """
    grid = tuple(extents)
    for axis, extent in enumerate(grid):
        if not isinstance(extent, int) or extent < 0:
            raise InvalidKernelError(f"the grid of {name} is {grid}")
        if extent == 0:
            raise InvalidKernelError(
                f"the grid of {name} is {grid}: CUDA launches no grid of 0 blocks; do not call it where there is nothing to do"
            )
        if extent > LIMITS[axis]:
            raise InvalidKernelError(f"the grid of {name} is {grid}; axis {'xyz'[axis]} may have {LIMITS[axis]} blocks")
    if wanted is None:
        return Blocks(grid, range(math.prod(grid)))
    place = (*wanted, *(0 for _ in range(len(grid) - len(wanted))))
    if len(place) != len(grid) or any(part not in range(extent) for part, extent in zip(place, grid, strict=True)):
        raise InvalidKernelError(f"there is no block {wanted}: the grid is {grid}")
    return Blocks(grid, [sum(part * math.prod(grid[:axis]) for axis, part in enumerate(place))])
