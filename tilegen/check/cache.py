"""Verdicts that are known already, by content: the same spec, checked by the same tilegen, has the same verdict.

A key is the hash of the spec's bytes, its path as printed, every source file of tilegen that can change a verdict, and the
Python version. An entry is a JSON file, written through a temporary one; whatever cannot be read counts as absent.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import tilegen

DECIDING = ("check", "expr", "families", "lowering", "plan", "spec", "targets")
"""The parts of tilegen that a verdict depends on."""

KEPT = 4096
"""Entries above this number are dropped, the oldest first."""


class VerdictCache:
    """A folder of verdicts. Reading and writing never fail: a cache that does not work is only slow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, path: str, data: bytes) -> Any | None:
        """The JSON value kept for this spec; None where there is none."""
        try:
            return json.loads(self._entry(path, data).read_bytes())
        except (OSError, ValueError, RecursionError):
            return None

    def put(self, path: str, data: bytes, value: Any) -> None:
        entry = self._entry(path, data)
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=".writing-", dir=self.folder)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(value, file, separators=(",", ":"))
                os.replace(temporary, entry)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
            self._trim()

    def _trim(self) -> None:
        entries = list(self.folder.glob("*.json"))
        if len(entries) > KEPT:
            entries.sort(key=lambda entry: entry.stat().st_mtime)
            for entry in entries[: len(entries) - KEPT // 2]:
                entry.unlink(missing_ok=True)

    def _entry(self, path: str, data: bytes) -> Path:
        key = hashlib.sha256()
        for part in (sources_hash(), sys.version.encode(), os.fsencode(path), data):
            key.update(len(part).to_bytes(8, "little"))
            key.update(part)
        return self.folder / f"{key.hexdigest()}.json"


def user_cache() -> VerdictCache:
    """The cache of this user: ``$TILEGEN_CACHE_DIR``, else the platform's cache folder."""
    return VerdictCache(cache_folder() / "verdicts")


def cache_folder() -> Path:
    """Where tilegen keeps what it can compute again."""
    chosen = os.environ.get("TILEGEN_CACHE_DIR")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("tilegen", appauthor=False)


@cache
def sources_hash() -> bytes:
    """A hash of every source file that can change a verdict: about 80 files, a few milliseconds."""
    root = Path(tilegen.__file__).parent
    digest = hashlib.sha256()
    for part in DECIDING:
        for folder, folders, names in os.walk(root / part):
            folders.sort()
            for name in sorted(names):
                if name.endswith((".py", ".toml")):
                    file = Path(folder) / name
                    digest.update(file.relative_to(root).as_posix().encode())
                    digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.digest()
