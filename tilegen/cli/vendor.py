"""``tilegen vendor``: generated kernels in other repositories."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command("vendor")
@click.argument("dest", type=click.Path(path_type=Path, file_okay=False))
@click.argument("files", nargs=-1)
@click.option("--kernels", metavar="A,B", help="Copy these kernels to DEST.")
@click.option("--targets", metavar="ARCH,ARCH", help="Only for these targets.  [default: all that the kernels have]")
@click.option("--single-file", is_flag=True, help="One self-contained .py for each kernel, instead of a package.")
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if a file is missing, edited, stale or unknown.")
@click.option("--update", is_flag=True, help="Bring DEST up to date; local edits are merged, conflicts marked.")
@click.option("--remove", metavar="A,B", help="Let go of these kernels; files that were edited stay.")
@click.option("--accept", is_flag=True, help="Record the local edits of FILES (default: all) as meant to be.")
@click.option(
    "--from",
    "origin",
    type=click.Path(path_type=Path, file_okay=False),
    help="The generated tree.  [default: the one that the lock names, else generated]",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    dest: Path,
    files: tuple[str, ...],
    kernels: str | None,
    targets: str | None,
    single_file: bool,
    check: bool,
    update: bool,
    remove: str | None,
    accept: bool,
    origin: Path | None,
    form: str,
) -> None:
    """Copy kernels with their golden tests, licence and a lock file to DEST, and keep them checked and up to date.

    \b
    tilegen vendor DEST --kernels a,b     copy
    tilegen vendor DEST --check           what differs; needs neither network nor GPU nor TileLang
    tilegen vendor DEST --update          three-way merge with the generated tree
    tilegen vendor DEST --remove a        without that kernel from now on
    tilegen vendor DEST --accept          local edits that --check shall pass

    Exits 0; 1 for differences or conflicts, or where nothing could be done; 2 for misuse.
    """
    from tilegen.cli import _vendor

    if sum((kernels is not None, check, update, remove is not None, accept)) != 1:
        raise click.UsageError("give one of --kernels, --check, --update, --remove, --accept")
    if kernels is None and (targets or single_file):
        raise click.UsageError("--targets and --single-file go with --kernels; the lock remembers them")
    if files and not accept:
        raise click.UsageError(f"unexpected argument {files[0]}: only --accept takes files")
    if accept:
        sys.exit(_vendor.accept(dest, files))
    if remove is not None:
        sys.exit(_vendor.remove(dest, _words(remove)))
    if check:
        sys.exit(_vendor.check(dest, origin, form))
    if update:
        sys.exit(_vendor.update(dest, origin))
    sys.exit(_vendor.add(dest, _words(kernels), _words(targets), single_file, origin or Path("generated")))


def _words(text: str | None) -> tuple[str, ...]:
    words = tuple(word.strip() for word in (text or "").split(",") if word.strip())
    if text is not None and not words:
        raise click.UsageError("an empty list")
    return words
