"""The kernel families: one folder each, found by name. Adding a family touches nothing outside its folder."""

from __future__ import annotations

import importlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilegen.spec.section import FamilySection


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """The names of all families, sorted."""
    return tuple(sorted(p.parent.name for p in Path(__file__).parent.glob("*/section.py")))


def section(name: str) -> FamilySection:
    """The spec section of family `name`; KeyError if there is no such family."""
    if name not in names():
        raise KeyError(name)
    found: FamilySection = importlib.import_module(f"tilegen.families.{name}.section").SECTION
    return found
