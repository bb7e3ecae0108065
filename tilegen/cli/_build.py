"""What ``tilegen build`` does, apart from reading its options."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilegen.emit import stamp
from tilegen.emit.content import MANIFEST
from tilegen.spec.find import is_spec

if TYPE_CHECKING:
    from tilegen.emit.build import Built
    from tilegen.spec.diagnostic import Diagnostic


def run(
    paths: tuple[Path, ...],
    out: Path,
    check_only: bool,
    dry_run: bool,
    only: tuple[str, ...],
    targets: tuple[str, ...],
    jobs: int | None,
    depth: str,
) -> int:
    """Exit code 0: the tree is up to date or was written. 1: findings, or a tree that differs under ``--check``."""
    from tilegen.emit.tree import locked

    files = spec_files(paths)
    if not (check_only or dry_run):
        _check_out(out, files)
    key = stamp.key(files, only, targets, depth)
    with workers_die() as failed, locked(out):
        if stamp.is_current(key, out):
            click.echo(f"{out}: up to date")
            return 0
        return _build(files, out, check_only, dry_run, only, targets, jobs, depth, key)
    return int(bool(failed))


@contextlib.contextmanager
def workers_die() -> Iterator[list[str]]:
    """Says so where a worker process is killed. The list then holds the message."""
    from concurrent.futures.process import BrokenProcessPool

    failed: list[str] = []
    try:
        yield failed
    except BrokenProcessPool:
        failed.append("a worker process was killed; where memory is short, --jobs 1 needs the least")
        click.echo(f"error: {failed[0]}", err=True)


def _check_out(out: Path, files: list[Path]) -> None:
    """Raises ``click.UsageError`` for what is no place for a tree: a build removes there what it did not write."""
    from tilegen.emit.tree import names_in

    if out.exists() and not out.is_dir():
        raise click.UsageError(f"{out} is no folder")
    inside = [str(file) for file in files if file.resolve().is_relative_to(out.resolve())]
    if inside:
        raise click.UsageError(f"{inside[0]} lies in {out}, and a build removes from there what it did not write")
    if not (out / MANIFEST).exists() and names_in(out):
        raise click.UsageError(
            f"{out} holds files and no {MANIFEST}, so it is no tree of tilegen's, of which a build removes what it did not "
            "write: name a folder of its own"
        )


def spec_files(paths: tuple[Path, ...]) -> list[Path]:
    """The spec files named by ``paths``, folders searched for ``*.toml``. Raises ``click.UsageError``."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.glob("*.toml") if is_spec(file.name))
            if not inside:
                raise click.UsageError(f"{path} holds no spec (*.toml)")
            found += inside
        elif path.exists():
            found.append(path)
        else:
            raise click.UsageError(f"{path} does not exist")
    return found


def _build(
    files: list[Path],
    out: Path,
    check_only: bool,
    dry_run: bool,
    only: tuple[str, ...],
    targets: tuple[str, ...],
    jobs: int | None,
    depth: str,
    key: str,
) -> int:
    from tilegen.emit.artefacts import StaleFactsError
    from tilegen.emit.build import BuildError, build, write
    from tilegen.emit.rendering import RenderError
    from tilegen.spec.diagnostic import SpecError
    from tilegen.verify.pipeline import default_workers

    try:
        specs = load_specs(files, only)
        known_targets(specs, targets)
        with progress("lowering") as advance:
            built = build(
                specs,
                out,
                targets=targets,
                depth=depth,  # type: ignore[arg-type]
                workers=jobs or default_workers(),
                partial=bool(only),
                progress=advance,
            )
    except (SpecError, BuildError) as error:
        _report(error.diagnostics)
        return 1
    except (RenderError, StaleFactsError) as error:
        click.echo(f"error: {error}", err=True)
        return 1
    _report(built.diagnostics)
    if check_only or dry_run:
        return _say_difference(built, out, check_only)
    write(built, out)
    stamp.remember(key, out)
    kernels = ", ".join(spec.kernel for spec in specs)
    changed = len(built.added) + len(built.changed) + len(built.removed)
    click.echo(f"{out}: {kernels}; {built.lowered} instances lowered; {changed or 'no'} files changed")
    return 0


def load_specs(files: list[Path], only: tuple[str, ...]) -> list[Any]:
    from tilegen.spec import load
    from tilegen.spec.diagnostic import SpecError

    specs: list[Any] = []
    problems: list[Diagnostic] = []
    for file in files:
        try:
            specs.append(load(file))
        except SpecError as error:
            problems += error.diagnostics
    if problems:
        raise SpecError(tuple(problems))
    names = [spec.kernel for spec in specs]
    for name in names:
        if names.count(name) > 1:
            paths = ", ".join(spec.path for spec in specs if spec.kernel == name)
            raise click.UsageError(f"kernel `{name}` is declared more than once: {paths}")
    unknown = [name for name in only if name not in names]
    if unknown:
        raise click.UsageError(f"no spec declares kernel {', '.join(unknown)}; there are {', '.join(names)}")
    return [spec for spec in specs if not only or spec.kernel in only]


def known_targets(specs: list[Any], targets: tuple[str, ...]) -> None:
    declared = {target.arch for spec in specs for target in spec.targets}
    for name in targets:
        if name not in declared:
            raise click.UsageError(f"no spec has [target.{name}]; there are {', '.join(sorted(declared))}")


@contextlib.contextmanager
def progress(word: str) -> Iterator[Any]:
    """A progress bar on a terminal, nothing where the output is piped."""
    if not sys.stderr.isatty():
        yield lambda _name, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(word),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda name, total: bar.update(task, advance=1, total=total, description=name)


def _report(diagnostics: tuple[Diagnostic, ...]) -> None:
    if not diagnostics:
        return
    from tilegen.spec.diagnostic import render_text

    click.echo(render_text(diagnostics, color=sys.stderr.isatty()), err=True)


def _say_difference(built: Built, out: Path, check_only: bool) -> int:
    for word, names in (("missing", built.added), ("different", built.changed), ("not from a spec", built.removed)):
        for name in names:
            click.echo(f"{word}: {out / name}")
    if not built.differs:
        click.echo(f"{out}: what the specs give")
        return 0
    if check_only:
        click.echo("run `tilegen build` and commit the result", err=True)
        return 1
    return 0
