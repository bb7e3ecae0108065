"""Rules: a sentence about the hardware or TileLang, its source, and a function that turns a plan into obligations."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.check.domain import Domain
    from tilegen.plan.model import TilePlan
    from tilegen.spec.model import Spec

Explain = Callable[[Mapping[str, int]], str]


def parameter_of(path: str) -> str | None:
    """The tile parameter that a spec path names; None for another path."""
    return path.removeprefix("tile.") if path.startswith("tile.") else None


def text_of(text: Callable[..., str], *args: Any) -> Explain:
    """A label that is worked out when it is needed: ``text(values, *args)`` at the values of a counterexample."""
    return lambda values: text(values, *args)


@dataclass(slots=True, eq=False)  # not frozen: there are tens of thousands, and that takes as long again
class Obligation:
    """Something that must hold for every value of the dims in the case that the plan is for.

    ``claim`` is a bool, or a sympy boolean over the dims. ``at`` is the spec path that a finding points to and
    ``label`` the arithmetic, given the values of a counterexample (an empty mapping where the claim has no free dims).
    ``parameter`` is the tile parameter whose nearest legal value is offered. ``related`` are the other spec paths that
    may take part in a conflict; a finding shows those that do. An obligation of a spec, not of a plan, holds ``given``
    a condition, or over a domain of its own, ``within``.
    """

    claim: Any
    at: str
    label: str | Explain
    parameter: str | None = None
    related: tuple[str, ...] = ()
    help: tuple[str, ...] | Callable[[], tuple[str, ...]] = ()
    today: str = ""
    severity: Severity | None = None
    statement: str = ""
    given: Any = True
    within: Domain | None = None

    def advice(self) -> tuple[str, ...]:
        return self.help() if callable(self.help) else self.help

    def explain(self, values: Mapping[str, int]) -> str:
        return self.label if isinstance(self.label, str) else self.label(values)


@dataclass(frozen=True)
class Rule:
    """One entry of the catalogue. ``id`` is the part after ``TG-``; ``today`` says what TileLang 0.1.15 does when
    broken.

    ``obligations`` takes a plan, or for a rule ``over_spec`` a spec and an architecture. ``unless`` are rules without
    which this one says nothing of its own: where one of them is refuted on a plan, a finding of this one is left out.
    ``of_family``: no spec can break it, only a family's plan can; it is there so that none does. ``some_shape``: it asks
    for a shape of the domain, where others speak of every one; a smaller domain may break it.
    """

    id: str
    name: str
    sentence: str
    source: str
    severity: Severity
    today: str
    obligations: Callable[..., Iterable[Obligation]]
    cost: str = ""
    unless: tuple[str, ...] = ()
    over_spec: bool = False
    of_family: bool = False
    some_shape: bool = False

    @cached_property
    def code(self) -> str:
        return f"TG-{self.id}"


_registry: dict[str, Rule] = {}


def rule(
    id: str,
    name: str,
    *,
    sentence: str,
    source: str,
    severity: Severity,
    today: str = "",
    cost: str = "",
    unless: tuple[str, ...] = (),
    of_family: bool = False,
    some_shape: bool = False,
) -> Callable[[Callable[[TilePlan], Iterable[Obligation]]], Rule]:
    """Registers the decorated generator, which takes a plan, as rule ``TG-<id>``."""

    def register(function: Callable[[TilePlan], Iterable[Obligation]]) -> Rule:
        return _registered(
            Rule(
                id,
                name,
                sentence,
                source,
                severity,
                today,
                function,
                cost,
                unless,
                of_family=of_family,
                some_shape=some_shape,
            )
        )

    return register


def spec_rule(
    id: str, name: str, *, sentence: str, source: str, today: str = "", of_family: bool = False
) -> Callable[[Callable[[Spec, str], Iterable[Obligation]]], Rule]:
    """Registers the decorated generator, which takes a spec and an architecture: what must hold before there is a
    plan."""

    def register(function: Callable[[Spec, str], Iterable[Obligation]]) -> Rule:
        return _registered(
            Rule(id, name, sentence, source, Severity.ERROR, today, function, over_spec=True, of_family=of_family)
        )

    return register


def _registered(entry: Rule) -> Rule:
    if entry.id in _registry:
        raise ValueError(f"rule {entry.id} is registered twice")
    _registry[entry.id] = entry
    return entry


@cache
def catalogue() -> Mapping[str, Rule]:
    """Every rule by id, in the order of the catalogue."""
    package = importlib.import_module("tilegen.check.rules")
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
    return dict(sorted(_registry.items(), key=lambda item: _order(item[0])))


def _order(id: str) -> tuple[str, int]:
    return id[0], int(id[1:])


def find_rule(text: str) -> Rule | None:
    """The rule named by ``TG-C2``, ``C2`` or ``tma-box-256``; None if there is none."""
    rules = catalogue()
    key = text.strip().upper().removeprefix("TG-")
    if key in rules:
        return rules[key]
    return next((entry for entry in rules.values() if entry.name == text.strip().lower()), None)


@cache
def rules() -> tuple[Rule, ...]:
    """The rules over plans."""
    return tuple(rule for rule in catalogue().values() if not rule.over_spec)


@cache
def spec_rules() -> tuple[Rule, ...]:
    """The rules over specs, in the order in which they must hold."""
    return tuple(rule for rule in catalogue().values() if rule.over_spec)
