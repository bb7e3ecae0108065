"""Plans that differ in nothing but their chip: what a rule says of one of them, it says of each whose chip is the same in
what the rule reads of it.

Most rules speak of the tile program alone, or of a few facts of the chip that others share; and a spec for seven chips has
most of its programs on several of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tilegen.check.prover import Status, prove
from tilegen.targets.facts import likeness, watch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tilegen.check.domain import Domain
    from tilegen.check.prover import Outcome
    from tilegen.check.rule import Obligation, Rule
    from tilegen.plan.model import TilePlan
    from tilegen.targets import Target
    from tilegen.targets.facts import Fact


@dataclass(eq=False)
class Proved:
    """Rules whose obligations all hold, on ``chip`` and on those that are the same in ``facts``: by the code of each rule how
    many there are, and by what they were settled.
    """

    chip: Target
    facts: frozenset[Fact]
    numbers: dict[str, int] = field(default_factory=dict)
    methods: dict[str, int] = field(default_factory=dict)

    def add(self, rule: Rule, settled: Sequence[tuple[Obligation, Outcome]]) -> None:
        self.numbers[rule.code] = len(settled)
        for _, outcome in settled:
            self.methods[outcome.method] = self.methods.get(outcome.method, 0) + 1


@dataclass(eq=False)
class Broken:
    """Obligations of one rule, of which not all hold."""

    rule: Rule
    settled: list[tuple[Obligation, Outcome]]


@dataclass(eq=False)
class Program:
    """``always`` is what was proved without a look at the chip. ``known`` is what else was proved, by what was looked at.
    ``left`` are the rules that looked at the chip, or did not hold.
    """

    content: tuple[Any, ...]
    always: Proved
    known: list[Proved] = field(default_factory=list)
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
            alike.append(Program(content, Proved(plan.target, frozenset())))
            yield from _asked(self.rules, alike[-1], plan, region, first=True)
            return
        known = list(_known(program, plan.target))
        yield program.always
        yield from known
        settled = {code for proved in known for code in proved.numbers}
        yield from _asked(
            [rule for rule in program.left if rule.code not in settled], program, plan, region, first=False
        )


def _known(program: Program, chip: Target) -> Iterator[Proved]:
    alike = likeness(chip)
    return (proved for proved in program.known if alike(proved.chip, proved.facts))


def _asked(
    rules: Iterable[Rule], program: Program, plan: TilePlan, region: Domain, *, first: bool
) -> Iterator[Proved | Broken]:
    chip, watched = watch(plan.target)
    shown = replace(plan, target=chip)
    whole = Proved(plan.target, frozenset())
    looked: dict[frozenset[Fact], Proved] = {}
    for rule in rules:
        watched.facts.clear()
        settled = [(asked, prove(asked.claim, region)) for asked in rule.obligations(shown)]
        broken = any(outcome.status is not PROVED for _, outcome in settled)
        if first and (broken or watched.facts):
            program.left.append(rule)
        if broken:
            yield Broken(rule, settled)
            continue
        if watched.facts:
            facts = frozenset(watched.facts)
            if facts not in looked:
                looked[facts] = Proved(plan.target, facts)
            looked[facts].add(rule, settled)
        elif settled:
            program.always.add(rule, settled)
        if settled:
            whole.add(rule, settled)
    program.known += looked.values()
    yield whole


PROVED = Status.PROVED
