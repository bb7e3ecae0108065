"""Plans that differ in nothing but their chip: what a rule says of one of them, it says of each whose chip is the same in
what the rule reads of it.

Most rules speak of the tile program alone, or of a few facts of the chip that others share; and a spec for seven chips has
most of its programs on several of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tilegen.check.prover import prove
from tilegen.targets.facts import likeness, watch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tilegen.check.domain import Domain
    from tilegen.check.prover import Outcome
    from tilegen.check.rule import Obligation, Rule
    from tilegen.plan.model import TilePlan
    from tilegen.targets import Target
    from tilegen.targets.facts import Fact


@dataclass(eq=False)
class Proved:
    """Obligations of one rule that all hold, on ``chip`` and on those that are the same in ``facts``: how many, and by what
    they were settled.
    """

    rule: Rule
    chip: Target
    facts: frozenset[Fact]
    number: int
    methods: Mapping[str, int]


@dataclass(eq=False)
class Broken:
    """Obligations of one rule, of which not all hold."""

    rule: Rule
    settled: list[tuple[Obligation, Outcome]]


@dataclass(eq=False)
class Program:
    """``always`` is what was proved without a look at the chip. ``known`` is what else was proved, by chip and by what was
    looked at.
    ``left`` are the rules that looked at the chip, or did not hold.
    """

    content: tuple[Any, ...]
    always: list[Proved] = field(default_factory=list)
    known: dict[tuple[str, frozenset[Fact]], list[Proved]] = field(default_factory=dict)
    left: list[Rule] = field(default_factory=list)


class Programs:
    """The programs of one spec that were met so far, with what ``rules`` said of them."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._known: dict[tuple[Any, ...], list[Program]] = {}

    def settle(self, plan: TilePlan, region: Domain) -> Iterator[Proved | Broken]:
        """What each rule says of a plan, whose case holds in ``region``; nothing of those that have nothing to say.

        What is known from another chip comes first. It must be gone through to its end.
        """
        content = (plan.dtypes, plan.schedule, plan.case, plan.kernels, plan.flops, plan.bytes_moved)
        alike = self._known.setdefault((*plan.dtypes.values(), plan.case.condition), [])
        program = next((program for program in alike if program.content == content), None)
        if program is None:
            alike.append(Program(content))
            yield from _asked(self.rules, alike[-1], plan, region, first=True)
            return
        known = list(_known(program, plan.target))
        yield from program.always
        yield from known
        settled = {proved.rule.id for proved in known}
        yield from _asked([rule for rule in program.left if rule.id not in settled], program, plan, region, first=False)


def _known(program: Program, chip: Target) -> Iterator[Proved]:
    alike = likeness(chip)
    for each in program.known.values():
        if alike(each[0].chip, each[0].facts):
            yield from each


def _asked(
    rules: Iterable[Rule], program: Program, plan: TilePlan, region: Domain, *, first: bool
) -> Iterator[Proved | Broken]:
    chip, watched = watch(plan.target)
    shown = replace(plan, target=chip)
    for rule in rules:
        watched.facts.clear()
        settled = [(asked, prove(asked.claim, region)) for asked in rule.obligations(shown)]
        broken = any(not outcome.proved for _, outcome in settled)
        if first and (broken or watched.facts):
            program.left.append(rule)
        if broken:
            yield Broken(rule, settled)
        elif settled or watched.facts:
            facts = frozenset(watched.facts)
            proved = Proved(rule, plan.target, facts, len(settled), _methods(settled))
            if facts:
                program.known.setdefault((plan.target.name, facts), []).append(proved)
            else:
                program.always.append(proved)
            yield proved


def _methods(settled: Iterable[tuple[Obligation, Outcome]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for _, outcome in settled:
        counts[outcome.method] = counts.get(outcome.method, 0) + 1
    return counts
