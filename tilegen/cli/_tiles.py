"""Why the tiles of a kernel are as they are, as ``tilegen explain KERNEL`` prints it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from tilegen.cli._specs import load_kernel, require_total
from tilegen.cli._terminal import bold

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan
    from tilegen.spec.model import Spec

WIDTH = 110
IDLE = {"num_split", "split", "swizzle", "group_m", "evict_b", "preload", "blocks_per_sm"}
"""Tile values that the argument does not speak of: plans that differ in them alone are explained once."""


def explain_kernel(kernel: str, form: str) -> None:
    """Prints the argument of every tiling of a kernel, on every target."""
    spec = load_kernel(kernel)
    require_total(spec)
    plans = list(_tilings(spec))
    if form == "json":
        click.echo(json.dumps([_as_json(plan) for plan in plans], indent=2))
    else:
        click.echo("\n\n".join("\n".join(_text(plan)) for plan in plans))


def _tilings(spec: Spec) -> Iterator[TilePlan]:
    """One plan for each target and each choice of the tile values that the argument speaks of."""
    from tilegen.plan.build import dtype_bindings, plan_of
    from tilegen.plan.cases import cases

    for target in spec.targets:
        seen = set()
        for case in cases(spec, target.arch):
            plan = plan_of(spec, target.arch, dtype_bindings(spec)[0], case)
            key = tuple(sorted((name, str(value)) for name, value in plan.tiles.items() if name not in IDLE))
            if key not in seen:
                seen.add(key)
                yield plan


def _text(plan: TilePlan) -> Iterator[str]:
    from tilegen.check.argument import argument
    from tilegen.expr import to_text

    condition = "" if plan.case.condition is True else to_text(plan.case.condition)
    where = f", where {condition}" if condition and len(condition) <= 160 else ""
    yield bold(f"{plan.spec.kernel} on {plan.target.name}", sys.stdout) + where
    tiles = ", ".join(
        f"{name} = {value}" for name, value in plan.tiles.items() if name not in IDLE and value is not None
    )
    yield from wrap(tiles, WIDTH, initial_indent="  ", subsequent_indent="  ")
    for line in argument(plan):
        yield from wrap(line, WIDTH, initial_indent="    ", subsequent_indent="      ", break_long_words=False)


def _as_json(plan: TilePlan) -> dict[str, Any]:
    from tilegen.check.argument import argument
    from tilegen.expr import to_text

    return {
        "kernel": plan.spec.kernel,
        "target": plan.target.name,
        "where": "" if plan.case.condition is True else to_text(plan.case.condition),
        "tiles": {name: str(value) for name, value in plan.tiles.items()},
        "argument": argument(plan),
    }
