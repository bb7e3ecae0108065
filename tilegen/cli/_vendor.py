"""What ``tilegen vendor`` does, apart from reading its options. Each function gives the exit code."""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tilegen.vendor.lock import Lock
    from tilegen.vendor.source import Source


def add(dest: Path, kernels: tuple[str, ...], targets: tuple[str, ...], single_file: bool, origin: Path) -> int:
    from tilegen.emit.tree import locked
    from tilegen.vendor.lock import LOCK, read_lock
    from tilegen.vendor.vendoring import adding, apply

    with _failing() as failed, locked(dest):
        source = _source(origin)
        lock = read_lock(dest) if (dest / LOCK).exists() else None
        plan = adding(dest, source, kernels, targets, "single-file" if single_file else "folders", lock)
        apply(plan, dest)
        names = ", ".join(dict.fromkeys(kernels))
        click.echo(f"{dest}: {names}; {len(plan.lock.files)} files; commit them with {LOCK}")
    return int(bool(failed))


def check(dest: Path, origin: Path | None, form: str) -> int:
    from tilegen.emit.tree import interrupted, locked
    from tilegen.vendor.drift import drift

    found = []
    with _failing() as failed:
        if interrupted(dest):
            with locked(dest):
                pass  # whoever takes the lock finishes the change
        lock = _lock(dest)
        source = _origin(dest, lock, origin)
        found = drift(dest, lock, source)
        if form == "json":
            click.echo(json.dumps([{"kind": d.kind, "name": d.name, "why": d.why} for d in found], indent=1))
        else:
            _say(dest, lock, source, [str(entry) for entry in found])
    return int(bool(found or failed))


def update(dest: Path, origin: Path | None) -> int:
    from tilegen.emit.tree import locked
    from tilegen.vendor.vendoring import apply, updating

    with _failing() as failed, locked(dest):
        lock = _lock(dest)
        source = _origin(dest, lock, origin)
        if source is None:
            raise click.UsageError("the lock names no generated tree that is here: give it with --from")
        plan = updating(dest, source, lock)
        changed = apply(plan, dest)
        for name, why in plan.conflicts.items():
            click.echo(f"conflict: {name} ({why})")
        counts = Counter(merged.kind for merged in plan.outcomes.values() if merged.kind != "unchanged")
        words = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        click.echo(f"{dest}: {words or 'no file differs'}" if changed else f"{dest}: up to date")
        if plan.conflicts:
            click.echo("settle what is in conflict, then run `tilegen vendor DEST --accept`", err=True)
        return int(bool(plan.conflicts))
    return int(bool(failed))


def remove(dest: Path, kernels: tuple[str, ...]) -> int:
    from tilegen.emit.tree import locked
    from tilegen.vendor.vendoring import apply, removing

    with _failing() as failed, locked(dest):
        plan = removing(dest, _lock(dest), kernels)
        apply(plan, dest)
        for name in plan.conflicts:
            click.echo(f"kept: {name} (edited here)")
        click.echo(f"{dest}: removed {', '.join(dict.fromkeys(kernels))}; {', '.join(plan.lock.kernels)} stay")
    return int(bool(failed))


def accept(dest: Path, files: tuple[str, ...]) -> int:
    from tilegen.emit.tree import locked
    from tilegen.vendor.vendoring import accepting, apply

    with _failing() as failed, locked(dest):
        plan, chosen = accepting(dest, _lock(dest), files)
        apply(plan, dest)
        click.echo(f"{dest}: accepted {', '.join(chosen)}" if chosen else f"{dest}: no file is edited")
    return int(bool(failed))


@contextlib.contextmanager
def _failing() -> Iterator[list[str]]:
    """Says why nothing was done, instead of a traceback; the list then holds the message."""
    from tilegen.vendor.lock import LockError
    from tilegen.vendor.merge import MergeError
    from tilegen.vendor.source import SourceError
    from tilegen.vendor.vendoring import VendorError

    failed: list[str] = []
    try:
        yield failed
    except (LockError, MergeError, SourceError, VendorError) as error:
        failed.append(str(error))
        click.echo(f"error: {error}", err=True)
    except OSError as error:
        failed.append(str(error))
        click.echo(f"error: {error.filename or ''}: {error.strerror}", err=True)


def _lock(dest: Path) -> Lock:
    from tilegen.vendor.lock import LOCK, read_lock

    if not (dest / LOCK).exists():
        raise click.UsageError(f"{dest} holds no {LOCK}: `tilegen vendor {dest} --kernels a,b` makes one")
    return read_lock(dest)


def _source(origin: Path) -> Source:
    from tilegen.vendor.source import open_source

    if not origin.is_dir():
        raise click.UsageError(f"{origin} does not exist; `tilegen build` writes it, or give --from")
    return open_source(origin)


def _origin(dest: Path, lock: Lock, origin: Path | None) -> Source | None:
    """The generated tree: the one given, else the one that the lock names; None where that is not here."""
    if origin is not None:
        return _source(origin)
    known = Path(os.path.normpath(dest.resolve() / lock.origin))
    return _source(known) if lock.origin and (known / "manifest.json").exists() else None


def _say(dest: Path, lock: Lock, source: Source | None, lines: list[str]) -> None:
    for line in lines:
        click.echo(line)
    for name in lock.accepted:
        click.echo(f"accepted: {name} (edited here)")
    if not lines:
        compared = "" if source is None else ", and current"
        click.echo(f"{dest}: {len(lock.files)} files of {', '.join(lock.kernels)} as vendored{compared}")
    else:
        count = "1 difference" if len(lines) == 1 else f"{len(lines)} differences"
        click.echo(f"{count}; `{lock.renew}` renews the folder", err=True)
    if source is None:
        click.echo("not compared with the generated tree, which is not here: --from", err=True)
