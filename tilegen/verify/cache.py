"""A content-addressed cache of plain results under the user's cache folder. Losing it costs time, never correctness."""

from __future__ import annotations

import hashlib
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs

from tilegen.emit.tree import write_file


def cache_folder() -> Path:
    """``$TILEGEN_CACHE_DIR``, or the user's cache folder for tilegen."""
    return Path(os.environ.get("TILEGEN_CACHE_DIR") or platformdirs.user_cache_dir("tilegen"))


def digest(*parts: object) -> str:
    """sha256 of the parts in a canonical JSON form."""
    text = json.dumps(parts, sort_keys=True, default=str, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read(kind: str, key: str) -> Any | None:
    """The stored value, or None; an entry that cannot be read counts as absent."""
    try:
        return json.loads((cache_folder() / kind / key[:2] / f"{key}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def write(kind: str, key: str, value: Any) -> None:
    """Stores a value; a cache folder that cannot be written is no error."""
    try:
        path = cache_folder() / kind / key[:2] / f"{key}.json"
        write_file(path, json.dumps(value, separators=(",", ":")).encode())
    except OSError:
        return


@cache
def package_digest() -> str:
    """sha256 over the sources of tilegen itself: a result of one state of the package is never used by another."""
    root = Path(__file__).parent.parent
    hasher = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".jinja", ".toml") and path.is_file():
            hasher.update(path.relative_to(root).as_posix().encode())
            hasher.update(path.read_bytes())
    return hasher.hexdigest()
