"""``tilegen diff``: what a change of specs means, from one git revision to another."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilegen.cli._terminal import use_color

if TYPE_CHECKING:
    from tilegen.review.change import SpecDiff


@click.command
@click.argument("base", required=False)
@click.argument("head", required=False)
@click.option("--merge-base", is_flag=True, help="Take BASE where HEAD branched off it, as BASE...HEAD does.")
@click.option(
    "--specs",
    multiple=True,
    metavar="PATH",
    default=("specs",),
    show_default=True,
    help="A folder of specs, or a spec file; may be given several times.",
)
@click.option("--generated", metavar="FOLDER", default="generated", show_default=True, help="The generated tree.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "md", "markdown"]), default="text", show_default=True
)
@click.option(
    "--html",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write a page with both states of each kernel whose spec or lock changed into this folder.",
)
@click.option("--source", is_flag=True, help="Show the changes of the generated code too (text).")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note", "never"]),
    default="error",
    show_default=True,
    help="Exit 1 on findings of this level or a worse one.",
)
@click.option("--no-cache", is_flag=True, help="Compare again, though nothing has changed.")
def command(
    base: str | None,
    head: str | None,
    merge_base: bool,
    specs: tuple[str, ...],
    generated: str,
    form: str,
    html: Path | None,
    source: bool,
    fail_on: str,
    no_cache: bool,
) -> None:
    """Say what changed between the kernels of two git revisions, in words and numbers. Nothing is checked out.

    As with git diff: without arguments the working tree is compared with HEAD, with BASE the working tree with BASE;
    BASE HEAD and BASE..HEAD compare two revisions, BASE...HEAD what HEAD did since it branched off BASE.

    Exits 1 on findings (see --fail-on), 2 where a revision is not known.
    """
    from tilegen.review.change import Level
    from tilegen.review.diff import diff
    from tilegen.review.revisions import RevisionError, revisions

    try:
        old, new = revisions(base, head, merge_base=merge_base)
        found = diff(old, new, specs, generated, cached=not no_cache)
    except RevisionError as error:
        raise click.UsageError(str(error)) from None
    click.echo(_printed(found, form, source), nl=False)
    if html is not None:
        from tilegen.review.page.revisions import comparison_pages
        from tilegen.review.page.writing import write

        try:
            html.mkdir(parents=True, exist_ok=True)
            for name, page in comparison_pages(old, new, specs, generated, found):
                write(html / name, page)
                click.echo(f"{html / name}: {len(page.encode()):,} bytes", err=True)
        except OSError as error:
            raise click.UsageError(f"cannot write into {html}: {error.strerror}") from None
    if found.fails(None if fail_on == "never" else Level(fail_on)):
        sys.exit(1)


def _printed(found: SpecDiff, form: str, source: bool) -> str:
    if form == "json":
        return json.dumps(found.to_json(), indent=2) + "\n"
    if form in ("md", "markdown"):
        from tilegen.review.as_markdown import as_markdown

        return as_markdown(found)
    from tilegen.review.as_text import as_text

    return as_text(found, color=use_color(sys.stdout), source=source)
