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
@click.option(
    "--aot",
    metavar="ARCH[,ARCH]",
    help="Then compile libraries for these targets into aot/ of each kernel. Needs no GPU.",
)
@click.option(
    "--dims",
    multiple=True,
    metavar="DIM=N[,N]",
    help="With --aot: the sizes of a dim to compile for, instead of the listed ones.",
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
    aot: str | None,
    dims: tuple[str, ...],
) -> None:
    """Check, render and verify specs, and write the kernels with their golden tests.

    PATHS are spec files or folders of them (default: specs). A build that fails changes nothing.
    """
    from tilegen.cli._build import run

    arches = tuple(dict.fromkeys(word.strip() for word in (aot or "").split(",") if word.strip()))
    if aot is not None and not arches:
        raise click.UsageError("--aot names the targets to compile for, such as sm_90a,sm_80")
    if (dims or aot) and (check_only or dry_run):
        raise click.UsageError("--aot compiles; it does not go with --check or --dry-run")
    if dims and not aot:
        raise click.UsageError("--dims says what --aot compiles; it does nothing without")
    paths = paths or (Path("specs"),)
    code = run(paths, out, check_only, dry_run, only, targets, jobs, depth)
    if aot and code == 0:
        from tilegen.cli._libraries import compile_ahead

        code = compile_ahead(paths, out, only, arches, dims, jobs)
    sys.exit(code)
