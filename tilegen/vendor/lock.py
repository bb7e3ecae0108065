"""``tilegen.lock``: what was vendored, from what, and the hash of every file; ``tilegen.base``: those files themselves.

The base texts are what a three-way merge needs when a vendored file was edited. They lie in one compressed archive, so
that a search through the repository finds each kernel once.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from tilegen.emit.content import sha256, to_json

LOCK = "tilegen.lock"
BASE = "tilegen.base"
FORMAT = 1
Form = Literal["folders", "single-file"]


class LockError(Exception):
    """The lock file is absent or cannot be understood; the message says what to do."""


@dataclass(frozen=True)
class Kernel:
    """Where one vendored kernel comes from. ``templates`` is the sha256 over the templates that it was printed with;
    ``whole``: it has all targets of its spec, and is to have those that come.
    """

    spec_path: str
    spec_sha256: str
    templates: str
    targets: tuple[str, ...]
    whole: bool = False


@dataclass(frozen=True)
class Lock:
    """``files`` has the sha256 of every file as it was vendored, ``accepted`` that of local edits that are meant to be.

    ``origin`` is the generated tree, relative to the folder of the lock; empty where that would say too much of the
    machine. ``renew`` is the command that updates the folder.
    """

    kernels: Mapping[str, Kernel]
    files: Mapping[str, str]
    form: Form
    tilegen: str
    tilelang: str
    renew: str
    origin: str = ""
    accepted: Mapping[str, str] = field(default_factory=dict)
    base_sha256: str = ""

    def to_bytes(self) -> bytes:
        kernels = {
            name: {
                "spec": {"path": kernel.spec_path, "sha256": kernel.spec_sha256},
                "templates": kernel.templates,
                "targets": list(kernel.targets),
                "all_targets": kernel.whole,
            }
            for name, kernel in self.kernels.items()
        }
        return to_json(
            {
                "format": FORMAT,
                "renew": self.renew,
                "origin": self.origin,
                "form": self.form,
                "tilegen": self.tilegen,
                "tilelang": self.tilelang,
                "kernels": kernels,
                "files": dict(self.files),
                "accepted": dict(self.accepted),
                "base": self.base_sha256,
            }
        )


def read_lock(folder: Path) -> Lock:
    """The lock of a vendored folder. Raises :class:`LockError`."""
    path = folder / LOCK
    try:
        text = path.read_bytes()
        if any(line.startswith(b"<<<<<<< ") for line in text.splitlines()):
            raise LockError(
                f"{path} has marks of a merge in it: take {LOCK} and {BASE} of one side, both of the same, then --update"
            )
        content: Any = json.loads(text)
    except FileNotFoundError:
        raise LockError(f"{path} does not exist: nothing was vendored here") from None
    except (OSError, ValueError, RecursionError) as error:
        raise LockError(f"{path} cannot be read ({error}): restore it from version control") from None
    try:
        if content["format"] != FORMAT:
            raise LockError(f"{path} has format {content['format']}, and this tilegen knows {FORMAT}: update tilegen")
        return _parsed(content)
    except KeyError as error:
        raise LockError(f"{path} is not a lock file (no entry {error}): restore it from version control") from None
    except ValueError as error:
        raise LockError(f"{path} is not a lock file ({error}): restore it from version control") from None
    except (TypeError, AttributeError):
        problem = "an entry is of another type than tilegen writes"
        raise LockError(f"{path} is not a lock file ({problem}): restore it from version control") from None


def _parsed(content: Mapping[str, Any]) -> Lock:
    if content["form"] not in ("folders", "single-file"):
        raise ValueError(f"form {content['form']!r}")
    if not content["kernels"]:
        raise ValueError("it names no kernel")
    kernels = {
        name: Kernel(
            str(entry["spec"]["path"]),
            str(entry["spec"]["sha256"]),
            str(entry["templates"]),
            tuple(map(str, entry["targets"])),
            bool(entry.get("all_targets", False)),
        )
        for name, entry in content["kernels"].items()
    }
    for name in (*content["files"], *content["accepted"]):
        check_path(name)
    return Lock(
        kernels,
        {name: str(digest) for name, digest in content["files"].items()},
        content["form"],
        str(content["tilegen"]),
        str(content["tilelang"]),
        str(content["renew"]),
        str(content["origin"]),
        {name: str(digest) for name, digest in content["accepted"].items()},
        str(content["base"]),
    )


def check_path(name: str) -> None:
    """Refuses a path that leads out of the folder: a lock file may come from anywhere."""
    path = PurePosixPath(name)
    if "\\" in name:
        raise ValueError(f"the path {name} has backslashes: folders are parted by /")
    if path.is_absolute() or ".." in path.parts or not path.parts or not name.isprintable():
        raise ValueError(f"the path {name!r} is not one of a vendored file")


def sealed(lock: Lock, base: Mapping[str, bytes]) -> dict[str, bytes]:
    """The two files that stand for ``lock``, whose files have the contents ``base``."""
    archive = pack(base)
    return {LOCK: replace(lock, base_sha256=sha256(archive)).to_bytes(), BASE: archive}


def pack(files: Mapping[str, bytes]) -> bytes:
    """One archive of the files, the same bytes for the same files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED, 9)
    return buffer.getvalue()


def read_base(folder: Path, lock: Lock) -> dict[str, bytes]:
    """The files as they were vendored. Raises :class:`LockError` where the archive is not what the lock says."""
    path = folder / BASE
    if not path.exists():
        raise LockError(f"{path} is missing, and edits cannot be merged without it: restore it from version control")
    problem = f"{path} is not what {LOCK} says, so edits cannot be merged: restore it from version control"
    try:
        content = path.read_bytes()
        if sha256(content) != lock.base_sha256:
            raise LockError(problem)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            found = {name: archive.read(name) for name in archive.namelist()}
    except (OSError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error):
        raise LockError(problem) from None
    if {name: sha256(text) for name, text in found.items()} != dict(lock.files):
        raise LockError(problem)
    return found
