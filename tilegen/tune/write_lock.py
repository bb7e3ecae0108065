"""Writes winners into the lock of a spec: TOML that reviews well, one table a winner, replaced as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilegen.emit.tree import write_file
from tilegen.tune.candidate import plain

if TYPE_CHECKING:
    from tilegen.spec.model import Winner

HEAD = """\
# Tilings of {kernel} that `tilegen tune` measured to be faster than the rules of the spec. `tilegen build` puts them first,
# where `when` holds; `tilegen check` proves them like any tile value. Delete a table to do without it.
"""


def lock_text(kernel: str, winners: Sequence[Winner]) -> str:
    """The lock as text: the same winners give the same bytes."""
    tables = ["\n".join(_table(winner)) + "\n" for winner in winners]
    return "\n".join([HEAD.format(kernel=kernel), *tables])


def write_lock(path: Path, kernel: str, winners: Sequence[Winner]) -> None:
    """Replaces the lock; one without winners is removed. Raises OSError."""
    if winners:
        write_file(path, lock_text(kernel, winners).encode())
    else:
        path.unlink(missing_ok=True)


def _table(winner: Winner) -> Iterator[str]:
    tiles = plain(winner.tiles)
    schedule = tiles.pop("schedule", None)
    yield "[[winner]]"
    yield f"target = {_value(winner.target)}"
    yield f"when = {_value(winner.when_text)}"
    if schedule is not None:
        yield f"schedule = {_value(schedule)}"
    yield f"tile = {_value(tiles)}"
    for name in ("card", "dtype", "shape", "us", "ratio", "date", "versions"):
        value = getattr(winner, name)
        if value:
            yield f"{name} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_value(entry)}" for name, entry in value.items()) + " }"
    # A TOML basic string, boolean or number is written as JSON writes it.
    return json.dumps(value)


def with_winner(winners: Sequence[Winner], new: Winner) -> tuple[Winner, ...]:
    """The winners with ``new`` first, in place of the one for the same target and condition if there is one."""
    return (new, *without_class(winners, new.target, new.when_text))


def without_class(winners: Sequence[Winner], target: str, when_text: str) -> tuple[Winner, ...]:
    """The winners but for the one of this target and condition: nothing beats the rules there any more."""
    return tuple(w for w in winners if (w.target, w.when_text) != (target, when_text))
