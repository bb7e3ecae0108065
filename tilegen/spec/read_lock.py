"""The lock of a spec: the tilings that `tilegen tune` measured to be faster, in ``NAME.tune.toml`` beside ``NAME.toml``.

A winner is a rule ahead of those of the spec: where its ``when`` holds, all of its values are taken together. It is read,
placed and checked like the spec itself, so an edit of the lock is refused at its line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

from tilegen.expr import is_symbolic
from tilegen.spec import document as doc
from tilegen.spec.diagnostic import SpecError
from tilegen.spec.keys import Key
from tilegen.spec.model import Lock, Target, TileValue, Winner
from tilegen.spec.read_tile import read_schedule, read_tile
from tilegen.spec.reader import Reader
from tilegen.spec.section import FamilySection

MAX_WINNERS = 256

LOCK: dict[str, Key] = {
    "winner": Key({"type": "array"}, "the tilings that were measured to be faster, first match"),
}

WINNER: dict[str, Key] = {
    "target": Key({"type": "string"}, "the chip that it was measured on", True),
    "when": Key({"type": "string"}, "the shapes that it serves", True),
    "schedule": Key({"type": "string"}, "the schedule"),
    "tile": Key({"type": "object"}, "tile parameters, each one number, word or boolean", True),
    "card": Key({"type": "string"}, "the card that it was measured on"),
    "dtype": Key({"type": "string"}, "dtype of the first tensor in the measurement"),
    "date": Key({"type": "string"}, "day of the measurement"),
    "shape": Key({"type": "object"}, "the shape that was measured"),
    "us": Key({"type": "number"}, "microseconds of a call, with a cold L2"),
    "ratio": Key({"type": "number"}, "how many times as fast as the rules of the spec, in one run"),
    "versions": Key({"type": "object"}, "versions of the measurement"),
}


def read_lock(
    data: bytes,
    path: str,
    section: FamilySection,
    dims: Collection[str],
    dynamic: Collection[str],
    targets: Collection[Target],
) -> Lock:
    """The lock in ``data``, for a spec with these dims and targets. Raises SpecError with all that is wrong with it."""
    reader = Reader(doc.parse_document(data, path))
    values = reader.table((), reader.document.values, LOCK)
    entries = reader.array(("winner",), values.get("winner", []), "a list of [[winner]] tables")
    if len(entries) > MAX_WINNERS:
        message = f"a lock has at most {MAX_WINNERS} winners, and this has {len(entries)}"
        reader.error("spec-too-long", message, ("winner",))
        entries = []
    archs = [target.arch for target in targets]
    found = [_winner(reader, at, raw, section, dims, dynamic, archs) for at, raw in entries]
    if reader.diagnostics:
        raise SpecError(sorted(reader.diagnostics, key=lambda d: (d.span is None, d.span or 0)))
    return Lock(
        path=path,
        sha256=hashlib.sha256(data).hexdigest(),
        winners=tuple(w for w in found if w is not None),
        document=reader.document,
    )


def _winner(
    reader: Reader,
    path: doc.Path,
    raw: Any,
    section: FamilySection,
    dims: Collection[str],
    dynamic: Collection[str],
    archs: Collection[str],
) -> Winner | None:
    before = len(reader.diagnostics)
    entry = reader.table(path, raw, WINNER, "a [[winner]] table")
    if "target" in entry:
        reader.word((*path, "target"), entry["target"], archs, "a target of the spec")
    when = reader.condition((*path, "when"), entry["when"], {*dims, "sm_count"}) if "when" in entry else None
    schedule = _constant(
        reader, (*path, "schedule"), read_schedule(reader, (*path, "schedule"), entry.get("schedule"), section, dims)
    )
    tile = read_tile(reader, (*path, "tile"), entry.get("tile", {}), section, dims, dynamic, {}, complete=False)
    values = {name: _constant(reader, (*path, "tile", name), value) for name, value in tile.items()}
    versions = reader.table((*path, "versions"), entry.get("versions", {}))
    shape = reader.table((*path, "shape"), entry.get("shape", {}), None)
    words = {name: reader.string((*path, name), entry[name]) for name in ("card", "dtype", "date") if name in entry}
    numbers = {name: reader.number((*path, name), entry[name]) for name in ("us", "ratio") if name in entry}
    known = {name: reader.string((*path, "versions", name), text) for name, text in versions.items()}
    sizes = {name: reader.integer((*path, "shape", name), size) for name, size in shape.items()}
    if len(reader.diagnostics) > before:
        return None
    if schedule is not None:
        values = {"schedule": schedule, **values}
    return Winner(
        target=entry["target"],
        when=when,
        when_text=" ".join(entry["when"].split()),
        tiles=values,
        versions={name: text for name, text in known.items() if text is not None},
        shape={name: size for name, size in sizes.items() if size is not None},
        card=words.get("card") or "",
        dtype=words.get("dtype") or "",
        date=words.get("date") or "",
        us=numbers.get("us"),
        ratio=numbers.get("ratio"),
        span=reader.document.span(path),
    )


def _constant(reader: Reader, path: doc.Path, value: TileValue | None) -> Any:
    """The value itself: a winner is one tiling, not rules or expressions for several."""
    if value is None:
        return None
    use = value.rules[0].use
    if len(value.rules) > 1 or value.rules[0].when is not None or is_symbolic(use):
        help = "one number, word or boolean; another shape class is another [[winner]]"
        reader.error("lock-not-constant", "a value of a winner is fixed", path, help=help)
        return None
    return use


def facts_text(winner: Winner) -> str:
    """Where and by how much a winner won: ``NVIDIA H200, 1.043 of the default``."""
    ratio = "" if winner.ratio is None else f"{winner.ratio:.3f} times as fast as the rules of the spec"
    return ", ".join(part for part in (winner.card, ratio) if part)
