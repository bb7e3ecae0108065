"""What the obligations of a spec came to: the proved ones, of which there are thousands, as numbers; each of the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilegen.check.program import Programs
from tilegen.check.prover import BY_ARITHMETIC, Status
from tilegen.check.result import Result, dtype_text, without_consequences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tilegen.check.domain import Domain
    from tilegen.plan.model import TilePlan


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

    def settle(self, programs: Programs, plans: Iterable[TilePlan], region: Domain) -> None:
        """Adds every obligation on a plan, given in each of its roles; its case holds in ``region``."""
        results = [result for plan in plans for result in self._settled(programs, plan, region)]
        for result in without_consequences(results):
            self.add(result)

    def _settled(self, programs: Programs, plan: TilePlan, region: Domain) -> Iterator[Result]:
        """Counts what is proved of a plan; the rest."""
        known, asked = programs.settle(plan, region)
        if known is not None:
            for code, number in known.proved.items():
                self.proved[code] += number
            for method, number in known.methods.items():
                self.methods[method] += number
        for rule, settled in asked:
            proved = 0
            for obligation, outcome in settled:
                if outcome is BY_ARITHMETIC or outcome.proved:
                    proved += 1
                    self.methods[outcome.method] += 1
                else:
                    yield Result(rule, obligation, outcome, plan.target.name, dtype_text(plan), plan.case)
            if proved:
                self.proved[rule.code] += proved
