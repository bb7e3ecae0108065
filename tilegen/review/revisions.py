"""Files of a git revision, or of the working tree, without checking anything out."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

WORKING_TREE = "working tree"


class RevisionError(Exception):
    """A revision that git does not know, or no repository; the message says what to do."""


@dataclass(frozen=True)
class Revision:
    """``commit`` is a full object name, or empty for the working tree; ``label`` is what a reader is shown."""

    repository: Repository
    commit: str
    label: str

    def files(self, folders: Iterable[str]) -> dict[str, bytes]:
        """Every file under the folders (or of these names), by path relative to the current folder."""
        return self.repository.files(self.commit, tuple(folders))


@dataclass(frozen=True)
class Repository:
    """``root`` is the top folder, ``prefix`` the current one relative to it (empty, or ending in a slash).

    A bare one has no working tree, as the ``.git`` folder of any other has none; its root is where the objects lie.
    """

    root: Path
    prefix: str
    bare: bool = False

    def files(self, commit: str, folders: tuple[str, ...]) -> dict[str, bytes]:
        """Every file under the folders at a commit, or in the working tree where ``commit`` is empty."""
        wanted = [path for path in (_inside(self.prefix, folder) for folder in folders) if path != "."]
        found = self._at_commit(commit, wanted) if commit else self._on_disk(wanted)
        return {os.path.relpath(path, self.prefix or "."): content for path, content in found.items()}

    def _at_commit(self, commit: str, wanted: list[str]) -> dict[str, bytes]:
        listing = _git(self.root, "ls-tree", "-r", "-z", "--full-tree", commit, "--", *wanted)
        paths: dict[str, str] = {}
        for entry in listing.split(b"\0"):
            head, _, name = entry.partition(b"\t")
            kind = head.split()
            if len(kind) == 3 and kind[1] == b"blob" and kind[0] != b"120000":
                paths[os.fsdecode(name)] = kind[2].decode()
        return dict(zip(paths, self._blobs(list(paths.values())), strict=True))

    def _blobs(self, objects: list[str]) -> list[bytes]:
        if not objects:
            return []
        output = _git(self.root, "cat-file", "--batch", input="".join(f"{name}\n" for name in objects).encode())
        contents, at = [], 0
        for name in objects:
            end = output.index(b"\n", at)
            words = output[at:end].split()
            if len(words) != 3:
                raise RevisionError(f"object {name} is not in this clone; fetch it (`git fetch`)")
            size = int(words[2])
            contents.append(output[end + 1 : end + 1 + size])
            at = end + 2 + size
        return contents

    def _on_disk(self, wanted: list[str]) -> dict[str, bytes]:
        """What git tracks or would add: ignored files, such as caches, are no part of a change."""
        listing = _git(self.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *wanted)
        found = {}
        for name in sorted({os.fsdecode(entry) for entry in listing.split(b"\0") if entry}):
            path = self.root / name
            try:
                if path.is_file() and not path.is_symlink():
                    found[name] = path.read_bytes()
            except OSError as error:
                raise RevisionError(f"cannot read {name}: {error.strerror}") from None
        return found


def repository(folder: Path | None = None) -> Repository:
    """The repository that holds the current folder. Raises :class:`RevisionError`."""
    folder = folder or Path.cwd()
    inside, _, objects = (
        _git(folder, "rev-parse", "--is-inside-work-tree", "--absolute-git-dir").decode().partition("\n")
    )
    if inside == "false":
        return Repository(Path(objects.rstrip("\n")), "", bare=True)
    root, _, prefix = _git(folder, "rev-parse", "--show-toplevel", "--show-prefix").decode().partition("\n")
    return Repository(Path(root), prefix.rstrip("\n"))


def revisions(base: str | None, head: str | None, *, merge_base: bool = False) -> tuple[Revision, Revision]:
    """The two sides of a comparison, by git's own conventions. Raises :class:`RevisionError`.

    Nothing: the working tree against HEAD. ``A``: the working tree against A. ``A B`` or ``A..B``: B against A.
    ``A...B``: B against the merge base of both. A side that is left out of ``..`` or ``...`` is HEAD. ``merge_base``
    replaces the base by its merge base with the head, as three dots do.
    """
    here = repository()
    if "" in (base, head):
        raise RevisionError("a revision is empty: leave it away for HEAD")
    if base is not None and head is None and ".." in base:
        dots = "..." if "..." in base else ".."
        base, _, head = base.partition(dots)
        base, head, merge_base = base or "HEAD", head or "HEAD", merge_base or dots == "..."
    old = _commit(here, base or "HEAD")
    if here.bare and head is None:
        raise RevisionError(f"there is no working tree here to compare with {base or 'HEAD'}: name two revisions")
    new = _commit(here, head) if head is not None else ""
    label = base or "HEAD"
    if merge_base:
        old = _merge_base(here, old, new or _commit(here, "HEAD"), label)
        label = f"{old[:10]} (merge base with {label})"
    return Revision(here, old, label), Revision(here, new, head if head is not None else WORKING_TREE)


def _commit(here: Repository, name: str) -> str:
    if name.startswith("-"):
        raise RevisionError(f"`{name}` is no revision")
    try:
        found = _git(here.root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except RevisionError:
        if not _knows(here, "HEAD"):
            raise RevisionError("the repository has no commit yet: there is nothing to compare with") from None
        raise RevisionError(f"git does not know the revision `{name}`{_fetch(here, name)}") from None
    return found.decode().strip()


def _merge_base(here: Repository, first: str, second: str, label: str) -> str:
    try:
        return _git(here.root, "merge-base", first, second).decode().split()[0]
    except (RevisionError, IndexError):
        raise RevisionError(f"`{label}` and the head have no common commit{_fetch(here)}") from None


def _knows(here: Repository, name: str) -> bool:
    try:
        return bool(_git(here.root, "rev-parse", "--verify", "--quiet", name))
    except RevisionError:
        return False


def _fetch(here: Repository, name: str = "") -> str:
    """What to do about a commit that is not there, where the clone may have been cut short."""
    if _git(here.root, "rev-parse", "--is-shallow-repository").strip() == b"true":
        return ": this clone is shallow; `git fetch --unshallow` gets the rest (actions/checkout: fetch-depth: 0)"
    return ": fetch it (actions/checkout: fetch-depth: 0)" if re.fullmatch("[0-9a-f]{40,}", name) else ""


def _inside(prefix: str, folder: str) -> str:
    path = os.path.normpath(os.path.join(prefix, folder))
    if path.startswith("..") or os.path.isabs(path):
        raise RevisionError(f"{folder} lies outside the repository")
    return path


def _git(folder: Path, *arguments: str, input: bytes | None = None) -> bytes:
    environment: Mapping[str, str] = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    command = ["git", "--literal-pathspecs", "-C", str(folder), *arguments]
    try:
        result = subprocess.run(command, input=input, capture_output=True, check=False, env=environment)
    except FileNotFoundError:
        raise RevisionError("git is not installed, or not on the path") from None
    if result.returncode != 0:
        said = result.stderr.decode(errors="replace").strip().splitlines()
        raise RevisionError(said[0].removeprefix("fatal: ") if said else f"git {arguments[0]} failed")
    return result.stdout
