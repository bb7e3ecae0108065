"""`tilegen schema`: the JSON schema of spec files."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command()
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to FILE instead of stdout."
)
def command(output: Path | None) -> None:
    """Print the JSON schema of spec files, for editors.

    Save it with `-o` and name it in the first line of a spec: `#:schema ./tilegen.schema.json`.
    """
    from tilegen.emit.tree import write_file
    from tilegen.spec.schema import schema

    text = json.dumps(schema(), indent=2) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        write_file(output, text.encode())
