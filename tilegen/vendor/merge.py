"""One file, three texts: as it was vendored, as it is here, as it is upstream."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

HERE, BEFORE, UPSTREAM = "here", "as vendored", "upstream"
_MARKS = (f"<<<<<<< {HERE}".encode(), f">>>>>>> {UPSTREAM}".encode())

Kind = Literal["unchanged", "kept", "added", "updated", "removed", "restored", "merged", "conflict"]


class MergeError(Exception):
    """Texts cannot be merged on this machine; the message says why."""


@dataclass(frozen=True)
class Merged:
    """What becomes of a file. ``content`` is None for a file that is gone; ``why`` explains a conflict."""

    kind: Kind
    content: bytes | None
    why: str = ""


def merge(base: bytes | None, here: bytes | None, upstream: bytes | None) -> Merged:
    """The outcome for one file; None stands for a file that is not there. An edit made here is never lost."""
    if here == upstream:
        return Merged("unchanged", here)
    if base is not None and here is not None and here != base and _unix(here) == _unix(base):
        here = base  # a checkout turned the line ends, which is no edit
        if upstream == base:
            return Merged("restored", base)
    if here == base:
        return Merged("removed" if upstream is None else "added" if base is None else "updated", upstream)
    if here is None:
        return Merged("restored", upstream)
    if upstream == base:
        return Merged("kept", here)
    if upstream is None:
        return Merged("conflict", here, "removed upstream, edited here: it stays")
    if not (_is_text(here) and _is_text(upstream)):
        return Merged("conflict", here, "no text, and changed on both sides: it stays as it is here")
    text, clean = _three_way(base or b"", _unix(here) if b"\r" not in upstream else here, upstream)
    return Merged("merged", text) if clean else Merged("conflict", text, "both sides changed the same lines")


def _unix(content: bytes) -> bytes:
    return content.replace(b"\r\n", b"\n")


def is_marked(content: bytes) -> bool:
    """Whether conflict marks of an update are still in a file."""
    return any(line.startswith(_MARKS) for line in content.splitlines())


def _is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False


def _three_way(base: bytes, here: bytes, upstream: bytes) -> tuple[bytes, bool]:
    """The merged text, by ``git merge-file``, and whether it is free of conflicts."""
    git = shutil.which("git")
    if git is None:
        raise MergeError("git is not installed, and edited files are merged with `git merge-file`")
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("here", "base", "upstream")]
        for path, content in zip(paths, (here, base, upstream), strict=True):
            path.write_bytes(content)
        labels = [word for label in (HERE, BEFORE, UPSTREAM) for word in ("-L", label)]
        result = subprocess.run([git, "merge-file", "-p", "--diff3", *labels, *map(str, paths)], capture_output=True)
    if result.returncode < 0 or result.returncode > 127:
        raise MergeError(f"git merge-file failed: {result.stderr.decode(errors='replace').strip()}")
    return result.stdout, result.returncode == 0
