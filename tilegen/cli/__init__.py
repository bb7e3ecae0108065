"""The command line: ``tilegen COMMAND``. Each command is one file of this folder, imported when it is called."""

from __future__ import annotations

import io
import os
import sys
from errno import EPIPE
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import click

from tilegen import __version__

ORDER = (
    "check",
    "build",
    "show",
    "why",
    "explain",
    "list",
    "diff",
    "vendor",
    "package",
    "test",
    "run",
    "interpret",
    "bench",
    "tune",
    "new",
    "schema",
    "doctor",
)


class Commands(click.Group):
    """Loads ``tilegen/cli/<name>.py`` only when ``<name>`` is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        found = {module.name for module in iter_modules(__path__) if not module.name.startswith("_")}
        return [name for name in ORDER if name in found] + sorted(found.difference(ORDER))

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"tilegen.cli.{name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.errno in (EPIPE, None):
                raise  # click ends quietly where the reader has gone; without a number it is no matter of the machine
            if error.filename is None:  # the output cannot be written, as on a full disk
                click.echo(f"error: {error.strerror or error}", err=True)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered cannot be written at exit either
                ctx.exit(2)
            click.echo(f"error: {error.filename}: {error.strerror}", err=True)
            ctx.exit(1)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if near:
                raise click.UsageError(f"{error.message} Did you mean '{near[0]}'?", ctx) from None
            raise


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="tilegen", message="%(prog)s %(version)s")
def main() -> None:
    """Kernel specs to proved, readable TileLang kernels with golden tests."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The name of a file need not be text: it is printed with escapes, as the standard error has it.
        sys.stdout.reconfigure(errors="backslashreplace")
