"""What a rule must say of specs at its limits: one line each, for what its examples do not show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.check.rule_cases import settled
from tilegen.check.examples import Example
from tilegen.check.rule import Rule


@dataclass(frozen=True)
class Fact:
    """Rule ``rule`` on the example of ``of`` with ``change``: every obligation proved, some refuted, or none stated.

    ``says``, ``at`` and ``related`` are as in an example of a rule; ``count`` is how many obligations there are.
    """

    rule: str
    of: str
    change: dict[str, Any] = field(default_factory=dict)
    holds: bool | None = True
    says: str = ""
    at: str = ""
    count: int | None = None

    def is_true(self, rule: Rule) -> bool:
        results = settled(rule, Example("", False, self.of, self.change, "").spec())
        failed = [(obligation, outcome) for obligation, outcome in results if not outcome.proved]
        if self.count is not None and len(results) != self.count:
            return False
        if self.holds is None:
            return not results
        if self.holds:
            return bool(results) and not failed
        return any(
            self.says in obligation.explain(outcome.counterexample).replace("\n", " ")
            and self.at in ("", obligation.at)
            for obligation, outcome in failed
        )


FACTS: list[Fact] = []
