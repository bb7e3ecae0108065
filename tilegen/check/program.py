"""Plans that differ in nothing but their chip: what a rule says of one of them without a look at the chip, it says of all.

Most rules speak of the tile program alone, and a spec for seven chips has most of its programs on several of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tilegen.check.prover import prove
from tilegen.plan.model import KernelPlan, TilePlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tilegen.check.domain import Domain
    from tilegen.check.prover import Outcome
    from tilegen.check.rule import Obligation, Rule
    from tilegen.targets import Target


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
class Program:
    """``proved`` and ``methods`` count the obligations that hold on any chip: by the code of their rule, and by how they were
    settled. ``left`` are the rules that may find otherwise on another chip.
    """

    content: tuple[Any, ...]
    kernels: tuple[KernelPlan, ...]
    proved: Counter[str] = field(default_factory=Counter)
    methods: Counter[str] = field(default_factory=Counter)
    left: list[Rule] = field(default_factory=list)


Settled = list[tuple["Obligation", "Outcome"]]


class Programs:
    """The programs of one spec that were met so far, with what ``rules`` said of them."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._known: dict[tuple[Any, ...], list[Program]] = {}

    def settle(self, plan: TilePlan, region: Domain) -> tuple[Program | None, Iterator[tuple[Rule, Settled]]]:
        """The program of a plan, if another chip had it; and what each rule says of the plan, whose case holds in
        ``region``: of a known program each rule that is left. What is asked must be gone through to its end.
        """
        content = (plan.dtypes, plan.schedule, plan.case, plan.kernels, plan.flops, plan.bytes_moved)
        alike = self._known.setdefault((*plan.dtypes.values(), plan.case.condition), [])
        known = next((program for program in alike if program.content == content), None)
        if known is not None:
            # With the kernels that rules have looked through already.
            asked = replace(plan, kernels=known.kernels)
            return known, ((rule, _settled(rule, asked, region)) for rule in known.left)
        alike.append(Program(content, plan.kernels))
        return None, self._first(alike[-1], plan, region)

    def _first(self, program: Program, plan: TilePlan, region: Domain) -> Iterator[tuple[Rule, Settled]]:
        watched = WatchedPlan(plan)
        for rule in self.rules:
            watched.looked = False
            settled = _settled(rule, watched, region)
            if watched.looked or not all(outcome.proved for _, outcome in settled):
                program.left.append(rule)
            elif settled:
                program.proved[rule.code] = len(settled)
                program.methods.update(outcome.method for _, outcome in settled)
            yield rule, settled


def _settled(rule: Rule, plan: TilePlan, region: Domain) -> Settled:
    return [(obligation, prove(obligation.claim, region)) for obligation in rule.obligations(plan)]
