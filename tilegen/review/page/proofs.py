"""The rule table of a page: every rule that was asked, and how each of its claims was settled, each claim once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilegen.check.findings import located
from tilegen.check.prover import Status
from tilegen.expr import is_symbolic, to_text
from tilegen.review.page.spans import spans

if TYPE_CHECKING:
    from tilegen.check.result import Result
    from tilegen.review.page.views import View
    from tilegen.spec.model import Spec

MOST_CLAIMS = 40
"""Claims of one rule that are listed."""


@dataclass(frozen=True)
class Claim:
    """``line`` of the spec decides it. ``where`` names the views, ``failure`` the arithmetic of a claim that does not hold."""

    text: str
    line: int
    status: str
    method: str
    where: str
    failure: str = ""


@dataclass(frozen=True)
class RuleRow:
    code: str
    name: str
    severity: str
    sentence: str
    source: str
    proved: int
    refuted: int
    undecided: int
    methods: str
    claims: tuple[Claim, ...]
    more: int
    """Claims that are not listed."""
    allowed: str
    """The reason for which the spec allows a finding of it."""

    @property
    def status(self) -> str:
        if self.refuted:
            return "allowed" if self.allowed and self.severity != "error" else "refuted"
        return "undecided" if self.undecided else "proved"


def rule_rows(spec: Spec, views: list[View]) -> list[RuleRow]:
    """The rules in the order of the catalogue, those that fail first."""
    by_rule: dict[str, list[tuple[View, Result]]] = {}
    for view in views:
        for result in view.results:
            by_rule.setdefault(result.rule.id, []).append((view, result))
    allowed = {entry.rule.removeprefix("TG-"): entry.reason for entry in spec.allow}
    rows = [_row(spec, views, entries, allowed.get(id, "")) for id, entries in by_rule.items()]
    order = {"refuted": 0, "undecided": 1, "allowed": 2, "proved": 3}
    return sorted(rows, key=lambda row: (order[row.status], row.code[:4], int("0" + row.code[4:])))


def _row(spec: Spec, views: list[View], entries: list[tuple[View, Result]], allowed: str) -> RuleRow:
    rule = entries[0][1].rule
    tally = Counter(result.outcome.status for _, result in entries)
    methods = Counter(result.outcome.method for _, result in entries if result.outcome.proved)
    claims: dict[tuple[Any, ...], list[View]] = {}
    for view, result in entries:
        line = spec.span(located(spec, result.obligation.at, result)).line
        outcome = result.outcome
        failure = "" if outcome.proved else result.obligation.explain(outcome.counterexample)
        key = (_claim_text(result.obligation.claim), line, outcome.status.value, outcome.method, failure)
        claims.setdefault(key, []).append(view)
    ordered = sorted(claims.items(), key=lambda item: (item[0][2] == "proved", item[0][1], item[0][0]))
    listed = tuple(
        Claim(text, line, status, method, where(views, found), failure)
        for (text, line, status, method, failure), found in ordered[:MOST_CLAIMS]
    )
    return RuleRow(
        rule.code,
        rule.name,
        rule.severity.value,
        rule.sentence,
        rule.source,
        tally[Status.PROVED],
        tally[Status.REFUTED],
        tally[Status.UNDECIDED],
        ", ".join(f"{count} by {method}" for method, count in methods.most_common()),
        listed,
        len(ordered) - len(listed),
        allowed,
    )


def _claim_text(claim: Any) -> str:
    if isinstance(claim, bool):
        return "arithmetic on the tile values"
    return to_text(claim) if is_symbolic(claim) else "a fact of the lowering model, at every point"


def where(views: list[View], found: list[View]) -> str:
    """``every case``, or ``sm_90a 1-4, 7; sm_80 2``."""
    if {view.id for view in found} == {view.id for view in views}:
        return "every case"
    parts = []
    for arch in dict.fromkeys(view.arch for view in views):
        numbers = sorted({view.number for view in found if view.arch == arch})
        if not numbers:
            continue
        every = numbers == sorted({view.number for view in views if view.arch == arch})
        parts.append(f"{arch}, every case" if every else f"{arch} {_runs(numbers)}")
    return "; ".join(parts)


def _runs(numbers: list[int]) -> str:
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans(numbers))
