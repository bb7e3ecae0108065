"""A content-addressed cache of plain results under the user's cache folder. Losing it costs time, never correctness."""

from __future__ import annotations

import hashlib
import json
import os
from functools import cache
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """``$TILEGEN_CACHE_DIR``, or the user's cache folder for tilegen."""
    chosen = os.environ.get("TILEGEN_CACHE_DIR")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("tilegen", appauthor=False))


def digest(*parts: object) -> str:
    """sha256 of the parts in a canonical JSON form."""
    text = json.dumps(parts, sort_keys=True, default=str, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read(kind: str, key: str) -> Any | None:
    """The stored value, or None; an entry that cannot be read counts as absent."""
    try:
        return json.loads((cache_folder() / kind / key[:2] / f"{key}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def write(kind: str, key: str, value: Any) -> None:
    """Stores a value; a cache folder that cannot be written is no error."""
    from tilegen.emit.tree import write_file

    try:
        path = cache_folder() / kind / key[:2] / f"{key}.json"
        write_file(path, json.dumps(value, separators=(",", ":")).encode())
    except OSError:
        return


@cache
def package_digest(parts: tuple[str, ...] = (), without: tuple[str, ...] = ()) -> str:
    """sha256 over the sources of tilegen itself, or of some of its packages: what one state of the code found is never
    used by another. ``without``: packages inside them that are left out.
    """
    root = Path(__file__).parent
    prefix = os.path.join(root, "")
    left_out = [str(root / part) for part in without]
    hasher = hashlib.sha256()
    for start in [root / part for part in parts] or [root]:
        for folder, folders, names in os.walk(start):
            folders[:] = sorted(name for name in folders if os.path.join(folder, name) not in left_out)
            for name in sorted(names):
                if name.endswith((".py", ".jinja", ".toml")):
                    file = os.path.join(folder, name)
                    hasher.update(file[len(prefix) :].encode())
                    with open(file, "rb", buffering=0) as source:
                        hasher.update(hashlib.sha256(source.read()).digest())
    return hasher.hexdigest()
