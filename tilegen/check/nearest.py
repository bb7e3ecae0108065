"""The nearest legal values of the tile parameters behind a finding: what it offers instead of what it refuses."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.check.domain import domain_of
from tilegen.check.prover import prove
from tilegen.check.rule import Rule, rules
from tilegen.plan.build import dtype_bindings, plan_of
from tilegen.plan.cases import cases
from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.check.result import Result
    from tilegen.plan.model import TilePlan
    from tilegen.spec.model import Spec

TRIES = 24
"""How many values of the parameter that a finding points to are tried on each side."""

RELATED_TRIES = 10
"""The same for the other parameters of the conflict."""

PAIR_TRIES = 4
"""The same where two parameters must change."""


@dataclass(frozen=True)
class Mends:
    """``lines`` are the help; ``parameters`` those any one of which could end the conflict alone."""

    lines: tuple[str, ...]
    parameters: tuple[str, ...]


def nearest_legal(spec: Spec, result: Result) -> Mends:
    """For each parameter of a finding, the nearest values under which no error rule, nor this rule, is refuted on any
    target that shares the value.
    """
    obligation = result.obligation
    if obligation.parameter is None:
        return Mends((), ())
    wanted = [
        obligation.parameter,
        *(path.removeprefix("tile.") for path in obligation.related if path.startswith("tile.")),
    ]
    offers: dict[str, list[int]] = {}
    for position, name in enumerate(dict.fromkeys(wanted)):
        value = result.case.tiles.get(name)
        if name in spec.section.tile and isinstance(value, int) and not isinstance(value, bool):
            offers[name] = _neighbours(spec, result, name, value, TRIES if position == 0 else RELATED_TRIES)
    found = tuple(name for name, values in offers.items() if values)
    if found or len(offers) < 2 or result.severity is not Severity.ERROR:
        return Mends(tuple(_lines(obligation.parameter, offers, result)), found)
    pair = _pair(spec, result, list(offers))
    if pair is None:
        return Mends((f"no value of {' or '.join(offers)} near its own ends this, nor do two of them together",), ())
    return Mends((f"the nearest legal pair is {' with '.join(f'{name} = {value}' for name, value in pair)}",), ())


def _pair(spec: Spec, result: Result, names: list[str]) -> tuple[tuple[str, int], ...] | None:
    """New values of the finding's own parameter and of one other that are legal together, the nearest first."""
    first, *others = names
    tiles = result.case.tiles
    for second in others:
        choices = itertools.product(_around(spec, first, tiles[first]), _around(spec, second, tiles[second]))
        for a, b in sorted(
            choices,
            key=lambda pair: abs(pair[0] - tiles[first]) / tiles[first] + abs(pair[1] - tiles[second]) / tiles[second],
        ):
            if _legal(spec, result, {first: a, second: b}):
                return (first, a), (second, b)
    return None


def _around(spec: Spec, name: str, value: int) -> list[int]:
    step = spec.section.tile[name].step
    return [*_down(value, step, PAIR_TRIES), *_up(value, step, PAIR_TRIES)]


def _lines(parameter: str, offers: dict[str, list[int]], result: Result) -> Iterator[str]:
    own = offers.get(parameter)
    if own:
        verb = "is the nearest legal value" if len(own) == 1 else "are the nearest legal values"
        yield f"{' and '.join(map(str, own))} {verb} of {parameter}"
    others = [f"{name} = {values[0]}" for name, values in offers.items() if values and name != parameter]
    if own and others:
        yield f"or keep it, with {' or '.join(others)}"
    elif others:
        yield f"with {' or '.join(others)} it is legal"
    elif not own and own is not None:
        yield f"no value of {' or '.join(offers)} near its own ends this while the other tile values stay as they are"


def _neighbours(spec: Spec, result: Result, name: str, value: int, tries: int) -> list[int]:
    step = spec.section.tile[name].step
    below = next((v for v in _down(value, step, tries) if _legal(spec, result, {name: v})), None)
    above = next((v for v in _up(value, step, tries) if _legal(spec, result, {name: v})), None)
    return [v for v in (below, above) if v is not None]


def _down(value: int, step: int, tries: int) -> Iterator[int]:
    first = (value - 1) // step * step
    return iter(range(first, max(0, first - tries * step), -step))


def _up(value: int, step: int, tries: int) -> Iterator[int]:
    first = value // step * step + step
    return iter(range(first, first + tries * step, step))


def _legal(spec: Spec, result: Result, values: Mapping[str, int]) -> bool:
    domain = domain_of(spec)
    kept = {name: index for name, index in result.case.chosen.items() if name not in values}
    for arch in _sharing(spec, result.arch, values):
        for case in cases(spec, arch, values):
            if any(case.chosen.get(name, index) != index for name, index in kept.items()):
                continue
            for dtypes in dtype_bindings(spec):
                try:
                    plan = plan_of(spec, arch, dtypes, case)
                except (ZeroDivisionError, ValueError):
                    return False
                if _refuted(plan, result.rule, domain.restricted(case.condition)):
                    return False
    return True


def _sharing(spec: Spec, arch: str, parameters: Iterable[str]) -> list[str]:
    """The targets that have the parameters from where ``arch`` has them."""
    own = {target.arch for target in spec.targets if any(name in target.tile for name in parameters)}
    return [arch] if arch in own else [target.arch for target in spec.targets if target.arch not in own]


def _refuted(plan: TilePlan, also: Rule, region: object) -> bool:
    others = (rule for rule in rules() if rule.severity is Severity.ERROR and rule is not also)
    for rule in (also, *others):  # most candidates fall to the rule that the finding is about
        for obligation in rule.obligations(plan):
            severe = (obligation.severity or rule.severity) is Severity.ERROR or rule is also
            if severe and not prove(obligation.claim, region).proved:  # type: ignore[arg-type]
                return True
    return False
