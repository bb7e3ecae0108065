"""The nearest legal values of a tile parameter: what a finding offers instead of the value that it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilegen.check.domain import domain_of
from tilegen.check.prover import prove
from tilegen.check.rule import Rule, rules
from tilegen.plan.build import dtype_bindings, plan_of
from tilegen.plan.cases import cases
from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.plan.model import Case, TilePlan
    from tilegen.spec.model import Spec

TRIES = 24
"""How many values are tried on each side."""


def nearest_legal(spec: Spec, rule: Rule, parameter: str, arch: str, case: Case, at: str) -> list[str]:
    """One help line naming the nearest values below and above under which no error rule, nor ``rule``, is refuted."""
    value = case.tiles.get(parameter)
    if not isinstance(value, int) or isinstance(value, bool):
        return []
    step = _step(spec, parameter)
    below = next((v for v in _down(value, step) if _legal(spec, rule, parameter, v, arch, case)), None)
    above = next((v for v in _up(value, step) if _legal(spec, rule, parameter, v, arch, case)), None)
    found = [str(v) for v in (below, above) if v is not None]
    if not found:
        return [f"no value of {parameter} near {value} is legal while the other tile values stay as they are"]
    if len(found) == 1:
        return [f"{found[0]} is the nearest legal value of {parameter}"]
    return [f"{found[0]} and {found[1]} are the nearest legal values of {parameter}"]


def _step(spec: Spec, parameter: str) -> int:
    return spec.section.tile[parameter].step


def _down(value: int, step: int) -> Iterator[int]:
    first = (value - 1) // step * step
    return iter(range(first, max(0, first - TRIES * step), -step))


def _up(value: int, step: int) -> Iterator[int]:
    first = value // step * step + step
    return iter(range(first, first + TRIES * step, step))


def _legal(spec: Spec, rule: Rule, parameter: str, value: int, arch: str, case: Case) -> bool:
    domain = domain_of(spec)
    for other in cases(spec, arch, {parameter: value}):
        if any(other.chosen.get(name, index) != index for name, index in case.chosen.items() if name != parameter):
            continue
        for dtypes in dtype_bindings(spec):
            plan = plan_of(spec, arch, dtypes, other)
            if _refuted(plan, rule, domain.restricted(other.condition)):
                return False
    return True


def _refuted(plan: TilePlan, also: Rule, region: object) -> bool:
    for rule in rules():
        if rule.severity is not Severity.ERROR and rule is not also:
            continue
        for obligation in rule.obligations(plan):
            severe = (obligation.severity or rule.severity) is Severity.ERROR or rule is also
            if severe and not prove(obligation.claim, region).proved:  # type: ignore[arg-type]
                return True
    return False


