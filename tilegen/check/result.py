"""Obligations, settled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.check.prover import Outcome, Status
from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.check.rule import Obligation, Rule
    from tilegen.plan.model import Case, TilePlan


@dataclass(slots=True, eq=False)
class Result:
    """One obligation of one rule on one plan, settled. ``dtypes`` names those of the plan, as text."""

    rule: Rule
    obligation: Obligation
    outcome: Outcome
    arch: str
    dtypes: str
    case: Case

    @property
    def severity(self) -> Severity:
        if self.outcome.status is Status.UNDECIDED:
            return Severity.UNDECIDED
        return self.obligation.severity or self.rule.severity


def dtype_text(plan: TilePlan) -> str:
    """The dtypes of a plan, as a :class:`Result` names them."""
    return ", ".join(sorted(set(plan.dtypes.values())))


def without_consequences(results: list[Result]) -> list[Result]:
    """The results of a plan without the refutations that only repeat another rule's."""
    refuted = {result.rule.id for result in results if result.outcome.status is Status.REFUTED}
    if not refuted:
        return results
    return [result for result in results if result.outcome.proved or not refuted.intersection(result.rule.unless)]
