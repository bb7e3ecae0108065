"""The ``tiles`` function of a generated kernel: the tile rules of the spec as plain Python, first match wins."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilegen.expr import to_python

if TYPE_CHECKING:
    from tilegen.plan.model import Case


@dataclass(frozen=True)
class Branch:
    """``if <guard>: return dict(<values>)``; ``guard`` is empty for the branch that always matches."""

    guard: str
    values: tuple[tuple[str, str], ...]
    spec_lines: str


@dataclass(frozen=True)
class Table:
    """The branches that hold on ``arches``."""

    arches: tuple[str, ...]
    branches: tuple[Branch, ...]


def tile_tables(
    cases_by_arch: Mapping[str, tuple[Case, ...]], lines: Mapping[str, int], parameters: Collection[str]
) -> tuple[Table, ...]:
    """Groups the targets whose cases are the same. ``lines`` maps a tile parameter to its line of the spec.

    ``parameters`` are the tile values that the kernel takes as arguments; the others are printed into it.
    """
    grouped: dict[tuple[Branch, ...], list[str]] = {}
    for arch, cases in cases_by_arch.items():
        branches = tuple(_branch(case, lines, parameters) for case in cases)
        grouped.setdefault(branches, []).append(arch)
    return tuple(Table(tuple(arches), branches) for branches, arches in grouped.items())


def _branch(case: Case, lines: Mapping[str, int], parameters: Collection[str]) -> Branch:
    guard = "" if case.guard is True else to_python(case.guard)
    values = tuple((name, _value(value)) for name, value in case.tiles.items() if name in parameters)
    used = sorted({lines[name] for name, index in case.chosen.items() if index >= 0 and name in lines})
    return Branch(guard, values, ", ".join(str(line) for line in used))


def _value(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return to_python(value)
