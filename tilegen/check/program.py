"""Plans that differ in little: what a rule says of one of them, it says of each that is the same in what the rule reads.

Most rules speak of the tile program alone, or of a few facts of the chip that others share; and a spec for seven chips has
most of its programs on several of them. Few rules read the case, and cases may have their tile program in common.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from tilegen.check.prover import BY_ARITHMETIC, Status, prove
from tilegen.plan.model import TilePlan
from tilegen.targets.facts import likeness, watch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tilegen.check.domain import Domain
    from tilegen.check.prover import Outcome
    from tilegen.check.rule import Obligation, Rule
    from tilegen.plan.model import Case, KernelPlan
    from tilegen.targets import Target
    from tilegen.targets.facts import Fact


@dataclass(eq=False)
class Proved:
    """Rules whose obligations all hold, on ``chip`` and on those that are the same in ``facts``: by the code of each rule how
    many there are, and by what they were settled.
    """

    chip: Target
    facts: frozenset[Fact] = frozenset()
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
class Known:
    """What was proved of plans that have something in common. ``closed`` are the codes of rules that looked at no chip: they
    have said all that they will.
    """

    proved: list[Proved] = field(default_factory=list)
    closed: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Body:
    """All of a plan but its chip and its case. ``known`` is what was proved of it without a look at the case, and ``cases``
    what else was proved in each.
    """

    content: tuple[Any, ...]
    kernels: tuple[KernelPlan, ...]
    known: Known = field(default_factory=Known)
    cases: list[tuple[Case, Known]] = field(default_factory=list)

    def known_in(self, case: Case) -> Known:
        """What else was proved in a case."""
        found = next((known for other, known in self.cases if other == case), None)
        if found is None:
            found = Known()
            self.cases.append((case, found))
        return found


class Programs:
    """The programs of one spec that were met so far, with what ``rules`` said of them."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._bodies: dict[tuple[str, ...], list[Body]] = {}

    def settle(self, plan: TilePlan, region: Domain) -> Iterator[Proved | Broken]:
        """What each rule says of a plan, whose case holds in ``region``; nothing of those that have nothing to say.

        What is known from other plans comes first. It must be gone through to its end.
        """
        body = self._body(plan)
        of_case = body.known_in(plan.case)
        alike = likeness(plan.target)
        known = [each for each in (*body.known.proved, *of_case.proved) if alike(each.chip, each.facts)]
        yield from known
        said = body.known.closed.union(of_case.closed, *(each.numbers for each in known))
        yield from _asked([rule for rule in self.rules if rule.code not in said], body, of_case, plan, region)

    def _body(self, plan: TilePlan) -> Body:
        content = plan.dtypes, plan.schedule, plan.kernels, plan.flops, plan.bytes_moved
        alike = self._bodies.setdefault(tuple(plan.dtypes.values()), [])
        body = next((body for body in alike if body.content == content), None)
        if body is None:
            body = Body(content, plan.kernels)
            alike.append(body)
        return body


def _asked(
    rules: Iterable[Rule], body: Body, of_case: Known, plan: TilePlan, region: Domain
) -> Iterator[Proved | Broken]:
    chip, watched = watch(plan.target)
    shown = _ShownPlan(plan, chip, body.kernels)
    shown_plan = cast(TilePlan, shown)
    whole = Proved(plan.target)
    found: dict[tuple[bool, frozenset[Fact]], Proved] = {}
    for rule in rules:
        watched.facts.clear()
        shown.read.clear()
        settled = [(asked, prove(asked.claim, region)) for asked in rule.obligations(shown_plan)]
        others = [outcome for _, outcome in settled if outcome is not BY_ARITHMETIC]
        if others and any(outcome.status is not Status.PROVED for outcome in others):
            yield Broken(rule, settled)
            continue
        anywhere = not others and not shown.read
        if not watched.facts:
            (body.known if anywhere else of_case).closed.add(rule.code)
            if not settled:
                continue
        kind = anywhere, frozenset(watched.facts)
        if kind not in found:
            found[kind] = Proved(plan.target, kind[1])
        found[kind].add(rule, settled)
        whole.add(rule, settled)
    for (anywhere, _), proved in found.items():
        (body.known if anywhere else of_case).proved.append(proved)
    yield whole


class _ShownPlan:
    """A plan on a watched chip, that notes in ``read`` whether its case was read; to readers it is a `TilePlan`."""

    def __init__(self, plan: TilePlan, chip: Target, kernels: tuple[KernelPlan, ...]) -> None:
        self.spec, self.schedule, self.dtypes = plan.spec, plan.schedule, plan.dtypes
        self.flops, self.bytes_moved = plan.flops, plan.bytes_moved
        self.target = chip
        self.kernels = kernels  # equal to the plan's own, and some things are reckoned already for them
        self.read: set[str] = set()
        self._case = plan.case

    @property
    def case(self) -> Case:
        self.read.add("case")
        return self._case

    tiles = TilePlan.tiles
    io_itemsize = TilePlan.io_itemsize
    dynamic_dims = TilePlan.dynamic_dims

    def on(self, chip: Target) -> TilePlan:
        """The same on another chip, with the same notes."""
        other = copy(self)
        other.target = chip
        return cast(TilePlan, other)
