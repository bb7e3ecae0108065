"""Puts a page into its place at once."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from tilegen.emit.tree import write_file


def write(path: Path, text: str) -> None:
    """Raises ``OSError`` where the folder is not there or cannot be written; then nothing is left behind."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
    write_file(path, text.encode())
