"""A spec that cannot be read: what is wrong with it, and what was edited, value by value or else line by line."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tilegen.review.change import Change, Level
from tilegen.review.names import differing_values, is_toml
from tilegen.review.words import count_words
from tilegen.spec.find import LOCK_SUFFIX

if TYPE_CHECKING:
    from tilegen.review.diff import Side
    from tilegen.spec.diagnostic import SpecError

LINES = 12
"""Lines of an edit that are shown."""


def error_changes(error: SpecError) -> Iterator[Change]:
    """Every error, on its line of the spec or of the lock."""
    for entry in error.diagnostics:
        details = tuple(line for line in (entry.label, *(f"help: {text}" for text in entry.help)) if line)
        in_lock = entry.span is not None and entry.span.file.endswith(LOCK_SUFFIX)
        line = entry.span.line if entry.span else 0
        file = entry.span.file if entry.span and in_lock else ""
        text = f"{entry.code}: {entry.message}"
        yield Change(Level.ERROR, "tuned" if in_lock else "spec", text, details=details, line=line, file=file)


def edit_changes(old: Side, new: Side) -> Iterator[Change]:
    """What was edited: the values where both sides are TOML, else the lines."""
    if is_toml(old.spec) and is_toml(new.spec):
        for path, was, now in differing_values(old.spec, new.spec):
            yield Change(Level.NOTE, "spec", f"{path}: {_value(was)} → {_value(now)}", before=was, after=now)
    elif old.spec != new.spec:
        before, after = (side.spec.decode("utf-8", errors="replace").splitlines() for side in (old, new))
        found = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
        lines = [_short(line) for line in found if not line.startswith("@@")]
        more = [f"and {len(lines) - LINES} more lines"] if len(lines) > LINES else []
        text = f"the edit, {count_words(len(lines), 'line')}" if lines else "the edit: bytes that are no text"
        yield Change(Level.NOTE, "spec", text, details=(*lines[:LINES], *more))


def _value(value: Any) -> str:
    return _short("none" if value is None else repr(value) if isinstance(value, (str, dict, list)) else str(value), 80)


def _short(text: str, most: int = 120) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
