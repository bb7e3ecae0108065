"""One obligation, settled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.check.prover import Outcome, Status
from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.check.rule import Obligation, Rule
    from tilegen.plan.model import Case


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
