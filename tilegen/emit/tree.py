"""Writes a tree of files so that a reader, or a kill, finds either the old tree or the new one, whole.

The new tree is written and flushed beside the old one, then the two names are exchanged in one system call. Where the
file system cannot do that, the new tree is committed by one small file, the journal, and moved into place file by file;
whoever takes the lock next finishes what a kill left undone.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

RENAME_EXCHANGE = 2
AT_FDCWD = -100
LIBRARIES = "aot"
"""The folder of a kernel that holds what `tilegen build --aot` compiled: no part of the tree that follows from the specs."""

NO_PART = ("__pycache__", ".pytest_cache", LIBRARIES)
NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EXDEV, errno.EBUSY)
"""What a file system answers that cannot exchange these two names, such as an overlay whose lower layer holds one."""


@contextlib.contextmanager
def locked(destination: Path) -> Iterator[None]:
    """Holds ``destination`` for one process at a time, and finishes or removes what a killed one left beside it.

    The lock is a file in the user's cache folder, so nothing stays beside the tree.
    """
    from filelock import FileLock

    from tilegen.cache import cache_folder

    name = hashlib.sha256(os.fsencode(destination.resolve())).hexdigest()[:32]
    folder = cache_folder() / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.gettempdir())
    with FileLock(folder / f"tilegen-{name}.lock"):
        recover(destination)
        yield


def replace_tree(destination: Path, files: Mapping[str, bytes]) -> None:
    """Makes ``destination`` hold exactly ``files`` (relative path to content), and the libraries of kernels that it keeps."""
    destination = destination.resolve()
    _check_writable(destination)
    with _staging(destination) as staging:
        for name, content in sorted(files.items()):
            _write(staging / name, content)
        _carry_libraries(destination, staging)
        _swap(staging, destination)


def change_tree(destination: Path, changes: Mapping[str, bytes | None]) -> None:
    """Writes, or where the content is None removes, some files of ``destination``; everything else in it stays."""
    destination = destination.resolve()
    _check_writable(destination)
    with _staging(destination) as staging:
        if destination.exists():
            _copy(destination, staging)
        for name, content in sorted(changes.items()):
            if content is None:
                _remove(staging, name)
            else:
                (staging / name).unlink(missing_ok=True)
                _write(staging / name, content)
        _swap(staging, destination)


def _check_writable(destination: Path) -> None:
    """Raises PermissionError for a folder that cannot be changed: the old tree could not be removed in the end. And
    NotADirectoryError for what is no folder, such as a device, which would change its place with one.
    """
    if destination.exists() and not destination.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(destination))
    for folder in (str(destination.parent), *(folder for folder, _, _ in os.walk(destination))):
        if os.path.exists(folder) and not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)


def _copy(old: Path, new: Path) -> None:
    try:
        shutil.copytree(old, new, symlinks=True, dirs_exist_ok=True)
    except shutil.Error as error:  # of many files: the first tells enough
        path, _, why = error.args[0][0]
        raise OSError(errno.EIO, why, path) from None


def interrupted(destination: Path) -> bool:
    """Whether a committed change was not finished: the next to hold the lock finishes it."""
    return _journal(destination.resolve()).exists()


def recover(destination: Path) -> None:
    """Finishes a committed change that was interrupted, and removes what an uncommitted one left. Needs the lock."""
    destination = destination.resolve()
    journal = _journal(destination)
    if journal.exists():
        _move_into_place(journal, destination)
    for left in destination.parent.glob(f".{glob.escape(destination.name)}.tilegen-*"):
        shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)


@contextlib.contextmanager
def _staging(destination: Path) -> Iterator[Path]:
    """A new folder beside ``destination``, gone afterwards."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{destination.name}.tilegen-", dir=destination.parent))
    try:
        staging.chmod(0o755)
        yield staging
    finally:
        if not _journal(destination).exists():
            shutil.rmtree(staging, ignore_errors=True)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _remove(root: Path, name: str) -> None:
    """Removes a file, and the folders that it leaves empty."""
    path = root / name
    path.unlink(missing_ok=True)
    for folder in path.relative_to(root).parents:
        with contextlib.suppress(OSError):
            if folder != Path():
                (root / folder).rmdir()


def _carry_libraries(old: Path, new: Path) -> None:
    for folder in sorted(old.glob(f"*/{LIBRARIES}")):
        if (new / folder.parent.name).is_dir():
            shutil.copytree(folder, new / folder.parent.name / LIBRARIES, dirs_exist_ok=True)


def _swap(staging: Path, destination: Path) -> None:
    if not destination.exists():
        staging.rename(destination)
    elif _is_worked_in(destination) or not _exchange(staging, destination):
        journal = _journal(destination)
        fresh = journal.with_name(journal.name + "-new")
        _write(fresh, json.dumps({"staging": staging.name, "files": sorted(_names(staging))}).encode())
        fresh.replace(journal)
        _move_into_place(journal, destination)


def _is_worked_in(destination: Path) -> bool:
    """Whether this process, and so the shell that called it, is in the folder: it would find itself in a removed one."""
    try:
        return Path.cwd().is_relative_to(destination)
    except OSError:
        return False


def _exchange(first: Path, second: Path) -> bool:
    """Swaps two names atomically (Linux ``renameat2``); False where that is not to be had."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    result = renameat2(AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), RENAME_EXCHANGE)
    if result == 0:
        return True
    code = ctypes.get_errno()
    if code in NO_EXCHANGE:
        return False
    raise OSError(code, os.strerror(code), str(second))


def _journal(destination: Path) -> Path:
    return destination.parent / f".{destination.name}.tilegen-journal"


def _move_into_place(journal: Path, destination: Path) -> None:
    """Gives ``destination`` the files of the staged tree, those already moved left out, and removes all others."""
    entry = json.loads(journal.read_bytes())
    staging, names = journal.parent / entry["staging"], set(entry["files"])
    for name in sorted(_names(staging)):
        if name in names:
            (destination / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(staging / name, destination / name)
    for name in sorted(_names(destination) - names):
        _remove(destination, name)
    journal.unlink()
    shutil.rmtree(staging, ignore_errors=True)


def read_tree(root: Path, skip: tuple[str, ...] = NO_PART) -> dict[str, bytes]:
    """Every file under ``root`` by relative path; an empty mapping if there is no such folder."""
    return read_files(root, sorted(_names(root, skip)))


def read_files(root: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Those of the files ``names`` that are there. A folder, a pipe or a link to nothing is no file."""
    return {name: (root / name).read_bytes() for name in names if (root / name).is_file()}


def names_in(root: Path) -> set[str]:
    """What lies under ``root`` by relative path: files and whatever else is no folder, but links to nothing."""
    return {name for name in _names(root, NO_PART) if (root / name).exists()}


def _names(root: Path, skip: tuple[str, ...] = ()) -> set[str]:
    """The files under ``root`` by relative path, links to files among them."""
    found = set()
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in skip]
        found |= {(Path(folder) / name).relative_to(root).as_posix() for name in names}
    return found


def write_file(path: Path, content: bytes) -> None:
    """Writes one file through a temporary one beside it: a reader finds the old file or the new one. What is no file, such
    as a device, is written to and stays.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
