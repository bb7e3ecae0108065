"""Writes a tree of files so that a reader, or a kill, finds either the old tree or the new one, whole."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

RENAME_EXCHANGE = 2
AT_FDCWD = -100

LIBRARIES = "aot"
"""The folder of a kernel that holds what `tilegen build --aot` compiled: no part of the tree that follows from the specs."""


def replace_tree(destination: Path, files: Mapping[str, bytes]) -> None:
    """Makes ``destination`` hold exactly ``files`` (relative path to content), and the libraries of kernels that it keeps.

    The new tree is written and flushed beside the old one, then the two names are exchanged in one system call; where the
    file system cannot do that, the old tree is moved aside first.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{destination.name}.", dir=destination.parent))
    try:
        for name, content in sorted(files.items()):
            _write(staging / name, content)
        _carry_libraries(destination, staging)
        staging.chmod(0o755)
        _swap(staging, destination)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _carry_libraries(old: Path, new: Path) -> None:
    for folder in sorted(old.glob(f"*/{LIBRARIES}")):
        if (new / folder.parent.name).is_dir():
            shutil.copytree(folder, new / folder.parent.name / LIBRARIES, dirs_exist_ok=True)


def _swap(staging: Path, destination: Path) -> None:
    if not destination.exists():
        staging.rename(destination)
        return
    if _exchange(staging, destination):
        return
    aside = staging.with_name(staging.name + ".old")
    destination.rename(aside)
    staging.rename(destination)
    shutil.rmtree(aside, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Swaps two names atomically (Linux ``renameat2``); False where that is not to be had."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    result = renameat2(AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), RENAME_EXCHANGE)
    if result == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code), str(second))


def read_tree(root: Path, skip: tuple[str, ...] = ("__pycache__", ".pytest_cache", LIBRARIES)) -> dict[str, bytes]:
    """Every file under ``root`` by relative path; an empty mapping if there is no such folder."""
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in skip)
        for name in sorted(names):
            path = Path(folder) / name
            found[path.relative_to(root).as_posix()] = path.read_bytes()
    return found


def write_file(path: Path, content: bytes) -> None:
    """Writes one file through a temporary one beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
