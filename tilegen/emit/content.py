"""Bytes and their hashes: what the manifest of a generated tree and the lock of a vendored folder are made of."""

from __future__ import annotations

import hashlib
import json
from typing import Any

MANIFEST = "manifest.json"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def to_json(value: Any) -> bytes:
    """JSON that reviews well: sorted where order means nothing, one item a line, a newline at the end."""
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()
