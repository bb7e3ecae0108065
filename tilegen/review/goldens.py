"""What the committed goldens of a kernel say before and after: lowering facts, registers and spills, outputs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from tilegen.review.change import Change, Level
from tilegen.review.words import count_words, joined, number_words

FACTS = "golden/facts.json"
BY_HAND = "edited by hand"
TENSOR_CORE = ("wgmma", "tma_load", "tma_store")
"""Instructions whose loss is a loss of speed."""


def golden_changes(
    before: Mapping[str, bytes],
    after: Mapping[str, bytes],
    spec_sha256: str,
    lock_sha256: str = "",
    built: Mapping[str, str] | None = None,
) -> Iterator[Change]:
    """``before`` and ``after`` are a kernel's generated folder; the hashes those of spec and lock at the head. ``built``
    maps the files that the build wrote to their hashes, as the manifest at the head has them.
    """
    old, new = _facts(before), _facts(after)
    made_from = {} if new is None else new.get("spec", {})
    if new is not None and (made_from.get("sha256"), made_from.get("lock_sha256", "")) != (spec_sha256, lock_sha256):
        yield Change(
            Level.WARNING,
            "golden",
            "the generated folder belongs to another state of the spec: run `tilegen build` and commit the result",
        )
    elif old is not None and new is None:
        yield Change(Level.WARNING, "golden", "the generated folder is gone, the spec is not: run `tilegen build`")
    if new is not None:
        yield from _edited(before, after, {**_hashes(new.get("files")), **(built or {})})
    if old is None or new is None:
        return
    yield from _versions(old, new)
    yield from _lowering(old.get("lowering", []), new.get("lowering", []))
    yield from _outputs(before, after)


def _facts(folder: Mapping[str, bytes]) -> Mapping[str, Any] | None:
    try:
        found = json.loads(folder[FACTS])
    except (KeyError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _hashes(value: Any) -> dict[str, str]:
    return {name: text for name, text in value.items() if isinstance(text, str)} if isinstance(value, dict) else {}


def _edited(before: Mapping[str, bytes], after: Mapping[str, bytes], built: Mapping[str, str]) -> Iterator[Change]:
    """Files that changed and are not what the build wrote, by the hashes that it recorded; and those that it did not write."""
    changed = [name for name in sorted(after) if after[name] != before.get(name) and not name.startswith("aot/")]
    others = [name for name in changed if name in built and _sha256(after[name]) != built[name]]
    endings = [name for name in others if _sha256(after[name].replace(b"\r\n", b"\n")) == built[name]]
    by_hand = [name for name in others if name not in endings]
    known = {*built, FACTS} if any(name.startswith("test_") for name in built) else {*after}
    unknown = [name for name in changed if name not in known and name not in before]
    gone = [name for name in sorted(built) if name not in after and name in before]
    if by_hand:
        text = f"{BY_HAND}, and `tilegen build` would write over it: {joined(by_hand)}"
        yield Change(Level.WARNING, "golden", text, after=by_hand)
    if endings:
        text = f"other line ends than the build wrote (`* -text` in .gitattributes keeps them): {joined(endings)}"
        yield Change(Level.WARNING, "golden", text, after=endings)
    if unknown:
        text = f"no build wrote it, and the next removes it: {joined(unknown)}"
        yield Change(Level.WARNING, "golden", text, after=unknown)
    if gone:
        yield Change(Level.WARNING, "golden", f"missing from the generated folder: {joined(gone)}", after=gone)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _versions(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for name in ("tilegen", "tilelang"):
        if old.get(name) != new.get(name):
            yield Change(
                Level.NOTE,
                "golden",
                f"recorded with {name} {old.get(name)} → {new.get(name)}",
                before=old.get(name),
                after=new.get(name),
            )


def _lowering(old: list[Any], new: list[Any]) -> Iterator[Change]:
    """Facts of the same kernel instance; where the tiles differ, of the same target, dtype and static dims."""
    told: dict[tuple[Level, str, Any, Any], list[str]] = {}
    for before, after in _matched(old, new):
        for level, text, was, now in _entry(before, after):
            told.setdefault((level, text, was, now), []).append(_place(after))
    for (level, text, was, now), places in told.items():
        where = places[0] + (f" and {count_words(len(places) - 1, 'more instance')}" if len(places) > 1 else "")
        yield Change(level, "golden", text, where=where, before=was, after=now)


def _matched(old: list[Any], new: list[Any]) -> Iterator[tuple[Any, Any]]:
    exact = {_exact(entry): entry for entry in old}
    taken = {_exact(entry) for entry in new} & exact.keys()
    waiting: dict[Any, list[Any]] = {}
    for entry in old:
        if _exact(entry) not in taken:
            waiting.setdefault(_group(entry), []).append(entry)
    for entry in new:
        if _exact(entry) in taken:
            yield exact[_exact(entry)], entry
        elif waiting.get(_group(entry)):
            yield waiting[_group(entry)].pop(0), entry


def _exact(entry: Any) -> str:
    return json.dumps(entry["key"], sort_keys=True)


def _group(entry: Any) -> str:
    """Target, dtype and dims of an instance, without its tiles: dims are what no case of a spec decides."""
    name = entry["name"].split("-")
    dims = [part for part in name[2:] if part[:1].isupper() and part.rstrip("0123456789") in entry["key"]]
    own = [part for part in dims if not part.startswith(("BLOCK_", "STORE_"))]
    return "-".join([*name[:2], *own])


def _place(entry: Any) -> str:
    key = entry["key"]
    shape = _group(entry).split("-")[2:]
    schedule = [key["schedule"]] if "schedule" in key else []
    return ", ".join([str(key.get("arch")), str(key.get("dtype")), *shape, *schedule])


def _entry(before: Any, after: Any) -> Iterator[tuple[Level, str, Any, Any]]:
    counts = [entry["facts"].get("instructions", {}) for entry in (before, after)]
    for name in sorted({*counts[0], *counts[1]}):
        was, now = counts[0].get(name, 0), counts[1].get(name, 0)
        if was != now:
            lost = name in TENSOR_CORE and was and not now
            yield Level.WARNING if lost else Level.NOTE, f"{name}: {was} → {now}", was, now
    for label, unit, was, now in _launches(before, after):
        if was != now:
            worse = label == "spills" and (now or 0) > (was or 0)
            text = f"{label}: {number_words(was)} → {number_words(now)}{unit}"
            yield Level.WARNING if worse else Level.NOTE, text, was, now


def _launches(before: Any, after: Any) -> Iterator[tuple[str, str, Any, Any]]:
    """Each figure of each launch: facts of lowering, then what ptxas said."""
    names = {"shared_memory": ("shared memory", " B"), "threads": ("threads", "")}
    yield from _figures(names, *(entry["facts"].get("kernels", {}) for entry in (before, after)))
    names = {
        "registers": ("registers", ""),
        "spill_bytes": ("spills", " B"),
        "static_shared_memory": ("static shared memory", " B"),
    }
    usage = [(entry.get("resources") or {}).get("kernels", {}) for entry in (before, after)]
    if usage[0] and usage[1]:
        yield from _figures(names, *usage)


def _figures(
    names: Mapping[str, tuple[str, str]], old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[tuple[str, str, Any, Any]]:
    """Figures launch by launch; a single launch whose name changed, with the kernel's, is the same one."""
    paired = [(old.get(name, {}), new[name]) for name in new]
    if len(old) == len(new) == 1:
        paired = [(next(iter(old.values())), next(iter(new.values())))]
    for was, now in paired:
        for key, (label, unit) in names.items():
            if key in was or key in now:
                yield label, unit, was.get(key), now.get(key)


def _outputs(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[Change]:
    arrays = [
        {name for name in side if name.startswith("golden/") and name.endswith(".npy")} for side in (before, after)
    ]
    changed = sorted(name for name in arrays[0] & arrays[1] if before[name] != after[name])
    words = [f"{count_words(len(changed), 'array')} changed" for _ in (0,) if changed]
    words += [f"{len(arrays[1] - arrays[0])} new" for _ in (0,) if arrays[1] - arrays[0]]
    words += [f"{len(arrays[0] - arrays[1])} gone" for _ in (0,) if arrays[0] - arrays[1]]
    if words:
        level = Level.WARNING if changed else Level.NOTE
        names = tuple(name.removeprefix("golden/").removesuffix(".npy") for name in changed)
        yield Change(level, "golden", f"expected outputs: {joined(words)}", details=names)
