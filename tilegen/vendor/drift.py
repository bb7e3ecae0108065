"""What differs between a vendored folder and its lock: without a network, a GPU, torch or TileLang."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from tilegen.emit.content import sha256
from tilegen.emit.tree import names_in, read_files
from tilegen.vendor.lock import BASE, LOCK, Lock, LockError, read_base
from tilegen.vendor.merge import is_marked
from tilegen.vendor.source import Source

Kind = Literal["missing", "edited", "conflict", "unknown", "stale", "damaged"]


@dataclass(frozen=True)
class Drift:
    """One difference: a file, or for ``stale`` a kernel, and what is the matter with it."""

    kind: Kind
    name: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}" + (f" ({self.why})" if self.why else "")


def drift(folder: Path, lock: Lock, source: Source | None = None) -> list[Drift]:
    """Every difference, files in order. ``stale`` needs the generated tree that the kernels come from. A folder inside that
    was vendored by itself has a lock of its own.
    """
    here, names = read_files(folder, lock.files), names_in(folder)
    linked = linked_folders(folder, lock.files)
    found = [Drift("edited", name, "a link to another folder, which is not looked into") for name in linked]
    found += [entry for entry in _files(here, lock) if not _below(entry.name, linked)]
    found += _base(folder, lock)
    nested = [name.removesuffix(LOCK) for name in names if name.endswith(f"/{LOCK}") and name not in lock.files]
    known = {name for name in names if any(name.startswith(prefix) for prefix in nested)}
    found += [Drift("unknown", name) for name in sorted(names - known - lock.files.keys() - {LOCK, BASE})]
    return found if source is None else [*found, *_stale(lock, source)]


def linked_folders(folder: Path, names: Iterable[str]) -> list[str]:
    """The folders on the way to files that are links: what is written below them would be written elsewhere."""
    parents = {parent.as_posix() for name in names for parent in PurePosixPath(name).parents if parent.parts}
    return sorted(parent for parent in parents if (folder / parent).is_symlink())


def _below(name: str, folders: Iterable[str]) -> bool:
    return any(name.startswith(f"{folder}/") for folder in folders)


def _files(here: dict[str, bytes], lock: Lock) -> Iterator[Drift]:
    for name, digest in sorted(lock.files.items()):
        if name not in here:
            yield Drift("missing", name)
        elif is_marked(here[name]):
            yield Drift("conflict", name, "conflict marks are left in it")
        elif sha256(here[name]) not in (digest, lock.accepted.get(name)):
            same = sha256(here[name].replace(b"\r\n", b"\n")) == digest
            yield Drift("edited", name, "line endings alone" if same else "")


def _base(folder: Path, lock: Lock) -> Iterator[Drift]:
    try:
        read_base(folder, lock)
    except LockError:
        gone = not (folder / BASE).exists()
        yield Drift("missing" if gone else "damaged", BASE, "edits cannot be merged without it")


def _stale(lock: Lock, source: Source) -> Iterator[Drift]:
    for name, kernel in lock.kernels.items():
        if name not in source.kernels:
            yield Drift("stale", name, "it is not in the generated tree any more")
            continue
        now = source.manifest["kernels"][name]
        changes = [
            f"the spec {kernel.spec_path} changed" if now["spec"]["sha256"] != kernel.spec_sha256 else "",
            "the templates changed" if now["templates"] != kernel.templates else "",
            *(
                f"{tool} is {source.manifest[tool]}, it was {then}" if source.manifest[tool] != then else ""
                for tool, then in (("tilegen", lock.tilegen), ("tilelang", lock.tilelang))
            ),
        ]
        if any(changes):
            yield Drift("stale", name, "; ".join(filter(None, changes)))
