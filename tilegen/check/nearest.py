"""The nearest legal values of the tile parameters behind a finding: what it offers instead of what it refuses."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilegen.check.domain import Domain, domain_of
from tilegen.check.program import Programs, Proved
from tilegen.check.prover import prove
from tilegen.check.rule import Obligation, Rule, rules
from tilegen.plan.build import dtype_bindings, plan_of
from tilegen.plan.cases import cases
from tilegen.plan.roles import in_roles
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

NO_PLAN = ""
"""In the place of a rule, where values give no plan."""

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


@dataclass
class Seen:
    """What was seen broken with some values, rule and severity; ``whole`` where that is all there is."""

    broken: set[tuple[str, Severity]]
    whole: bool = False


Tried = dict[tuple[Hashable, ...], Seen]
"""What the searches of one spec have tried: weaker demands, and other findings, ask for the same values again."""


def nearest_legal(spec: Spec, result: Result, tried: Tried | None = None) -> Mends:
    """For each parameter of a finding, the nearest values that end it: every error rule holds, on every target that shares
    the value, and nothing becomes slow that is not so now. Where an error has no such value, one that is slow is offered;
    where other errors stay whatever the value is, one that adds none. ``tried`` is shared by the findings of one spec.
    """
    if result.obligation.parameter is None:
        return Mends((), ())
    search = _Search(spec, result, {} if tried is None else tried)
    found = search.mends()
    return replace(found, conflict=search.conflict(found.parameters)) if result.severity is Severity.ERROR else found


class _Search:
    """``slow`` are the rules about speed that a value may break; ``others`` are the errors that it may leave, by the
    parameter: while a search lasts.
    """

    def __init__(self, spec: Spec, result: Result, tried: Tried) -> None:
        self.spec = spec
        self.result = result
        self.domain = domain_of(spec)
        obligation = result.obligation
        self.parameter = obligation.parameter or ""
        related = (path.removeprefix("tile.") for path in obligation.related if path.startswith("tile."))
        self.names = [name for name in dict.fromkeys((self.parameter, *related)) if self._is_number(name)]
        # Most candidates fall to the rule that the finding is about, so it is asked first.
        asked = [rule for rule in rules() if rule.severity in (Severity.ERROR, Severity.SLOW)]
        self.rules = list(dict.fromkeys((result.rule, *asked)))
        self.slow: frozenset[str] = frozenset()
        self.others: Mapping[str, frozenset[str]] = {}
        self.tried = tried

    def mends(self) -> Mends:
        """What is offered, from the strictest demands to the least."""
        if not self.names:
            return Mends((), ())
        broken = self._broken_now()
        own, is_error = self.result.rule.id, self.result.severity is Severity.ERROR
        slow_now = frozenset(id for id, severity, _ in broken if severity is Severity.SLOW)
        any_slow = [frozenset(rule.id for rule in self.rules)] if is_error else []
        errors = [(id, keys) for id, severity, keys in broken if severity is Severity.ERROR and id != own]
        elsewhere = {
            name: frozenset(id for id, _ in errors) - {id for id, keys in errors if f"tile.{name}" in keys}
            for name in self.names
        }
        anywhere = dict.fromkeys(self.names, frozenset(id for id, _ in errors))
        for self.others in ({}, elsewhere, anywhere) if errors else ({},):
            for self.slow in (slow_now - {own}, *any_slow):
                found = self._offered()
                if found is not None:
                    return found
            if is_error and not self.others and (pair := self._pair()) is not None:
                return pair
        return self._none()

    def _is_number(self, name: str) -> bool:
        value = self.result.case.tiles.get(name)
        return name in self.spec.section.tile and isinstance(value, int) and not isinstance(value, bool)

    def _broken_now(self) -> list[tuple[str, Severity, frozenset[str]]]:
        """What is broken with the values that the spec has, on every target that shares them: rule, severity, and the
        spec paths that take part. Without what only follows from another.
        """
        found = [
            (rule, obligation.severity or rule.severity, frozenset((obligation.at, *obligation.related)))
            for plan, region in self._plans({})
            for rule in self.rules
            for obligation in _broken(plan, rule, region)
        ]
        ids = {rule.id for rule, _, _ in found}
        return [(rule.id, severity, keys) for rule, severity, keys in found if not ids.intersection(rule.unless)]

    def _offered(self) -> Mends | None:
        """The nearest values that end the finding; None where there is none."""
        offers = {name: self._neighbours(name) for name in self.names}
        parameters = tuple(name for name, values in offers.items() if values)
        return Mends(tuple(self._lines(offers)), parameters) if parameters else None

    def _none(self) -> Mends:
        names = " or ".join(self.names)
        text = f"no value of {names} near its own ends this and breaks no other rule while the other tile values stay"
        return Mends((text,), ())

    def _lines(self, offers: Mapping[str, list[int]]) -> Iterator[str]:
        own = offers.get(self.parameter)
        if own:
            values, verb, s, ends = " and ".join(map(str, own)), "is", "", "ends"
            if len(own) > 1:
                verb, s, ends = "are", "s", "end"
            if self.others:
                yield f"{values} {verb} the nearest value{s} of {self.parameter} that {ends} this; the other errors stay"
            else:
                yield f"{values} {verb} the nearest legal value{s} of {self.parameter}"
        others = [f"{name} = {values[0]}" for name, values in offers.items() if values and name != self.parameter]
        if own and others:
            yield f"or keep it, with {' or '.join(others)}"
        elif others:
            yield f"with {' or '.join(others)} " + (
                "this ends; the other errors stay" if self.others else "it is legal"
            )

    def _pair(self) -> Mends | None:
        """New values of the finding's own parameter and of one other that are legal together, the nearest first."""
        tiles = self.result.case.tiles
        first, *others = self.names
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
        """Whether nothing is broken with these values, but for what they may break or leave."""
        left: frozenset[str] = frozenset.intersection(*(self.others.get(name, frozenset()) for name in values))
        seen = self.tried.setdefault(self._question(values), Seen(set()))
        if self._forbidden(seen.broken, left):
            return False
        if seen.whole:
            return True
        programs = Programs(self.rules)
        try:
            for plan, region in self._plans(values):
                for said in programs.settle(plan, region):
                    if isinstance(said, Proved):
                        continue
                    rule = said.rule
                    broken = {
                        (rule.id, asked.severity or rule.severity)
                        for asked, outcome in said.settled
                        if not outcome.proved
                    }
                    seen.broken |= broken
                    if self._forbidden(broken, left):
                        # The next candidate is likely to fall to the same rule.
                        self.rules.remove(rule)
                        self.rules.insert(0, rule)
                        return False
        except (ZeroDivisionError, ValueError):
            seen.broken.add((NO_PLAN, Severity.ERROR))
            return False
        seen.whole = True
        return True

    def _question(self, values: Mapping[str, int]) -> tuple[Hashable, ...]:
        """All that decides what is broken with some values."""
        own = self.result.rule
        rule = "" if own.severity in (Severity.ERROR, Severity.SLOW) else own.id
        kept = tuple(self._kept(values).items())
        return tuple(sorted(values.items())), kept, self.result.case.winner, tuple(self._sharing(values)), rule

    def _kept(self, values: Mapping[str, int]) -> dict[str, int]:
        """The rule that was chosen for each parameter that is not among ``values``."""
        return {name: index for name, index in self.result.case.chosen.items() if name not in values}

    def _forbidden(self, broken: Iterable[tuple[str, Severity]], left: frozenset[str]) -> bool:
        """Whether values that break this are no offer. ``left`` are the errors that may stay."""
        return any(id not in (left if severity is Severity.ERROR else self.slow) for id, severity in broken)

    def _plans(self, values: Mapping[str, int]) -> Iterator[tuple[TilePlan, Domain]]:
        """Every plan that ``values`` give in the place of the finding's own, with the domain that it holds in."""
        kept = self._kept(values)
        for arch in self._sharing(values):
            for case in cases(self.spec, arch, values):
                if case.winner != self.result.case.winner or any(
                    case.chosen.get(name, index) != index for name, index in kept.items()
                ):
                    continue
                # What is tried counts as given by the spec.
                case = replace(case, chosen={**case.chosen, **dict.fromkeys(values, 0)})
                region = self.domain.restricted(case.condition)
                for dtypes in dtype_bindings(self.spec):
                    for plan in in_roles(plan_of(self.spec, arch, dtypes, case)):
                        yield plan, region

    def _sharing(self, values: Mapping[str, int]) -> list[str]:
        """The targets that have the parameters of ``values``, or of the finding, from where this one has them."""
        names = values or self.names
        own = {target.arch for target in self.spec.targets if any(name in target.tile for name in names)}
        arch = self.result.arch
        return [arch] if arch in own else [target.arch for target in self.spec.targets if target.arch not in own]


def _broken(plan: TilePlan, rule: Rule, region: Domain) -> Iterator[Obligation]:
    """The obligations of a rule that a plan does not meet."""
    return (obligation for obligation in rule.obligations(plan) if not prove(obligation.claim, region).proved)
