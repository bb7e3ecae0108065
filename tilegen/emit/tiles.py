"""The ``tiles`` function of a generated kernel: the tile rules of the spec as plain Python, first match wins."""

from __future__ import annotations

from collections.abc import Mapping
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


def tile_tables(cases_by_arch: Mapping[str, tuple[Case, ...]], lines: Mapping[str, int]) -> tuple[Table, ...]:
    """Groups the targets whose cases are the same. ``lines`` maps a tile parameter to its line of the spec."""
    grouped: dict[tuple[Branch, ...], list[str]] = {}
    for arch, cases in cases_by_arch.items():
        branches = tuple(_branch(case, lines) for case in cases)
        grouped.setdefault(branches, []).append(arch)
    return tuple(Table(tuple(arches), branches) for branches, arches in grouped.items())


def _branch(case: Case, lines: Mapping[str, int]) -> Branch:
    guard = "" if case.guard is True else to_python(case.guard)
    values = tuple((name, _value(value)) for name, value in case.tiles.items() if _is_plain(value))
    used = sorted({lines[name] for name, index in case.chosen.items() if index >= 0 and name in lines})
    return Branch(guard, values, ", ".join(str(line) for line in used))


def _is_plain(value: Any) -> bool:
    """Whether a tile value is a number or a word: tables such as a swizzle are printed into the kernel itself."""
    return isinstance(value, (int, str)) or hasattr(value, "free_symbols")


def _value(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return to_python(value)
