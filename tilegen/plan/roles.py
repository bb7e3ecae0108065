"""The roles that the kernel of a plan is compiled for: which of them runs, a call decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tilegen.families.family import family_of
from tilegen.plan.build import plan_of

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan


def in_roles(plan: TilePlan) -> Iterator[TilePlan]:
    """The plan itself, then those of the other roles that a call may need: what holds of a tiling holds of each."""
    yield plan
    for role in family_of(plan.spec).roles(plan.tiles)[1:]:
        case = replace(plan.case, tiles={**plan.case.tiles, **role})
        yield plan_of(plan.spec, plan.target.name, plan.dtypes, case)
