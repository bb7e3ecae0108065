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
    """``derive`` gives the tile values that a spec leaves out; ``plan`` builds the tile plan of one instance."""

    name: str
    derive: Callable[[Spec, Target, Mapping[str, str], Mapping[str, Any]], dict[str, Any]]
    plan: Callable[[Spec, Target, Mapping[str, str], Case], TilePlan]

    def context(self, spec: Spec, cases: Mapping[str, tuple[Case, ...]]) -> dict[str, Any]:
        """The names that the family's templates need, from the spec and every case of every target."""
        found: dict[str, Any] = self._printing.context(spec, cases)
        return found

    def golden_cases(self, spec: Spec) -> list[dict[str, Any]]:
        """The small inputs whose outputs are kept, each a dict of ``name``, ``dims``, ``dtype`` and ``seed``."""
        found: list[dict[str, Any]] = self._printing.golden_cases(spec)
        return found

    @property
    def _printing(self) -> Any:
        """The family's context module: imported for rendering alone, planning and checking do without."""
        return import_module(f"tilegen.families.{self.name}.context")


@cache
def family(name: str) -> Family:
    plan = import_module(f"tilegen.families.{name}.plan")
    return Family(name, plan.derive, plan.plan)


def family_of(spec: Spec) -> Family:
    """The family of a spec, ready to plan. Imports the family's plan, never torch or tilelang."""
    return family(spec.family)
