"""What the obligations of a spec came to: the proved ones, of which there are thousands, as numbers; each of the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilegen.check.program import Programs, Proved
from tilegen.check.prover import Status
from tilegen.check.result import Result, dtype_text, without_consequences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tilegen.check.domain import Domain
    from tilegen.plan.model import TilePlan


@dataclass
class Tally:
    """``held`` are the obligations of rules that all hold on a plan, with how many plans they hold on; ``alone`` are those
    of a rule of which others do not. ``open`` are those that were refuted or not decided. ``cases`` are those that were
    planned, each a target with a condition.
    """

    held: Counter[Proved] = field(default_factory=Counter)
    alone: list[Result] = field(default_factory=list)
    open: list[Result] = field(default_factory=list)
    cases: set[tuple[str, Any]] = field(default_factory=set)
    plans: int = 0

    def add(self, result: Result) -> None:
        (self.alone if result.outcome.proved else self.open).append(result)

    @property
    def proved(self) -> Counter[str]:
        """Obligations that were proved, by the code of their rule."""
        found = Counter(result.rule.code for result in self.alone)
        for each, plans in self.held.items():
            for code, number in each.numbers.items():
                found[code] += number * plans
        return +found

    @property
    def methods(self) -> Counter[str]:
        """All obligations, by how they were settled."""
        found = Counter(result.outcome.method for result in (*self.alone, *self.open))
        for each, plans in self.held.items():
            for method, number in each.methods.items():
                found[method] += number * plans
        return found

    @property
    def rules(self) -> Mapping[str, Mapping[str, int]]:
        """By the code of a rule, how many of its obligations were proved, refuted and undecided."""
        proved = self.proved
        found = {
            code: {"proved": proved[code], "refuted": 0, "undecided": 0}
            for code in (*proved, *(result.rule.code for result in self.open))
        }
        for result in self.open:
            found[result.rule.code][result.outcome.status.value] += 1
        return found

    def total(self, status: Status) -> int:
        """Obligations that were settled so."""
        open = sum(result.outcome.status is status for result in self.open)
        return open + (self.proved.total() if status is Status.PROVED else 0)

    def settle(self, programs: Programs, plans: Iterable[TilePlan], region: Domain) -> None:
        """Adds every obligation on a plan, given in each of its roles; its case holds in ``region``."""
        results = [result for plan in plans for result in self._settled(programs, plan, region)]
        for result in without_consequences(results):
            self.add(result)

    def _settled(self, programs: Programs, plan: TilePlan, region: Domain) -> Iterator[Result]:
        """Notes what is proved of a plan; the rest."""
        for said in programs.settle(plan, region):
            if isinstance(said, Proved):
                self.held[said] += 1
                continue
            for obligation, outcome in said.settled:
                result = Result(said.rule, obligation, outcome, plan.target.name, dtype_text(plan), plan.case)
                if outcome.proved:
                    self.add(result)
                else:
                    yield result
