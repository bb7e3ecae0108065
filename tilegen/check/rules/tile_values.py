"""What must hold of a spec's tile values before there is anything to plan: they exist, and are positive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tilegen.check.claim import divisors, text_at
from tilegen.check.domain import Domain
from tilegen.check.rule import Obligation, spec_rule, text_of
from tilegen.expr import Range, any_of, at_least, compare, is_symbolic, substitute, to_text
from tilegen.plan.cases import cases, cases_before, evaluation_order
from tilegen.plan.model import Case

if TYPE_CHECKING:
    from tilegen.spec.model import Spec, TileRule


@spec_rule(
    "T1",
    "divisor-not-zero",
    sentence="no divisor of a condition or a tile value is zero for a declared shape",
    source="arithmetic",
)
def divisors_not_zero(spec: Spec, arch: str) -> Iterator[Obligation]:
    """In the order of evaluation: the checker stops at the first that fails, so that no later one divides by zero."""
    for dim in spec.dims:
        if dim.also is not None:
            around = Domain({dim.name: Range(dim.min or 1, dim.max)})
            for divisor in divisors(dim.also):
                yield _nonzero(divisor, f"dims.{dim.name}.also", within=around)
    for index, prefer in enumerate(spec.dispatch):
        for divisor in divisors(prefer.when):
            yield _nonzero(divisor, f"dispatch.prefer[{index}].when", within=any_shape(spec))
    values = spec.tile_for(arch)
    for name in evaluation_order(values):
        several = len(values[name].rules) > 1
        for case in cases_before(spec, arch, name):
            for index, rule in enumerate(values[name].rules):
                at = f"{path_of(name)}[{index}]" if several else path_of(name)
                for part, path in ((rule.when, f"{at}.when"), (rule.use, f"{at}.use" if several else at)):
                    for divisor in divisors(part):
                        yield _nonzero(substitute(divisor, case.tiles), path, divisor, given=case.condition)


def any_shape(spec: Spec, least: int = 0) -> Domain:
    """Every shape of a call, declared or not: a dispatcher asks its conditions of any."""
    return Domain({dim.name: Range(least, None) for dim in spec.dims})


def path_of(name: str) -> str:
    """Where the rules of a tile parameter, or of the schedule, stand in the spec."""
    return name if name == "schedule" else f"tile.{name}"


def _nonzero(
    value: Any, at: str, written: Any = None, *, given: Any = True, within: Domain | None = None
) -> Obligation:
    text = to_text(value if written is None else written)
    return Obligation(
        compare("!=", value, 0),
        at=at,
        label=f"the divisor `{text}` is 0",
        help=("narrow the dims, or write a divisor that is at least 1, such as max(1, ...)",),
        given=given,
        within=within,
    )


@spec_rule(
    "T2",
    "rule-list-total",
    sentence="some rule of a rule list matches for every declared shape",
    source="the spec language: the first rule whose `when` holds gives the value",
)
def rule_list_total(spec: Spec, arch: str) -> Iterator[Obligation]:
    for name, value in spec.tile_for(arch).items():
        if value.rules[-1].when is None:
            continue
        for case in cases_before(spec, arch, name):
            yield Obligation(
                any_of(*(substitute(rule.when, case.tiles) for rule in value.rules)),
                at=path_of(name),
                label=text_of(lambda values, name: f"no rule matches {_shape(values)}", name),
                statement=f"the rules of `{name}` do not cover the whole domain",
                help=("end the list with a rule that has no `when`, or narrow the dims",),
                given=case.condition,
            )


def _shape(values: Any) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items()) or "any declared shape"


@spec_rule(
    "T3",
    "tile-value-positive",
    sentence="every tile value is at least 1",
    source="the spec language",
)
def tile_values_positive(spec: Spec, arch: str) -> Iterator[Obligation]:
    values = spec.tile_for(arch)
    # The values of a winner are constants, and the lock admits none below 1.
    for case in (case for case in cases(spec, arch) if case.winner is None):
        for name, use in case.tiles.items():
            if isinstance(use, (bool, str)) or not (isinstance(use, int) or is_symbolic(use)):
                continue
            yield _positive(name, use, case.chosen[name], values[name].rules, case)


def _positive(name: str, use: Any, index: int, rules: tuple[TileRule, ...], case: Case) -> Obligation:
    written = rules[index].use_text
    return Obligation(
        at_least(use, 1),
        at=f"tile.{name}[{index}].use" if len(rules) > 1 else f"tile.{name}",
        label=lambda values: f"{name} = {written} = {text_at(use, values)}",
        statement=f"`{name}` is less than 1",
        help=(f"write max(1, {written}), or narrow the dims",),
        given=case.condition,
    )
