"""Winners of tuning that changed: the ``*.tune.toml`` lock beside a spec, before and after."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from tilegen.review.change import Change, Level
from tilegen.review.words import count_words, number_words

PLACE = ("target", "when")
"""Keys that say which winner it is."""

MEASURED = ("ratio", "us", "card", "dtype", "date", "shape", "versions")
"""Keys that say how it was measured, not what won."""


def tuned_changes(before: bytes | None, after: bytes | None) -> Iterator[Change]:
    """The winners that are new, gone or others. A winner that is slower than the one before it is a warning."""
    if before == after:
        return
    try:
        old, new = _winners(before), _winners(after)
    except ValueError as error:
        yield Change(Level.ERROR, "tuned", f"the tuned lock cannot be read: {error}")
        return
    if after is None:
        level = Level.WARNING if any(_paid(entry) for entry in old.values()) else Level.NOTE
        lines = tuple(f"{place}: {_words(_settings(entry))}{_ratio(entry)}" for place, entry in old.items())
        yield Change(level, "tuned", f"the tuned lock is gone, with {count_words(len(old), 'winner')}", details=lines)
        return
    for was, now in _moved(old, new):
        yield _elsewhere(old.pop(was), new.pop(now))
    for place in dict.fromkeys((*old, *new)):
        yield from _winner(place, old.get(place), new.get(place))


def _moved(old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The places of winners that are the same on the same target, under another condition."""
    gone, fresh = [place for place in old if place not in new], [place for place in new if place not in old]
    found = []
    for was in gone:
        same = [now for now in fresh if _what(new[now]) == _what(old[was])]
        if same:
            fresh.remove(same[0])
            found.append((was, same[0]))
    return found


def _what(entry: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    return _text(entry.get("target", "")), _settings(entry)


def _elsewhere(old: Mapping[str, Any], new: Mapping[str, Any]) -> Change:
    sides = [_text(entry["when"]) if "when" in entry else "everywhere" for entry in (old, new)]
    text = f"winner {_words(_settings(new))}: where {sides[0]} → {sides[1]}"
    was, now = old.get("ratio"), new.get("ratio")
    if was != now:
        text += f"; ratio {_text(was) if was is not None else 'none'} → {_text(now) if now is not None else 'none'}"
    level = Level.WARNING if _slower(was, now) else Level.NOTE
    where, details = _text(new.get("target", "")), _measured(new, old)
    return Change(level, "tuned", text, where=where, before=dict(old), after=dict(new), details=details)


def _slower(was: Any, now: Any) -> bool:
    return isinstance(was, (int, float)) and isinstance(now, (int, float)) and now < was


def _winners(content: bytes | None) -> dict[str, Mapping[str, Any]]:
    if content is None:
        return {}
    try:
        entries = tomllib.loads(content.decode("utf-8")).get("winner", [])
    except UnicodeDecodeError as error:
        raise ValueError(str(error)) from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("[[winner]] is no list of tables")
    return {_place(entry): entry for entry in entries}


def _place(entry: Mapping[str, Any]) -> str:
    return ", ".join(_text(entry[key]) for key in PLACE if key in entry)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(entry)}" for name, entry in value.items())
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _settings(entry: Mapping[str, Any]) -> dict[str, str]:
    """What won: tile values and the schedule, tables opened."""
    found: dict[str, str] = {}
    for name, value in entry.items():
        if name in PLACE or name in MEASURED:
            continue
        if isinstance(value, dict):
            found |= {key: _text(inner) for key, inner in value.items()}
        else:
            found[name] = _text(value)
    return found


def _winner(place: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> Iterator[Change]:
    if old is None and new is not None:
        text = f"new winner: {_words(_settings(new))}{_ratio(new)}"
        yield Change(Level.NOTE, "tuned", text, where=place, after=dict(new), details=_measured(new))
    elif new is None and old is not None:
        text = f"winner gone: {_words(_settings(old))}{_ratio(old)}"
        yield Change(Level.WARNING if _paid(old) else Level.NOTE, "tuned", text, where=place, before=dict(old))
    elif old is not None and new is not None and old != new:
        yield _changed(place, old, new)


def _changed(place: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Change:
    before, after = _settings(old), _settings(new)
    differing = [name for name in dict.fromkeys((*before, *after)) if before.get(name) != after.get(name)]
    if differing:
        sides = [_words({name: side[name] for name in differing if name in side}) or "none" for side in (before, after)]
        text = f"winner: {sides[0]} → {sides[1]}"
    else:
        text = "the same winner, measured again"
    was, now = old.get("ratio"), new.get("ratio")
    if was != now:
        text += f"; ratio {_text(was) if was is not None else 'none'} → {_text(now) if now is not None else 'none'}"
    level = Level.WARNING if _slower(was, now) else Level.NOTE
    return Change(level, "tuned", text, where=place, before=dict(old), after=dict(new), details=_measured(new, old))


def _words(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _paid(entry: Mapping[str, Any]) -> bool:
    """Whether the winner was measured to be faster than the rules of the spec."""
    ratio = entry.get("ratio")
    return isinstance(ratio, (int, float)) and ratio > 1


def _ratio(entry: Mapping[str, Any]) -> str:
    return f"; ratio {_text(entry['ratio'])}" if "ratio" in entry else ""


def _measured(new: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    lines = []
    for name in ("card", "shape", "versions"):
        was, now = (old or {}).get(name), new.get(name)
        if now is not None and (old is None or was != now):
            before = f"{_text(was)} → " if was is not None else ""
            lines.append(f"{name}: {before}{number_words(_text(now))}")
    return tuple(lines)
