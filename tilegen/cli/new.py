"""`tilegen new`: a first spec of a family."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tilegen.spec.section import FamilySection


@click.command()
@click.argument("family")
@click.argument("name")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to FILE instead of stdout."
)
@click.option("--force", is_flag=True, help="Overwrite FILE if it is there.")
def command(family: str, name: str, output: Path | None, force: bool) -> None:
    """Print a commented spec of FAMILY for a kernel called NAME; it builds as it is.

    A family with several variants takes FAMILY/VARIANT.
    """
    from tilegen.emit.tree import write_file
    from tilegen.spec import load_bytes
    from tilegen.spec.names import kernel_problem
    from tilegen.spec.starter import starter

    problem = kernel_problem(name)
    if problem:
        raise click.BadParameter(problem, param_hint="NAME")
    family, variant, section = _section(family)
    text = starter(section, family, variant, name)
    load_bytes(text.encode(), str(output or f"{name}.toml"))
    if output is None:
        click.echo(text, nl=False)
        return
    if output.exists() and not force:
        raise click.BadParameter(f"{output} is there already; --force overwrites it", param_hint="--output")
    write_file(output, text.encode())


def _section(family: str) -> tuple[str, str | None, FamilySection]:
    """(family, variant, section) for FAMILY or FAMILY/VARIANT; a misuse error that lists what there is."""
    from tilegen import families
    from tilegen.expr import nearest

    family, _, variant = family.partition("/")
    if family not in families.names():
        raise click.BadParameter(
            f"there is no family {family!r}; {nearest(family, families.names())}", param_hint="FAMILY"
        )
    section = families.section(family)
    if not variant and section.compute is not None:
        return family, None, section
    if not variant and len(section.variants) == 1:
        variant = next(iter(section.variants))
    if variant not in section.variants:
        choices = ", ".join(f"{family}/{v}" for v in section.variants) or family
        raise click.BadParameter(f"choose one of {choices}", param_hint="FAMILY")
    return family, variant, section.variants[variant]
