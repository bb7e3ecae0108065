"""What a family gives the rest of tilegen: its plan, the values it derives, and what it prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilegen.plan.model import Case, TilePlan
    from tilegen.spec.model import Spec
    from tilegen.targets import Target


@dataclass(frozen=True)
class Family:
    """``derive`` gives the tile values that a spec leaves out; ``plan`` builds the tile plan of one instance; ``context``
    gives the names that the family's templates need, from the spec and every case of every target; ``golden_cases`` the
    small inputs whose outputs are kept, each a dict of ``name``, ``dims``, ``dtype`` and ``seed``.
    """

    name: str
    derive: Callable[[Spec, Target, Mapping[str, str], Mapping[str, Any]], dict[str, Any]]
    plan: Callable[[Spec, Target, Mapping[str, str], Case], TilePlan]
    context: Callable[[Spec, Mapping[str, tuple[Case, ...]]], dict[str, Any]]
    golden_cases: Callable[[Spec], list[dict[str, Any]]]


@cache
def family(name: str) -> Family:
    plan = import_module(f"tilegen.families.{name}.plan")
    context = import_module(f"tilegen.families.{name}.context")
    return Family(name, plan.derive, plan.plan, context.context, context.golden_cases)


def family_of(spec: Spec) -> Family:
    """The family of a spec, ready to plan. Imports the family's plan, never torch or tilelang."""
    return family(spec.family)
