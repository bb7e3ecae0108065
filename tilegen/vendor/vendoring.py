"""Vendoring: which files a folder gets, what an update makes of them, and the one exchange that puts them there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from tilegen.emit.content import sha256
from tilegen.emit.tree import change_tree, names_in, read_files
from tilegen.vendor.drift import linked_folders
from tilegen.vendor.lock import BASE, LOCK, Form, Kernel, Lock, read_base, sealed
from tilegen.vendor.merge import Merged, is_marked, merge
from tilegen.vendor.source import Source, SourceError, licence, notice, without

PACKAGE = b'"""Kernels vendored by tilegen; tilegen.lock says from what, and how to update them."""\n'
ATTRIBUTES = b"""# Vendored by tilegen: byte for byte, and folded in reviews.
* -text linguist-generated
tilegen.base binary
*.npy binary
"""


class VendorError(Exception):
    """Nothing was changed; the message says why."""


@dataclass(frozen=True)
class Plan:
    """What a folder will hold: the lock, its base texts, and what becomes of each file."""

    lock: Lock
    base: Mapping[str, bytes]
    outcomes: Mapping[str, Merged]

    @property
    def conflicts(self) -> dict[str, str]:
        return {name: merged.why for name, merged in self.outcomes.items() if merged.kind == "conflict"}

    def changes(self, folder: Path) -> dict[str, bytes | None]:
        """The files to write or remove in a folder."""
        wanted = {name: merged.content for name, merged in self.outcomes.items()}
        wanted |= sealed(self.lock, self.base)
        here = read_files(folder, wanted)
        return {name: content for name, content in wanted.items() if content != here.get(name)}


def adding(
    folder: Path, source: Source, kernels: Iterable[str], targets: tuple[str, ...], form: Form, lock: Lock | None
) -> Plan:
    """The plan that adds kernels to a folder, which may have a lock already. Raises :class:`VendorError`."""
    kernels = list(dict.fromkeys(kernels))
    if folder.resolve().is_relative_to(source.root.resolve()):
        raise VendorError(f"{folder} lies in {source.root}, of which `tilegen build` removes what it did not write")
    if source.root.resolve().is_relative_to(folder.resolve()):
        raise VendorError(f"{folder} holds the generated tree {source.root}: vendor into a folder of its own")
    if lock is not None:
        others = [name for name in lock.kernels if name not in source.kernels]
        if others:
            raise VendorError(
                f"{folder} holds {', '.join(others)}, of another generated tree than {source.root}: one folder is "
                "updated from one tree, so use another folder"
            )
        already = [name for name in kernels if name in lock.kernels]
        if already:
            raise VendorError(f"{folder} holds {', '.join(already)} already: use --update")
        if lock.form != form:
            raise VendorError(f"{folder} was vendored in the form {lock.form}: use another folder for {form}")
    chosen = {**(lock.kernels if lock else {}), **{name: source.kernel(name, targets) for name in kernels}}
    kept = {} if lock is None else read_base(folder, lock)
    upstream = {
        **{name: text for name, text in kept.items() if name not in _common(source, chosen, form)},
        **_common(source, chosen, form),
        **{path: text for name in kernels for path, text in source.files(name, targets, form).items()},
    }
    here = read_files(folder, upstream.keys() | kept.keys())
    taken = [name for name in upstream if name in here and name not in kept and here[name] != upstream[name]]
    if taken:
        raise VendorError(f"{folder} holds files of its own that would be overwritten: {', '.join(sorted(taken))}")
    return _plan(folder, kept, upstream, chosen, form, source, lock)


def updating(folder: Path, source: Source, lock: Lock) -> Plan:
    """The plan that brings every kernel up to date and keeps local edits. Raises :class:`VendorError`."""
    kept = read_base(folder, lock)
    marked = [name for name, text in read_files(folder, lock.files).items() if is_marked(text)]
    if marked:
        raise VendorError(f"conflict marks of an earlier update are left in {', '.join(marked)}: resolve them first")
    kernels: dict[str, Kernel] = {}
    upstream: dict[str, bytes] = {}
    gone = [name for name in lock.kernels if name not in source.kernels]
    if gone:
        raise VendorError(
            f"{source.root} does not hold {', '.join(gone)} any more; it has {', '.join(source.kernels)}. "
            f"`tilegen vendor DEST --remove {','.join(gone)}` lets go of what it no longer has"
        )
    for name, known in lock.kernels.items():
        whole = source.kernel(name).targets
        targets = known.targets if not known.whole and set(known.targets) < set(whole) else ()
        kernels[name] = source.kernel(name, targets)
        upstream |= source.files(name, targets, lock.form)
    upstream |= _common(source, kernels, lock.form)
    return _plan(folder, kept, upstream, kernels, lock.form, source, lock)


def removing(folder: Path, lock: Lock, kernels: Iterable[str]) -> Plan:
    """The plan that lets go of kernels: their files go, but those that were edited. Raises :class:`VendorError`."""
    names = list(dict.fromkeys(kernels))
    unknown = [name for name in names if name not in lock.kernels]
    if unknown:
        raise VendorError(f"{folder} holds no {', '.join(unknown)}; it has {', '.join(lock.kernels)}")
    if len(names) == len(lock.kernels):
        raise VendorError(f"nothing would be left in {folder}: remove the folder itself")
    here, kept = read_files(folder, lock.files), read_base(folder, lock)
    theirs = [path for path in kept if path.split("/")[0].removesuffix(".py") in names]
    base = {path: text for path, text in kept.items() if path not in theirs}
    base["NOTICE"] = without(kept["NOTICE"], names)
    outcomes = {path: merge(kept[path], here.get(path), base.get(path)) for path in (*theirs, "NOTICE")}
    files = {path: sha256(text) for path, text in base.items()}
    accepted = {path: digest for path, digest in lock.accepted.items() if path in base}
    left = {name: kernel for name, kernel in lock.kernels.items() if name not in names}
    return Plan(replace(lock, kernels=left, files=files, accepted=accepted), base, outcomes)


def accepting(folder: Path, lock: Lock, paths: Iterable[str]) -> tuple[Plan, list[str]]:
    """The plan that records the edits of ``paths``, or of all files, as meant to be. Raises :class:`VendorError`."""
    here, base = read_files(folder, lock.files), read_base(folder, lock)
    edited = [name for name in lock.files if name in here and sha256(here[name]) != lock.files[name]]
    paths = list(paths)
    unknown = [name for name in paths if name not in edited]
    if unknown:
        raise VendorError(f"no edited file of {folder}: {', '.join(unknown)}")
    chosen = paths or edited
    marked = [name for name in chosen if is_marked(here[name])]
    if marked:
        raise VendorError(f"conflict marks are left in {', '.join(marked)}: resolve them first")
    kept = {name: digest for name, digest in lock.accepted.items() if name in edited}
    accepted = {**kept, **{name: sha256(here[name]) for name in chosen}}
    return Plan(replace(lock, accepted=dict(sorted(accepted.items()))), base, {}), chosen


def _plan(
    folder: Path,
    base: Mapping[str, bytes],
    upstream: Mapping[str, bytes],
    kernels: Mapping[str, Kernel],
    form: Form,
    source: Source,
    lock: Lock | None,
) -> Plan:
    names = sorted(base.keys() | upstream.keys())
    here = read_files(folder, names)
    outcomes = {name: merge(base.get(name), here.get(name), upstream.get(name)) for name in names}
    accepted = {} if lock is None else lock.accepted
    still = {
        name: sha256(merged.content)
        for name, merged in outcomes.items()
        if name in accepted and name in upstream and merged.kind in ("kept", "merged") and merged.content is not None
        if accepted[name] == sha256(here[name])
    }
    new = Lock(
        kernels,
        {name: sha256(text) for name, text in sorted(upstream.items())},
        form,
        source.manifest["tilegen"],
        source.manifest["tilelang"],
        f"tilegen vendor --update {_shown(folder)}",
        _origin(folder, source.root),
        still,
    )
    return Plan(new, upstream, outcomes)


def _common(source: Source, kernels: Mapping[str, Kernel], form: Form) -> dict[str, bytes]:
    """The files beside the kernels."""
    common = {"LICENSE": licence(), "NOTICE": notice(source, kernels), ".gitattributes": ATTRIBUTES}
    return common if form == "single-file" else {**common, "__init__.py": PACKAGE}


def _shown(folder: Path) -> str:
    """The folder as seen from the root of its repository, else its name, as a shell takes it."""
    return shlex.quote(folder.resolve().relative_to(_repository(folder)).as_posix())


def _repository(folder: Path) -> Path:
    """The root of the repository that a folder lies in, else the folder above it."""
    parents = folder.resolve().parents
    return next((parent for parent in parents if (parent / ".git").exists()), parents[0])


def _origin(folder: Path, source: Path) -> str:
    """The generated tree relative to the folder, where both lie in neighbouring checkouts; else nothing: where things
    lie on one machine is no concern of a repository."""
    root, tree = _repository(folder), source.resolve()
    if not tree.is_relative_to(root.parent) or root.parent == Path(root.anchor):
        return ""
    return Path(os.path.relpath(tree, folder.resolve())).as_posix()


def apply(plan: Plan, folder: Path) -> bool:
    """Puts a plan into place in one exchange; False if there was nothing to do. Needs the lock of the tree."""
    if (folder / ".git").exists():
        raise VendorError(f"{folder} is the root of a repository: vendor into a folder of its own")
    changes = plan.changes(folder)
    linked = linked_folders(folder, changes)
    if linked:
        raise VendorError(
            f"{', '.join(linked)} in {folder} is a link to another folder, which is not written through: put the files in "
            "its place"
        )
    if changes:
        _check_room(folder, changes)
        change_tree(folder, changes)
    return bool(changes)


def _check_room(folder: Path, changes: Mapping[str, bytes | None]) -> None:
    """Raises :class:`VendorError` for what stands where a file is to be, and for what cannot be copied."""
    written = [name for name, content in changes.items() if content is not None]
    parents = {parent.as_posix() for name in written for parent in PurePosixPath(name).parents if parent.parts}
    blocked = [name for name in written if (folder / name).is_dir()]
    blocked += [name for name in parents if (folder / name).exists() and not (folder / name).is_dir()]
    if blocked:
        raise VendorError(
            f"{', '.join(sorted(blocked))} in {folder} is a folder where a file belongs, or a file where a folder does: "
            "move it away"
        )
    special = [name for name in names_in(folder) if not (folder / name).is_file() and not (folder / name).is_symlink()]
    if special:
        raise VendorError(f"{', '.join(sorted(special))} in {folder} is a pipe, a socket or a device: move it away")


__all__ = ["BASE", "LOCK", "Plan", "SourceError", "VendorError", "accepting", "adding", "apply", "removing", "updating"]
