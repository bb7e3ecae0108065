"""How commands get at specs: from what stands on the command line to specs, or a clear end."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from tilegen.cli._terminal import use_color
from tilegen.spec.diagnostic import Diagnostic, SpecError, render_text
from tilegen.spec.find import NoSpecError, find_kernel, find_specs

if TYPE_CHECKING:
    from tilegen.spec.model import Spec


def load_specs(arguments: Iterable[str]) -> list[Spec]:
    """The specs that the arguments name. Exits 2 where there are none, and 1 with the findings where one is broken."""
    try:
        paths = find_specs(arguments)
    except NoSpecError as error:
        raise click.UsageError(str(error)) from None
    from tilegen.spec import load

    specs: list[Spec] = []
    problems: list[Diagnostic] = []
    for path in paths:
        try:
            specs.append(load(path))
        except SpecError as error:
            problems += error.diagnostics
    if problems:
        click.echo(render_text(problems, color=use_color(sys.stderr)), err=True)
        sys.exit(1)
    return specs


def load_kernel(argument: str) -> Spec:
    """The one spec that the argument names. Exits as :func:`load_specs` does."""
    try:
        path = find_kernel(argument)
    except NoSpecError as error:
        raise click.UsageError(str(error)) from None
    return load_specs([str(path)])[0]


def require_total(spec: Spec) -> None:
    """Ends the command where the tile values of a spec are not always defined: there is no plan to show."""
    from tilegen.check.checker import spec_findings

    found = spec_findings(spec)
    if found:
        click.echo(render_text(found, color=use_color(sys.stderr)), err=True)
        sys.exit(1)
