"""What the obligations of a spec came to: the proved ones as numbers, and each of the others.

A spec for seven chips has thousands of obligations, and its chips have most of them in common: most rules speak of the
tile program alone. A rule that did not look at the chip of a plan, and found everything right, says the same of every chip
that gets this program, and is not asked again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tilegen.check.prover import BY_ARITHMETIC, Status, prove
from tilegen.check.result import Result, dtype_text, without_consequences
from tilegen.check.rule import Rule, rules
from tilegen.plan.model import KernelPlan, TilePlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tilegen.check.domain import Domain
    from tilegen.targets import Target


@dataclass
class Tally:
    """``proved`` counts obligations by the code of their rule, ``methods`` by how they were settled. ``open`` are those
    that were refuted or not decided. ``cases`` are those that were planned, each a target with a condition.
    """

    proved: Counter[str] = field(default_factory=Counter)
    methods: Counter[str] = field(default_factory=Counter)
    open: list[Result] = field(default_factory=list)
    cases: set[tuple[str, Any]] = field(default_factory=set)
    plans: int = 0

    def add(self, result: Result) -> None:
        self.methods[result.outcome.method] += 1
        if result.outcome.proved:
            self.proved[result.rule.code] += 1
        else:
            self.open.append(result)

    @property
    def rules(self) -> Mapping[str, Mapping[str, int]]:
        """By the code of a rule, how many of its obligations were proved, refuted and undecided."""
        found = {
            code: {"proved": self.proved[code], "refuted": 0, "undecided": 0}
            for code in (*self.proved, *(result.rule.code for result in self.open))
        }
        for result in self.open:
            found[result.rule.code][result.outcome.status.value] += 1
        return found

    def total(self, status: Status) -> int:
        """Obligations that were settled so."""
        open = sum(result.outcome.status is status for result in self.open)
        return open + (self.proved.total() if status is Status.PROVED else 0)


class WatchedPlan(TilePlan):
    """A plan that notes whether somebody looks at its chip."""

    looked: bool

    def __init__(self, plan: TilePlan) -> None:
        self.__dict__.update(plan.__dict__)

    def __setattr__(self, name: str, value: object) -> None:
        self.__dict__[name] = value

    @property
    def target(self) -> Target:
        self.looked = True
        chip: Target = self.__dict__["target"]
        return chip


@dataclass
class _Program:
    """Plans that differ in nothing but their chip. ``proved`` and ``methods`` count what holds on any chip; ``left`` are
    the rules that may find otherwise on another.
    """

    content: tuple[Any, ...]
    kernels: tuple[KernelPlan, ...]
    proved: Counter[str] = field(default_factory=Counter)
    methods: Counter[str] = field(default_factory=Counter)
    left: list[Rule] = field(default_factory=list)


class Programs:
    """The tile programs of one spec, each settled once as far as its chip does not matter."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self._known: dict[tuple[Any, ...], list[_Program]] = {}

    def settle(self, plans: Iterable[TilePlan], region: Domain) -> None:
        """Adds every obligation on a plan, given in each of its roles, to the tally; its case holds in ``region``."""
        results = [result for plan in plans for result in self._settle(plan, region)]
        for result in without_consequences(results):
            self.tally.add(result)

    def _settle(self, plan: TilePlan, region: Domain) -> list[Result]:
        """Counts what is proved of a plan; the rest."""
        content = (plan.dtypes, plan.schedule, plan.case, plan.kernels, plan.flops, plan.bytes_moved)
        alike = self._known.setdefault((*plan.dtypes.values(), plan.case.condition), [])
        known = next((program for program in alike if program.content == content), None)
        if known is not None:
            for code, number in known.proved.items():
                self.tally.proved[code] += number
            for method, number in known.methods.items():
                self.tally.methods[method] += number
            # With the kernels that rules have looked through already.
            asked = replace(plan, kernels=known.kernels)
            return [result for rule in known.left for result in self._ask(rule, plan, asked, region)[1]]
        program = _Program(content, plan.kernels)
        alike.append(program)
        watched, found = WatchedPlan(plan), []
        for rule in rules():
            watched.looked = False
            methods, others = self._ask(rule, plan, watched, region)
            found += others
            if watched.looked or others:
                program.left.append(rule)
            elif methods:
                program.proved[rule.code] = len(methods)
                program.methods.update(methods)
        return found

    def _ask(self, rule: Rule, plan: TilePlan, asked: TilePlan, region: Domain) -> tuple[list[str], list[Result]]:
        """Counts what a rule proves of a plan: how each claim was settled, and the results that are no proof."""
        methods: list[str] = []
        others: list[Result] = []
        for obligation in rule.obligations(asked):
            outcome = prove(obligation.claim, region)
            if outcome is BY_ARITHMETIC or outcome.proved:
                methods.append(outcome.method)
            else:
                others.append(Result(rule, obligation, outcome, plan.target.name, dtype_text(plan), plan.case))
        if methods:
            self.tally.proved[rule.code] += len(methods)
            for method in methods:
                self.tally.methods[method] += 1
        return methods, others
