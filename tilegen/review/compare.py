"""Two summaries of a kernel to the changes between what their specs say, and what the checker found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilegen.check.findings import CONFLICT
from tilegen.review.change import Change, Level
from tilegen.review.summary import Summary
from tilegen.review.words import count_words, joined, number_words
from tilegen.spec.diagnostic import Diagnostic, Severity

LEVEL = {
    Severity.ERROR: Level.ERROR,
    Severity.UNDECIDED: Level.WARNING,
    Severity.SLOW: Level.WARNING,
    Severity.NOTE: Level.NOTE,
}


def compare(base: Summary, head: Summary, growth: Mapping[str, str]) -> Iterator[Change]:
    """The changes of the specs themselves; budgets are compared apart (``compare_budgets``).

    ``growth`` says of each dim whose domain changed whether it became ``wider``, ``narrower``, or ``other``.
    """
    yield from _tolerance(base, head)
    yield from _verdict(base, head)
    yield from _silenced(base, head)
    yield from _words("family", base.family, head.family)
    yield from _words("variant", base.variant, head.variant)
    yield from _domain(base, head, growth)
    yield from _tensors(base, head)
    yield from _mapping("scalar", base.scalars, head.scalars)
    yield from _mapping("formula", base.compute, head.compute)
    yield from _targets(base, head)
    yield from _tiles(base, head)
    yield from _compile_keys(base, head)
    if base.dispatch != head.dispatch:
        before, after = ("; ".join(side.dispatch) or "none" for side in (base, head))
        yield Change(Level.NOTE, "dispatch", f"hand-tuned paths: {before} → {after}", before=before, after=after)
    if base.shapes != head.shapes:
        before, after = (f"{len(side.shapes)} listed" if side.shapes else "all listed values" for side in (base, head))
        yield Change(
            Level.NOTE, "shapes", f"built, tested and warmed ahead: {before} → {after}", details=_shapes(base, head)
        )
    yield from _words("doc", base.doc, head.doc)


def _shapes(base: Summary, head: Summary) -> tuple[str, ...]:
    gone, new = [s for s in base.shapes if s not in head.shapes], [s for s in head.shapes if s not in base.shapes]
    return tuple([f"- {shape}" for shape in gone] + [f"+ {shape}" for shape in new])


def _words(subject: str, before: str, after: str) -> Iterator[Change]:
    if before != after:
        text = f"{subject}: {before or 'none'} → {after or 'none'}"
        yield Change(Level.NOTE, subject, text, before=before, after=after)


def _mapping(subject: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old != new:
            text = f"{subject} `{name}`: {old or 'none'} → {new or 'none'}"
            yield Change(Level.NOTE, subject, text, before=old, after=new)


def _tolerance(base: Summary, head: Summary) -> Iterator[Change]:
    """A larger number is looser: what the golden tests accept has grown. So is, for a reviewer, one fixed by hand."""
    old, new = base.tolerance, head.tolerance
    if old == new:
        return
    given = {key: (side or {}).get(key) for side in (new,) for key in ("atol", "rtol", "reason")}
    reason = f"reason given: {given['reason']}" if given["reason"] else "no reason is given"
    if old is None:
        # The derived one follows each element, so the two cannot be put in order by their numbers alone.
        text = f"tolerance no longer derived for each element, but fixed by hand: {_tolerance_words(new)}"
        yield Change(Level.ERROR, "tolerance", text, before=None, after=new, details=(reason,))
    elif new is None:
        words = _tolerance_words(old)
        yield Change(Level.NOTE, "tolerance", f"tolerance: {words} → derived", before=old, after=None)
    else:
        yield from _tolerance_parts(old, new, reason)


def _tolerance_parts(old: Mapping[str, Any], new: Mapping[str, Any], reason: str) -> Iterator[Change]:
    for key in ("atol", "rtol"):
        before, after = old[key], new[key]
        if before == after:
            continue
        looser = before is None or (after is not None and after > before)
        factor = f" ({after / before:.3g} times)" if looser and before and after else ""
        text = f"{key}: {_number(before)} → {_number(after)}{factor}"
        if looser:
            yield Change(
                Level.ERROR, "tolerance", f"tolerance loosened: {text}", before=before, after=after, details=(reason,)
            )
        else:
            yield Change(Level.NOTE, "tolerance", f"tolerance tightened: {text}", before=before, after=after)
    if old["reason"] != new["reason"] and (old["atol"], old["rtol"]) == (new["atol"], new["rtol"]):
        yield Change(Level.NOTE, "tolerance", f"reason of the tolerance: {old['reason']} → {new['reason']}")


def _tolerance_words(tolerance: Mapping[str, Any] | None) -> str:
    found = tolerance or {}
    return ", ".join(f"{key} {_number(found[key])}" for key in ("atol", "rtol") if found.get(key) is not None)


def _number(value: float | None) -> str:
    return "derived" if value is None else f"{value:g}"


def _verdict(base: Summary, head: Summary) -> Iterator[Change]:
    """Findings that are new, changed or gone, then rules whose standing changed without a finding to say so."""
    before = {_identity(entry): entry for entry in base.findings}
    after = {_identity(entry): entry for entry in head.findings}
    said: set[str] = set()
    for key, entry in after.items():
        old = before.get(key)
        if old is None:
            said.add(entry.code)
            yield _finding("newly refuted" if entry.severity is not Severity.UNDECIDED else "no longer proved", entry)
        elif said_of(old) != said_of(entry):
            said.add(entry.code)
            yield Change(
                Level.NOTE,
                "rule",
                f"{_rule(entry)} still found, with other numbers: {_first(entry.label)}",
                details=_evidence(entry),
                line=_line(entry),
            )
    for key, entry in before.items():
        if key not in after and entry.code not in said and entry.code not in _codes(head.silenced):
            said.add(entry.code)
            standing = _standing(head, entry.code)
            yield Change(Level.NOTE, "rule", f"{_rule(entry)} {_gone(standing)}: {entry.message}")
    yield from _standings(base, head, said)


def _identity(entry: Diagnostic) -> tuple[str, str, str]:
    return entry.code, entry.severity.value, entry.message


def said_of(entry: Diagnostic) -> tuple[Any, ...]:
    """What a finding says, apart from its place and its mends."""
    return _identity(entry), entry.label, tuple(note for note in entry.notes if not note.startswith(CONFLICT))


def _codes(entries: tuple[Diagnostic, ...]) -> set[str]:
    return {entry.code for entry in entries}


def _gone(standing: str) -> str:
    return {"proved": "is now proved", "": "no longer applies"}.get(standing, "is no longer found")


def _finding(word: str, entry: Diagnostic) -> Change:
    return Change(
        LEVEL[entry.severity],
        "rule",
        f"{_rule(entry)} {word}: {entry.message}",
        details=_evidence(entry),
        line=_line(entry),
    )


def _rule(entry: Diagnostic) -> str:
    return entry.code if entry.code.endswith(entry.name) else f"{entry.code} {entry.name}"


def _evidence(entry: Diagnostic) -> tuple[str, ...]:
    """The arithmetic, the counterexample and the mends."""
    return tuple(line for line in (entry.label, *entry.notes[:1], *(f"help: {text}" for text in entry.help)) if line)


def _first(text: str) -> str:
    return text.split("\n")[0]


def _line(entry: Diagnostic) -> int:
    return entry.span.line if entry.span else 0


def _standing(side: Summary, code: str) -> str:
    """How a rule stands on one side: refuted, undecided, proved, or not asked (empty)."""
    counts = side.rules.get(code)
    if counts is None or not any(counts.values()):
        return ""
    return next(word for word in ("refuted", "undecided", "proved") if counts.get(word) or word == "proved")


def _standings(base: Summary, head: Summary, said: set[str]) -> Iterator[Change]:
    fresh, gone = [], []
    for code in sorted({*base.rules, *head.rules} - said):
        before, after = _standing(base, code), _standing(head, code)
        if before == after or code in _codes(head.silenced) or code in _codes(base.silenced):
            continue
        if after == "proved":
            fresh.append(f"{code} ({count_words(head.rules[code]['proved'], 'obligation')})")
        elif not after:
            gone.append(code)
    if fresh:
        yield Change(Level.NOTE, "rule", f"newly proved: {joined(fresh)}", after=fresh)
    if gone and head.planned:
        yield Change(
            Level.NOTE, "rule", f"no longer asked, for nothing is left that they speak of: {joined(gone)}", before=gone
        )


def _silenced(base: Summary, head: Summary) -> Iterator[Change]:
    for rule in dict.fromkeys((*base.allow, *head.allow)):
        old, new = base.allow.get(rule), head.allow.get(rule)
        if old == new:
            continue
        if new is None:
            yield Change(Level.NOTE, "silenced", f"{rule} is no longer silenced", before=old)
        elif old is not None:
            yield Change(Level.NOTE, "silenced", f"reason for silencing {rule}: {old} → {new}", before=old, after=new)
        else:
            hidden = [entry for entry in head.silenced if entry.code == rule]
            what = "; ".join(f"{entry.message}: {_first(entry.label)}" for entry in hidden) or "nothing it finds today"
            yield Change(
                Level.WARNING,
                "silenced",
                f"{rule} is newly silenced, which hides {what}",
                after=new,
                details=(f"reason given: {new}",),
            )


def _domain(base: Summary, head: Summary, growth: Mapping[str, str]) -> Iterator[Change]:
    for name in dict.fromkeys((*base.dims, *head.dims)):
        old, new = base.dims.get(name), head.dims.get(name)
        if old == new:
            continue
        way = growth.get(name, "other")
        level = Level.WARNING if way in ("narrower", "other") and old is not None else Level.NOTE
        word = {"wider": "wider; ", "narrower": "narrower; ", "equal": "same sizes; "}.get(way, "")
        level = Level.NOTE if way == "equal" else level
        yield Change(level, "domain", f"{name} {word}{old or 'none'} → {new or 'none'}", before=old, after=new)


def _tensors(base: Summary, head: Summary) -> Iterator[Change]:
    for name in dict.fromkeys((*base.tensors, *head.tensors)):
        old, new = base.tensors.get(name), head.tensors.get(name)
        if old is None and new is not None:
            yield Change(
                Level.WARNING, "tensors", f"`{name}` ({new.shape}) is new: callers must pass it", after=new.shape
            )
        elif old is not None and new is None:
            yield Change(Level.WARNING, "tensors", f"`{name}` ({old.shape}) is gone", before=old.shape)
        elif old is not None and new is not None and old.shape != new.shape:
            text = f"`{name}`: shape {old.shape} → {new.shape}"
            yield Change(Level.WARNING, "tensors", text, before=old.shape, after=new.shape)
    yield from _dtypes(base, head)


def _dtypes(base: Summary, head: Summary) -> Iterator[Change]:
    """Tensors whose dtypes changed alike are told of together."""
    kinds: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for name in (name for name in head.tensors if name in base.tensors):
        old, new = base.tensors[name].dtypes, head.tensors[name].dtypes
        if old != new:
            kinds.setdefault((old, new), []).append(name)
    for (old, new), names in kinds.items():
        added, dropped = [d for d in new if d not in old], [d for d in old if d not in new]
        words = [f"{joined(added)} added"] if added else []
        words += [f"{joined(dropped)} dropped"] if dropped else []
        level = Level.WARNING if dropped else Level.NOTE
        tensors = joined(f"`{name}`" for name in sorted(names, key=list(head.tensors).index))
        text = f"dtypes of {tensors}: {', '.join(words) or 'other order'}"
        yield Change(level, "dtypes", text, before=list(old), after=list(new))


def _targets(base: Summary, head: Summary) -> Iterator[Change]:
    for arch in head.targets:
        if arch not in base.targets:
            yield Change(Level.NOTE, "target", f"{arch} added", after=arch)
    for arch in base.targets:
        if arch not in head.targets:
            yield Change(Level.WARNING, "target", f"{arch} dropped", before=arch)


def _tiles(base: Summary, head: Summary) -> Iterator[Change]:
    """Tile parameters whose rules changed; the same change on several targets is told once."""
    kinds: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    both = [arch for arch in head.targets if arch in base.targets]
    for arch in both:
        old, new = base.tiles[arch], head.tiles[arch]
        for name in dict.fromkeys((*old, *new)):
            pair = old.get(name, ()), new.get(name, ())
            if pair[0] != pair[1]:
                kinds.setdefault((name, *pair), []).append(arch)
    for (name, before, after), archs in kinds.items():
        where = "" if len(archs) == len(both) else joined(archs)
        text, details = _rules(name, before, after)
        yield Change(Level.NOTE, "tile", text, where=where, before=list(before), after=list(after), details=details)


def _rules(name: str, before: tuple[str, ...], after: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    if len(before) <= 1 and len(after) <= 1:
        return f"{name}: {(*before, 'derived')[0]} → {(*after, 'derived')[0]}", ()
    gone, new = [rule for rule in before if rule not in after], [rule for rule in after if rule not in before]
    lines = tuple([f"- {rule}" for rule in gone] + [f"+ {rule}" for rule in new])
    if not lines:
        return f"{name}: its rules stand in another order", tuple(after)
    if not before or not after:
        return f"{name}: {'derived' if not before else 'by rules'} → {'derived' if not after else 'by rules'}", lines
    return f"{name}: {count_words(len(lines), 'rule')} of {max(len(before), len(after))} changed", lines


def _compile_keys(base: Summary, head: Summary) -> Iterator[Change]:
    if not base.compile_keys or not head.compile_keys:
        return
    for arch in (arch for arch in head.compile_keys if arch in base.compile_keys):
        old = {_key(key) for key in base.compile_keys[arch]}
        new = {_key(key) for key in head.compile_keys[arch]}
        if old == new:
            continue
        added, gone = len(new - old), len(old - new)
        words = [f"{added} new" for _ in (0,) if added] + [f"{gone} gone" for _ in (0,) if gone]
        text = f"{number_words(len(old))} → {number_words(len(new))}: {', '.join(words)}"
        yield Change(Level.NOTE, "compile keys", text, where=arch, before=len(old), after=len(new))


def _key(key: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in key.items()))
