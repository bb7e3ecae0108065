"""The nearest legal values of the tile parameters behind a finding: what it offers instead of what it refuses."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilegen.check.domain import Domain, domain_of
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

COMBINATIONS = 64
"""Combinations of values tried while a conflict is made small."""


@dataclass(frozen=True)
class Mends:
    """``lines`` are the help; ``parameters`` those any one of which could end the conflict alone. ``conflict`` are
    the parameters whose values cannot hold together, at least two, or none.
    """

    lines: tuple[str, ...]
    parameters: tuple[str, ...]
    conflict: tuple[str, ...] = ()


def nearest_legal(spec: Spec, result: Result) -> Mends:
    """For each parameter of a finding, the nearest values that end it: every error rule holds, on every target that shares
    the value, and nothing becomes slow that is not so now. Where an error has no such value, one that is slow is offered.
    """
    if result.obligation.parameter is None:
        return Mends((), ())
    search = _Search(spec, result, may_be_slow=False)
    found = search.mends()
    if not found.parameters and result.severity is Severity.ERROR:
        search = _Search(spec, result, may_be_slow=True)
        found = search.mends()
        found = found if found.parameters else search.pair() or found
    return replace(found, conflict=search.conflict(found.parameters)) if result.severity is Severity.ERROR else found


class _Search:
    def __init__(self, spec: Spec, result: Result, *, may_be_slow: bool) -> None:
        self.spec = spec
        self.result = result
        self.domain = domain_of(spec)
        obligation = result.obligation
        self.parameter = obligation.parameter or ""
        related = (path.removeprefix("tile.") for path in obligation.related if path.startswith("tile."))
        self.names = [name for name in dict.fromkeys((self.parameter, *related)) if self._is_number(name)]
        # Most candidates fall to the rule that the finding is about, so it is asked first.
        slow = [] if may_be_slow else self._holding_now()
        errors = [rule for rule in rules() if rule.severity is Severity.ERROR]
        self.rules = list(dict.fromkeys((result.rule, *errors, *slow)))

    def _is_number(self, name: str) -> bool:
        value = self.result.case.tiles.get(name)
        return name in self.spec.section.tile and isinstance(value, int) and not isinstance(value, bool)

    def _holding_now(self) -> list[Rule]:
        """The rules about speed that hold with the values that the spec has."""
        region = self.domain.restricted(self.result.case.condition)
        plans = [plan_of(self.spec, self.result.arch, dtypes, self.result.case) for dtypes in dtype_bindings(self.spec)]
        return [
            rule
            for rule in rules()
            if rule.severity is Severity.SLOW and not any(_refuted(plan, rule, region) for plan in plans)
        ]

    def mends(self) -> Mends:
        offers = {name: self._neighbours(name) for name in self.names}
        return Mends(tuple(self._lines(offers)), tuple(name for name, values in offers.items() if values))

    def _lines(self, offers: Mapping[str, list[int]]) -> Iterator[str]:
        own = offers.get(self.parameter)
        if own:
            verb = "is the nearest legal value" if len(own) == 1 else "are the nearest legal values"
            yield f"{' and '.join(map(str, own))} {verb} of {self.parameter}"
        others = [f"{name} = {values[0]}" for name, values in offers.items() if values and name != self.parameter]
        if own and others:
            yield f"or keep it, with {' or '.join(others)}"
        elif others:
            yield f"with {' or '.join(others)} it is legal"
        elif offers and not own:
            yield f"no value of {' or '.join(offers)} near its own ends this while the other tile values stay as they are"

    def pair(self) -> Mends | None:
        """New values of the finding's own parameter and of one other that are legal together, the nearest first."""
        tiles = self.result.case.tiles
        first, *others = self.names or [""]
        for second in others:
            choices = itertools.product(self._around(first), self._around(second))
            for a, b in sorted(choices, key=lambda c: abs(c[0] / tiles[first] - 1) + abs(c[1] / tiles[second] - 1)):
                if self._legal({first: a, second: b}):
                    return Mends((f"the nearest legal pair is {first} = {a} with {second} = {b}",), ())
        return None

    def conflict(self, enders: Collection[str]) -> tuple[str, ...]:
        """A minimal set of the parameters whose values cannot hold together: one after the other is let go, and stays away
        where even then no values near its own are legal. ``enders`` are known to end the conflict alone. Empty where
        letting all of them go does not help, or one value is at fault alone.
        """
        free: list[str] = []
        for name in reversed(self.names):
            if name not in enders and not self._some_legal((*free, name)):
                free.append(name)
        kept = tuple(name for name in self.names if name not in free)
        return kept if len(kept) > 1 else ()

    def _some_legal(self, names: Sequence[str]) -> bool:
        if len(names) == 1:
            return False  # looked for already, and further away
        choices = itertools.islice(itertools.product(*map(self._around, names)), COMBINATIONS)
        return any(self._legal(dict(zip(names, values, strict=True))) for values in choices)

    def _around(self, name: str) -> list[int]:
        return [*self._down(name, PAIR_TRIES), *self._up(name, PAIR_TRIES)]

    def _neighbours(self, name: str) -> list[int]:
        tries = TRIES if name == self.parameter else RELATED_TRIES
        below = next((v for v in self._down(name, tries) if self._legal({name: v})), None)
        above = next((v for v in self._up(name, tries) if self._legal({name: v})), None)
        return [v for v in (below, above) if v is not None]

    def _down(self, name: str, tries: int) -> Iterator[int]:
        value, step = self.result.case.tiles[name], self.spec.section.tile[name].step
        first = (value - 1) // step * step
        return iter(range(first, max(0, first - tries * step), -step))

    def _up(self, name: str, tries: int) -> Iterator[int]:
        value, step = self.result.case.tiles[name], self.spec.section.tile[name].step
        first = value // step * step + step
        return iter(range(first, first + tries * step, step))

    def _legal(self, values: Mapping[str, int]) -> bool:
        kept = {name: index for name, index in self.result.case.chosen.items() if name not in values}
        for arch in self._sharing(values):
            for case in cases(self.spec, arch, values):
                if case.winner != self.result.case.winner or any(
                    case.chosen.get(name, index) != index for name, index in kept.items()
                ):
                    continue
                region = self.domain.restricted(case.condition)
                for dtypes in dtype_bindings(self.spec):
                    try:
                        plan = plan_of(self.spec, arch, dtypes, case)
                    except (ZeroDivisionError, ValueError):
                        return False
                    if any(_refuted(plan, rule, region) for rule in self.rules):
                        return False
        return True

    def _sharing(self, parameters: Iterable[str]) -> list[str]:
        """The targets that have the parameters from where this one has them."""
        own = {target.arch for target in self.spec.targets if any(name in target.tile for name in parameters)}
        arch = self.result.arch
        return [arch] if arch in own else [target.arch for target in self.spec.targets if target.arch not in own]


def _refuted(plan: TilePlan, rule: Rule, region: Domain) -> bool:
    return any(not prove(obligation.claim, region).proved for obligation in rule.obligations(plan))
