"""``tilegen check``: proves the tilings of specs legal, or says on which line they are not."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tilegen.check.formats import FORMATS
from tilegen.check.report import Report, reports_on
from tilegen.cli._terminal import use_color
from tilegen.spec.find import NoSpecError, find_specs


@click.command
@click.argument("specs", nargs=-1, metavar="[SPEC]...")
@click.option("--strict", is_flag=True, help="Fail on what is slow or undecided too.")
@click.option("--format", "form", type=click.Choice(list(FORMATS)), default="text", show_default=True)
@click.option("--no-cache", is_flag=True, help="Check again, though nothing has changed.")
def command(specs: tuple[str, ...], strict: bool, form: str, no_cache: bool) -> None:
    """Prove the tilings of specs legal for every declared shape.

    SPEC is a spec file, a folder of them, or the name of a kernel in specs/; without any, all of specs/ is checked.
    Exits 1 where a spec fails, 2 where there is none to check.
    """
    try:
        paths = find_specs(specs)
    except NoSpecError as error:
        raise click.UsageError(str(error)) from None
    reports = _reports(paths, cached=not no_cache)
    if form == "text":
        click.echo(FORMATS[form](reports, strict=strict, color=use_color(sys.stdout)), nl=False)
    else:
        click.echo(FORMATS[form](reports, strict=strict), nl=False)
    if any(report.fails(strict) for report in reports):
        sys.exit(1)


def _reports(paths: list[Path], *, cached: bool) -> list[Report]:
    """The reports on the specs; on a terminal, which one is being checked is shown meanwhile."""
    if not sys.stderr.isatty() or len(paths) < 2:
        return reports_on(paths, cached=cached)
    found = reports_on(
        paths, cached=cached, progress=lambda path: click.echo(f"\r\x1b[Kchecking {path}", nl=False, err=True)
    )
    click.echo("\r\x1b[K", nl=False, err=True)
    return found
