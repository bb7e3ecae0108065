"""What a search has found so far, one JSON line an event, so that a search that was killed goes on where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Journal:
    """The events of one search. ``path`` is named by a digest of all that the search depends on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events: dict[tuple[str, str], dict[str, Any]] = {}
        self._read()

    def _read(self) -> None:
        """A line that a kill cut short is dropped, with the end of the file that it spoilt."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except OSError:
            return
        for line in lines:
            try:
                event = json.loads(line)
                self.events[event["step"], event["candidate"]] = event
            except (ValueError, KeyError, TypeError):
                continue

    def get(self, step: str, candidate: str) -> dict[str, Any] | None:
        return self.events.get((step, candidate))

    def add(self, step: str, candidate: str, **facts: Any) -> dict[str, Any]:
        """Written at once: one call of the operating system, so that two writers never mix a line."""
        event: Mapping[str, Any] = {"step": step, "candidate": candidate, **facts}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, b"\n" + json.dumps(event).encode() + b"\n")
        finally:
            os.close(handle)
        self.events[step, candidate] = dict(event)
        return dict(event)
