"""Checks a spec: builds every plan that its domain reaches and settles every obligation of every rule on it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilegen.check.domain import domain_of
from tilegen.check.nearest import nearest_legal
from tilegen.check.prover import Outcome, Status, prove
from tilegen.check.rule import Obligation, Rule, rules
from tilegen.plan.build import dtype_bindings, plan_of
from tilegen.plan.cases import cases, totality
from tilegen.plan.model import Case, TilePlan
from tilegen.spec.diagnostic import Diagnostic, Severity

if TYPE_CHECKING:
    from tilegen.spec.model import Spec


@dataclass(frozen=True)
class Result:
    """One obligation of one rule on one plan, settled."""

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


@dataclass(frozen=True)
class Verdict:
    """What the checker found: the diagnostics to show, and how many obligations were settled which way."""

    spec: Spec
    diagnostics: tuple[Diagnostic, ...]
    proved: int
    refuted: int
    undecided: int
    plans: int
    rules: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not any(entry.severity is Severity.ERROR for entry in self.diagnostics)

    def fails(self, strict: bool) -> bool:
        """Whether a command must exit 1. ``strict`` also refuses what is slow and what is undecided."""
        bad = {Severity.ERROR} | ({Severity.SLOW, Severity.UNDECIDED} if strict else set())
        return any(entry.severity in bad for entry in self.diagnostics)


def plans(spec: Spec) -> Iterator[TilePlan]:
    """Every plan of a spec: target by target, case by case, dtype by dtype."""
    for target in spec.targets:
        for case in cases(spec, target.arch):
            for dtypes in dtype_bindings(spec):
                yield plan_of(spec, target.arch, dtypes, case)


def check(spec: Spec) -> Verdict:
    """Settles every obligation of ``spec``. A spec whose rule lists are not total is not planned at all."""
    started = time.perf_counter()
    gaps = list(_gaps(spec))
    if gaps:
        return Verdict(spec, tuple(gaps), 0, len(gaps), 0, 0, seconds=time.perf_counter() - started)
    results: list[Result] = []
    settled: dict[Any, Outcome] = {}
    domain = domain_of(spec)
    count = 0
    for plan in plans(spec):
        count += 1
        region = domain.restricted(plan.case.condition)
        for result in _settle(plan, region, settled):
            results.append(result)
    diagnostics = _report(spec, results)
    tally = {status: sum(result.outcome.status is status for result in results) for status in Status}
    return Verdict(
        spec,
        tuple(diagnostics),
        tally[Status.PROVED],
        tally[Status.REFUTED],
        tally[Status.UNDECIDED],
        count,
        _by_rule(results),
        time.perf_counter() - started,
    )


def _gaps(spec: Spec) -> Iterator[Diagnostic]:
    seen: set[str] = set()
    for target in spec.targets:
        for name, outcome in totality(spec, target.arch):
            if outcome.proved or name in seen:
                continue
            seen.add(name)
            at = f"target.{target.arch}.tile.{name}" if name in target.tile else f"tile.{name}"
            where = _values(outcome.counterexample) or "every declared shape"
            undecided = outcome.status is Status.UNDECIDED
            yield Diagnostic(
                code="TG-T1",
                name="rule-list-total",
                severity=Severity.UNDECIDED if undecided else Severity.ERROR,
                message=f"the rules of `{name}` do not cover the whole domain",
                span=spec.span(at),
                label=f"could not decide whether a rule always matches ({outcome.method})"
                if undecided
                else f"no rule matches {where}",
                help=(f"end the list with a rule that has no `when`, or narrow the dims so that {where} is not declared",),
                see="tilegen explain TG-T1",
            )


def _settle(plan: TilePlan, region: Any, settled: dict[Any, Outcome]) -> Iterator[Result]:
    dtypes = ", ".join(sorted(set(plan.dtypes.values())))
    for rule in rules():
        for obligation in rule.obligations(plan):
            key = (obligation.claim, plan.case.condition)
            outcome = settled.get(key)
            if outcome is None:
                outcome = settled[key] = prove(obligation.claim, region)
            yield Result(rule, obligation, outcome, plan.target.name, dtypes, plan.case)


def _by_rule(results: list[Result]) -> dict[str, dict[str, int]]:
    table: dict[str, dict[str, int]] = {}
    for result in results:
        row = table.setdefault(result.rule.code, {status.value: 0 for status in Status})
        row[result.outcome.status.value] += 1
    return table


def _values(counterexample: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in counterexample.items())


def _report(spec: Spec, results: list[Result]) -> list[Diagnostic]:
    """One diagnostic for each rule and spec line: findings that differ only in target, dtype or case are merged."""
    groups: dict[tuple[str, str, Severity], list[Result]] = {}
    for result in results:
        if not result.outcome.proved:
            groups.setdefault((result.rule.id, result.obligation.at, result.severity), []).append(result)
    allowed = {entry.rule.removeprefix("TG-"): entry for entry in spec.allow}
    order = {Severity.ERROR: 0, Severity.UNDECIDED: 1, Severity.SLOW: 2, Severity.NOTE: 3}
    diagnostics = []
    for (id, at, severity), group in groups.items():
        if id in allowed and severity in (Severity.SLOW, Severity.NOTE):
            continue
        diagnostics.append(_diagnostic(spec, at, severity, group))
    return sorted(diagnostics, key=lambda entry: (order[entry.severity], entry.span.line if entry.span else 0, entry.code))


def _diagnostic(spec: Spec, at: str, severity: Severity, group: list[Result]) -> Diagnostic:
    first = group[0]
    rule, obligation, outcome = first.rule, first.obligation, first.outcome
    today = obligation.today or rule.today
    notes = [_where(spec, group)]
    if outcome.status is Status.UNDECIDED:
        notes.append(f"not settled: {outcome.method}")
    if today:
        notes.append(today)
    if rule.cost and severity is Severity.SLOW:
        notes.append(f"measured cost: {rule.cost}")
    help_ = list(obligation.help)
    if obligation.parameter is not None and severity in (Severity.ERROR, Severity.SLOW):
        help_[:0] = nearest_legal(spec, first.rule, obligation.parameter, first.arch, first.case, at)
    return Diagnostic(
        code=rule.code,
        name=rule.name,
        severity=severity,
        message=rule.sentence if not obligation.statement else obligation.statement,
        span=spec.span(at),
        label=obligation.explain(outcome.counterexample),
        notes=tuple(notes),
        help=tuple(help_),
        see=f"tilegen explain {rule.code}",
        related=tuple((spec.span(path), path) for path in obligation.related),
    )


def _where(spec: Spec, group: list[Result]) -> str:
    """For which shapes, targets, dtypes and cases a finding holds."""
    first = group[0]
    values = _values(first.outcome.counterexample)
    archs = sorted({result.arch for result in group})
    dtypes = sorted({result.dtypes for result in group})
    text = "for every shape of the case" if first.outcome.everywhere else f"smallest: {values}"
    if first.outcome.status is Status.UNDECIDED:
        text = "over the whole case"
    parts = [text]
    if len(archs) < len(spec.targets):
        parts.append("on " + ", ".join(archs))
    if len(dtypes) < len(dtype_bindings(spec)):
        parts.append("for " + " and ".join(dtypes))
    labels = sorted({result.case.label for result in group})
    if len(labels) == 1 and labels[0]:
        parts.append(f"with {labels[0]}")
    return "; ".join(parts)
