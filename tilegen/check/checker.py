"""Checks a spec: builds every plan that its domain reaches and settles every obligation of every rule on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tilegen.check.domain import Domain, domain_of
from tilegen.check.findings import findings
from tilegen.check.program import Programs
from tilegen.check.prover import Status, prove
from tilegen.check.result import Result, dtype_text, without_consequences
from tilegen.check.rule import Rule, rules, spec_rules
from tilegen.check.tally import Tally
from tilegen.plan.build import dtype_bindings, plan_of
from tilegen.plan.cases import cases, sharer
from tilegen.plan.model import Case, TilePlan
from tilegen.plan.roles import in_roles
from tilegen.spec.diagnostic import Diagnostic, Severity

if TYPE_CHECKING:
    from tilegen.spec.model import Spec


@dataclass(frozen=True)
class Verdict:
    """What the checker found: the diagnostics to show, and how many obligations were settled which way.

    ``silenced`` are findings that ``[allow]`` hides. ``rules`` maps the code of each rule to its counts, ``methods`` each
    way of settling to how many it settled.
    """

    spec: Spec
    diagnostics: tuple[Diagnostic, ...]
    silenced: tuple[Diagnostic, ...]
    proved: int
    refuted: int
    undecided: int
    plans: int
    rules: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    methods: Mapping[str, int] = field(default_factory=dict)
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


def check(spec: Spec, *, mends: Callable[[Diagnostic], bool] = lambda _: True) -> Verdict:
    """Settles every obligation of ``spec``. One whose tile values are not always defined is not planned at all.

    ``mends`` says which findings offer the nearest legal values, which take longest to find.
    """
    started = time.perf_counter()
    found = tally(spec)
    shown = findings(spec, found.open, found.cases, mends=mends)
    return Verdict(
        spec,
        (*shown, *_unreached_winners(spec)),
        _silenced(spec, found, shown),
        found.total(Status.PROVED),
        found.total(Status.REFUTED),
        found.total(Status.UNDECIDED),
        found.plans,
        found.rules,
        found.methods,
        time.perf_counter() - started,
    )


def tally(spec: Spec) -> Tally:
    """What every obligation of ``spec`` comes to; those over its plans only where the tile values are always defined."""
    found = Tally()
    for result in settle_spec(spec):
        found.add(result)
    if not found.open:
        domain, programs = domain_of(spec), Programs(rules())
        for plan in plans(spec):
            found.settle(programs, in_roles(plan), domain.restricted(plan.case.condition))
            found.cases.add((plan.target.name, plan.case.condition))
            found.plans += 1
    return found


def _silenced(spec: Spec, found: Tally, shown: list[Diagnostic]) -> tuple[Diagnostic, ...]:
    if not spec.allow:
        return ()
    bare = findings(replace(spec, allow=()), found.open, found.cases, mends=lambda _: False)
    places = {_place(entry) for entry in shown}
    return tuple(entry for entry in bare if _place(entry) not in places)


def _place(entry: Diagnostic) -> tuple[object, ...]:
    return entry.code, entry.severity, entry.span, entry.message


def _unreached_winners(spec: Spec) -> Iterator[Diagnostic]:
    """Winners of the lock that no declared shape reaches: a dim has changed, or an earlier winner takes all of them."""
    reached = {(target.arch, case.winner) for target in spec.targets for case in cases(spec, target.arch)}
    for index, winner in enumerate(spec.lock.winners if spec.lock is not None else ()):
        if (winner.target, index) not in reached:
            yield Diagnostic(
                code="lock-unreached",
                name="unreached",
                severity=Severity.NOTE,
                message="no declared shape reaches this winner",
                span=winner.span,
                label=f"{winner.when_text}, on {winner.target}",
                help=("delete it, or tune again",),
            )


def spec_findings(spec: Spec) -> list[Diagnostic]:
    """What keeps a spec from being planned at all; empty where its tile values are always defined."""
    return findings(spec, settle_spec(spec))


def settle(spec: Spec) -> Iterator[tuple[TilePlan, list[Result]]]:
    """Each plan of a spec with every obligation on it, settled: on each role of its kernel, where it has several."""
    domain = domain_of(spec)
    for plan in plans(spec):
        region = domain.restricted(plan.case.condition)
        results = [result for role in in_roles(plan) for result in _settle_plan(role, region)]
        yield plan, without_consequences(results)


def _settle_plan(plan: TilePlan, region: Domain) -> list[Result]:
    dtypes, arch, case = dtype_text(plan), plan.target.name, plan.case
    return [
        Result(rule, obligation, prove(obligation.claim, region), arch, dtypes, case)
        for rule in rules()
        for obligation in rule.obligations(plan)
    ]


def settle_spec(spec: Spec) -> Iterator[Result]:
    """The rules over the spec, settled, each only where those before it hold: a later one could not be asked otherwise."""
    domain = domain_of(spec)
    for rule in spec_rules():
        failed = False
        found: dict[str, list[Result]] = {}
        for target in spec.targets:
            arch = sharer(spec, target.arch)
            if arch not in found:
                found[arch] = list(_until_refuted(spec, rule, arch, domain))
            for result in found[arch]:
                failed = failed or not result.outcome.proved
                yield result if arch == target.arch else replace(result, arch=target.arch)
        if failed:
            return


def _until_refuted(spec: Spec, rule: Rule, arch: str, domain: Domain) -> Iterator[Result]:
    for obligation in rule.obligations(spec, arch):
        region = domain.restricted(obligation.given) if obligation.within is None else obligation.within
        outcome = prove(obligation.claim, region)
        yield Result(rule, obligation, outcome, arch, "", Case(obligation.given, {}, {}))
        if not outcome.proved:
            return
