"""The ``tiles`` function of a generated kernel: the tile rules of the spec as plain Python, first match wins.

Two forms. Where a shape class fixes all parameters together, a table: one ``if`` a case. Where the parameters are chosen one
by one, so that their cases multiply, a chain: one ``if ... elif ... else`` a parameter, as the spec has it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilegen.emit.format import dict_text
from tilegen.expr import to_python
from tilegen.plan.cases import evaluation_order
from tilegen.spec.model import Swizzle

if TYPE_CHECKING:
    from tilegen.plan.model import Case
    from tilegen.spec.model import Spec, TileValue


@dataclass(frozen=True)
class Branch:
    """``if <guard>: return dict(<values>)``; ``guard`` is empty for the branch that always matches."""

    guard: str
    values: tuple[tuple[str, str], ...]
    spec_lines: str


@dataclass(frozen=True)
class Table:
    """What holds on ``arches``: first ``tuned``, tilings that were measured, then the branches of a table or the lines of
    a chain.
    """

    arches: tuple[str, ...]
    tuned: tuple[Branch, ...] = ()
    branches: tuple[Branch, ...] = ()
    lines: tuple[str, ...] = ()


MOST_BRANCHES = 12
"""A table of more cases than this is printed as a chain, if it can be."""


def tile_tables(
    spec: Spec, cases_by_arch: Mapping[str, tuple[Case, ...]], lines: Mapping[str, int], parameters: Collection[str]
) -> tuple[Table, ...]:
    """Groups the targets whose cases are the same. ``lines`` maps a tile parameter to its line of the spec.

    ``parameters`` are the tile values that the kernel takes as arguments; the others are printed into it.
    """
    grouped: dict[tuple[Any, ...], list[str]] = {}
    for arch, cases in cases_by_arch.items():
        tuned = tuple(_branch(case, lines, parameters) for case in cases if case.winner is not None)
        by_rule = tuple(case for case in cases if case.winner is None)
        branches = tuple(_branch(case, lines, parameters) for case in by_rule)
        chain = _chain(spec, arch, by_rule, parameters) if len(by_rule) > MOST_BRANCHES else ()
        grouped.setdefault((tuned, () if chain else branches, chain), []).append(arch)
    return tuple(Table(tuple(arches), *parts) for parts, arches in grouped.items())


def _chain(spec: Spec, arch: str, cases: tuple[Case, ...], parameters: Collection[str]) -> tuple[str, ...]:
    """The rules parameter by parameter; empty where a value that the spec leaves out differs from case to case."""
    values = spec.tile_for(arch)
    derived = {
        name: {case.tiles[name] for case in cases if name in case.tiles} for name in parameters if name not in values
    }
    if any(len(found) != 1 for found in derived.values()):
        return ()
    lines: list[str] = []
    for name in evaluation_order(values):
        lines += _rules(name, values[name])
    names = [name for name in values if name in parameters]
    if any(name not in case.tiles for case in cases for name in names):
        return ()  # the schedules take different parameters
    pairs = [(name, name) for name in names] + [(name, _value(*found)) for name, found in derived.items()]
    return (*lines, f"return {dict_text(pairs, 4)}")


def _rules(name: str, value: TileValue) -> list[str]:
    if value.rules[0].when is None:
        return [f"{name} = {_value(value.rules[0].use)}"]
    lines = []
    for index, rule in enumerate(value.rules):
        word = "if" if index == 0 else "elif"
        lines.append("else:" if rule.when is None else f"{word} {to_python(rule.when)}:")
        lines.append(f"    {name} = {_value(rule.use)}")
        if rule.when is None:
            return lines
    return [*lines, "else:", f'    raise ValueError("no rule of {name} matches")']


def _branch(case: Case, lines: Mapping[str, int], parameters: Collection[str]) -> Branch:
    guard = "" if case.guard is True else to_python(case.guard)
    values = tuple((name, _value(value)) for name, value in case.tiles.items() if name in parameters)
    used = sorted({lines[name] for name, index in case.chosen.items() if index >= 0 and name in lines})
    return Branch(guard, values, ", ".join(str(line) for line in used))


def _value(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, Swizzle):
        return f'"{value.word}"'
    if isinstance(value, str):
        return f'"{value}"'
    return to_python(value)
