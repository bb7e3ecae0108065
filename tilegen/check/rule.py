"""Rules: a sentence about the hardware or TileLang, its source, and a function that turns a plan into obligations."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan

Explain = Callable[[Mapping[str, int]], str]


@dataclass(frozen=True)
class Obligation:
    """Something that must hold for every value of the dims in the case that the plan is for.

    ``claim`` is a bool, or a sympy boolean over the dims. ``at`` is the spec path that a finding points to and ``label``
    the arithmetic, given the values of a counterexample (an empty mapping where the claim has no free dims).
    ``parameter`` is the tile parameter whose nearest legal value is offered. ``related`` are the other spec paths that
    take part in a conflict.
    """

    claim: Any
    at: str
    label: str | Explain
    parameter: str | None = None
    related: tuple[str, ...] = ()
    help: tuple[str, ...] = ()
    today: str = ""
    severity: Severity | None = None
    statement: str = ""

    def explain(self, values: Mapping[str, int]) -> str:
        return self.label if isinstance(self.label, str) else self.label(values)


@dataclass(frozen=True)
class Rule:
    """One entry of the catalogue. ``id`` is the part after ``TG-``; ``today`` says what TileLang 0.1.15 does when broken."""

    id: str
    name: str
    sentence: str
    source: str
    severity: Severity
    today: str
    obligations: Callable[[TilePlan], Iterable[Obligation]]
    cost: str = ""

    @property
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
) -> Callable[[Callable[[TilePlan], Iterable[Obligation]]], Rule]:
    """Registers the decorated generator as rule ``TG-<id>``."""

    def register(function: Callable[[TilePlan], Iterable[Obligation]]) -> Rule:
        if id in _registry:
            raise ValueError(f"rule {id} is registered twice")
        entry = Rule(id, name, sentence, source, severity, today, function, cost)
        _registry[id] = entry
        return entry

    return register


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
    key = text.strip().removeprefix("TG-").removeprefix("tg-").upper()
    if key in rules:
        return rules[key]
    return next((entry for entry in rules.values() if entry.name == text.strip().lower()), None)


def rules() -> Iterator[Rule]:
    return iter(catalogue().values())
