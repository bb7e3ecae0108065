"""``tilegen build``: specs to generated kernels."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command("build")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("generated"), show_default=True, help="Where to emit."
)
@click.option(
    "--check", "check_only", is_flag=True, help="Write nothing; exit 1 if the tree on disk is not what the specs give."
)
@click.option("--dry-run", is_flag=True, help="Write nothing; say what would change.")
@click.option("--only", multiple=True, metavar="KERNEL", help="Build only this kernel; others in the tree stay.")
@click.option("--target", "targets", multiple=True, metavar="ARCH", help="Lower only for this target.")
@click.option("--jobs", type=click.IntRange(1), default=None, help="Worker processes.  [default: one a core]")
@click.option(
    "--verify",
    "depth",
    type=click.Choice(["representative", "all"]),
    default="representative",
    show_default=True,
    help="How many instances to lower: one for each case of the tile rules, or every listed shape.",
)
def command(
    paths: tuple[Path, ...],
    out: Path,
    check_only: bool,
    dry_run: bool,
    only: tuple[str, ...],
    targets: tuple[str, ...],
    jobs: int | None,
    depth: str,
) -> None:
    """Check, render and verify specs, and write the kernels with their golden tests.

    PATHS are spec files or folders of them (default: specs). A build that fails changes nothing.
    """
    from tilegen.cli._build import run

    sys.exit(run(paths or (Path("specs"),), out, check_only, dry_run, only, targets, jobs, depth))
