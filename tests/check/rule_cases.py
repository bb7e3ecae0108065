"""What the rule tests ask of one rule: its examples, the plans that are broken by hand, and the public reports.

Here a rule is a value, so that a mutant of it can be asked the same (:mod:`tests.check.mutation`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from tilegen.check.checker import plans
from tilegen.check.domain import Domain, domain_of
from tilegen.check.examples import Example
from tilegen.check.prover import Outcome, prove
from tilegen.check.rule import Obligation, Rule
from tilegen.plan.model import TilePlan
from tilegen.spec import Spec, load_bytes

Settled = tuple[Obligation, Outcome]


@cache
def loaded(text: bytes) -> Spec:
    return load_bytes(text, "example.toml")


@cache
def planned(text: bytes) -> tuple[TilePlan, ...]:
    return tuple(plans(loaded(text)))


def settled(rule: Rule, text: bytes) -> list[Settled]:
    """Every obligation of one rule on a spec, settled; a rule over specs stops at the first that fails."""
    found: list[Settled] = []
    if not rule.over_spec:
        for plan in planned(text):
            region = domain_of(plan.spec).restricted(plan.case.condition)
            found += _all(rule.obligations(plan), region)
        return found
    spec = loaded(text)
    for target in spec.targets:
        for obligation in rule.obligations(spec, target.arch):
            within = obligation.within or domain_of(spec).restricted(obligation.given)
            found.append((obligation, prove(obligation.claim, within)))
            if not found[-1][1].proved:
                break
    return found


def _all(obligations: Iterable[Obligation], region: Domain) -> list[Settled]:
    return [(obligation, prove(obligation.claim, region)) for obligation in obligations]


def faults(rule: Rule, example: Example) -> list[str]:
    """What a rule gets wrong of an example; empty where it agrees."""
    results = settled(rule, example.spec())
    failed = [(obligation, outcome) for obligation, outcome in results if not outcome.proved]
    if not example.fails:
        wrong = [obligation.explain(outcome.counterexample) for obligation, outcome in failed]
        return wrong or ([] if results else ["the rule says nothing of this example"])
    if not failed:
        return ["nothing is refuted"]
    return [] if any(_as_said(example, obligation, outcome) for obligation, outcome in failed) else _said(failed)


def _as_said(example: Example, obligation: Obligation, outcome: Outcome) -> bool:
    """Whether a refutation says what the example says, points where it points, and can be shown in full."""
    said = obligation.explain(outcome.counterexample).replace("\n", " ")
    obligation.advice()
    return (
        example.says in said
        and obligation.at == example.at
        and (tuple(dict.fromkeys(obligation.related)) == example.related)
        and obligation.parameter in (None, example.at.removeprefix("tile."))
    )


def _said(failed: list[Settled]) -> list[str]:
    return [f"{o.at} {o.related} {o.parameter}: {o.explain(outcome.counterexample)}" for o, outcome in failed]
