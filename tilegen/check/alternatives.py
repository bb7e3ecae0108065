"""Other values of a tile parameter, each checked in the place of the one that the spec gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tilegen.check.domain import domain_of
from tilegen.check.prover import prove
from tilegen.check.rule import Rule, rules
from tilegen.plan.build import complete_case, dtype_bindings, plan_of
from tilegen.plan.cases import cases
from tilegen.plan.model import Case
from tilegen.plan.roles import in_roles
from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.spec.model import Spec


@dataclass(frozen=True)
class Objection:
    """A rule that a value does not obey, with the arithmetic."""

    code: str
    severity: Severity
    text: str


@dataclass(frozen=True)
class Alternative:
    """``objections`` are errors, or else what is slow; without any the value is proved legal and fast."""

    value: Any
    objections: tuple[Objection, ...]

    @property
    def legal(self) -> bool:
        return not any(objection.severity is Severity.ERROR for objection in self.objections)


@dataclass(frozen=True)
class Part:
    """A part of the domain where one entry of a rule list gives the value. ``entry`` is its index, -1 where the family
    derives the value; ``cases`` are the ways through the other tile rules there.
    """

    entry: int
    value: Any
    cases: tuple[Case, ...]


def parts(spec: Spec, arch: str, name: str) -> list[Part]:
    """The parts of the domain by what decides parameter ``name``, in the order of the rules."""
    found: dict[tuple[int, Any], list[Case]] = {}
    for case in cases(spec, arch):
        whole = complete_case(spec, arch, dtype_bindings(spec)[0], case)
        if name in whole.tiles:
            value = whole.tiles[name]
            key = str(value) if isinstance(value, dict) else value
            found.setdefault((case.chosen.get(name, -1), key), []).append(case)
    return [Part(entry, value, tuple(held)) for (entry, value), held in sorted(found.items(), key=lambda i: i[0][0])]


TRIED = 8
"""Values on each side of a number that are tried."""


def candidates(spec: Spec, name: str, value: Any) -> list[Any]:
    """Values worth trying in the place of ``value``: other words, or its neighbours and powers of two around."""
    parameter = spec.section.tile.get(name)
    if parameter is None:
        return [word for word in spec.section.schedules if word != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, str):
        return [word for word in parameter.choices if word != value]
    if not isinstance(value, int):
        return []
    step = parameter.step
    near = {value + step * shift for shift in range(-2, 3)}
    doubled = {value * 2**exponent for exponent in range(1, 4)} | {value // 2**exponent for exponent in range(1, 4)}
    wanted = sorted(number for number in near | doubled if number > 0 and number % step == 0 and number != value)
    below, above = [n for n in wanted if n < value], [n for n in wanted if n > value]
    return below[-TRIED:] + above[:TRIED]


def alternative(spec: Spec, arch: str, part: Part, name: str, value: Any) -> Alternative:
    """``value`` in the place of the part's own, over all of the part, every dtype and every rule."""
    objections: dict[str, Objection] = {}
    for case in part.cases:
        for objection in _objections(spec, arch, case, {name: value}):
            if objection.code not in objections or objection.severity is Severity.ERROR:
                objections[objection.code] = objection
    errors = [objection for objection in objections.values() if objection.severity is Severity.ERROR]
    return Alternative(value, tuple(errors or objections.values()))


def _objections(spec: Spec, arch: str, part: Case, values: Mapping[str, Any]) -> Iterator[Objection]:
    domain = domain_of(spec).restricted(part.condition)
    kept = {name: index for name, index in part.chosen.items() if name not in values}
    asked = [rule for rule in rules() if rule.severity in (Severity.ERROR, Severity.SLOW)]
    for case in cases(spec, arch, values):
        if any(case.chosen.get(name, index) != index for name, index in kept.items()):
            continue
        # What is tried counts as given by the spec.
        case = replace(case, chosen={**case.chosen, **dict.fromkeys(values, 0)})
        region = domain.restricted(case.condition)
        for dtypes in dtype_bindings(spec):
            try:
                plan = plan_of(spec, arch, dtypes, case)
            except (ZeroDivisionError, ValueError, TypeError, KeyError) as error:
                yield Objection("plan", Severity.ERROR, f"there is no such plan: {error}")
                continue
            for role in in_roles(plan):
                yield from _broken(asked, role, region)


def _broken(asked: Sequence[Rule], plan: Any, region: Any) -> Iterator[Objection]:
    """The rules that a plan breaks, without those that only repeat another; of each the first that is worst."""
    found: dict[str, Objection] = {}
    unless: dict[str, tuple[str, ...]] = {}
    for rule in asked:
        for obligation in rule.obligations(plan):
            outcome, severity = prove(obligation.claim, region), obligation.severity or rule.severity
            if not outcome.proved and (rule.id not in found or severity is Severity.ERROR):
                text = obligation.explain(outcome.counterexample).split("\n")[0]
                found[rule.id] = Objection(rule.code, severity, text)
                unless[rule.id] = rule.unless
            if not outcome.proved and severity is Severity.ERROR:
                break
    return (objection for id, objection in found.items() if not found.keys() & set(unless[id]))
