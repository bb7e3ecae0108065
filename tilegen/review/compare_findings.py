"""What the checker found on two sides: rules newly refuted or proved, still refuted, silenced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from tilegen.check.findings import CONFLICT
from tilegen.review.change import Change, Level
from tilegen.review.summary import Summary
from tilegen.review.words import count_words, joined
from tilegen.spec.diagnostic import Diagnostic, Severity
from tilegen.spec.find import LOCK_SUFFIX

LEVEL = {
    Severity.ERROR: Level.ERROR,
    Severity.UNDECIDED: Level.WARNING,
    Severity.SLOW: Level.WARNING,
    Severity.NOTE: Level.NOTE,
}


def finding_changes(base: Summary, head: Summary) -> Iterator[Change]:
    """Findings that are new, changed, gone or silenced, and rules whose standing changed without one to say so."""
    said: set[str] = set()
    yield from _present(base, head, said)
    yield from _gone(base, head, said)
    yield from _standings(base, head, said)
    yield from _silenced(base, head)


def said_of(entry: Diagnostic) -> tuple[Any, ...]:
    """What a finding says, apart from its place and its mends."""
    return _identity(entry), entry.label, tuple(note for note in entry.notes if not note.startswith(CONFLICT))


def _identity(entry: Diagnostic) -> tuple[str, str, str]:
    return entry.code, entry.severity.value, entry.message


def _new(entries: Iterable[Diagnostic], known: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The entries that are not among the known ones, each of which stands for one."""
    left = Counter(map(said_of, known))
    found = []
    for entry in entries:
        if left[said_of(entry)]:
            left[said_of(entry)] -= 1
        else:
            found.append(entry)
    return found


def _present(base: Summary, head: Summary, said: set[str]) -> Iterator[Change]:
    """What is found at the head. A kernel with an error does not build, so an old one is told of as well."""
    fresh = _new(head.findings, base.findings)
    before = Counter(map(_identity, _new(base.findings, head.findings)))
    hidden = Counter(map(said_of, base.silenced))
    for entry in fresh:
        said.add(entry.code)
        if hidden[said_of(entry)]:
            yield _finding("no longer silenced", entry)
        elif before[_identity(entry)]:
            before[_identity(entry)] -= 1
            if entry.severity is Severity.ERROR:
                yield _finding("still refuted, with other numbers", entry)
            else:
                text = f"{_rule(entry)} still found, with other numbers: {_first(entry.label)}"
                yield Change(Level.NOTE, "rule", text, details=_evidence(entry), line=_line(entry), file=_file(entry))
        else:
            yield _finding("newly refuted" if entry.severity is not Severity.UNDECIDED else "no longer proved", entry)
    for entry in head.findings:
        if entry.severity is Severity.ERROR and not any(entry is other for other in fresh):
            said.add(entry.code)
            yield replace(_finding("still refuted, as before", entry), details=(entry.label,))


def _gone(base: Summary, head: Summary, said: set[str]) -> Iterator[Change]:
    identities, hidden = set(map(_identity, head.findings)), _codes(head.silenced)
    for entry in base.findings:
        if _identity(entry) not in identities and entry.code not in said and entry.code not in hidden:
            said.add(entry.code)
            standing = _standing(head, entry.code)
            word = {"proved": "is now proved", "": "no longer applies"}.get(standing, "is no longer found")
            yield Change(Level.NOTE, "rule", f"{_rule(entry)} {word}: {entry.message}")


def _finding(word: str, entry: Diagnostic) -> Change:
    text = f"{_rule(entry)} {word}: {entry.message}"
    return Change(LEVEL[entry.severity], "rule", text, details=_evidence(entry), line=_line(entry), file=_file(entry))


def _codes(entries: Iterable[Diagnostic]) -> set[str]:
    return {entry.code for entry in entries}


def _rule(entry: Diagnostic) -> str:
    return entry.code if entry.code.endswith(entry.name) else f"{entry.code} {entry.name}"


def _evidence(entry: Diagnostic) -> tuple[str, ...]:
    """The arithmetic, the counterexample and the mends."""
    return tuple(line for line in (entry.label, *entry.notes[:1], *(f"help: {text}" for text in entry.help)) if line)


def _first(text: str) -> str:
    return text.split("\n")[0]


def _line(entry: Diagnostic) -> int:
    return entry.span.line if entry.span else 0


def _file(entry: Diagnostic) -> str:
    """The lock, where the finding stands in it; empty for the spec."""
    return entry.span.file if entry.span and entry.span.file.endswith(LOCK_SUFFIX) else ""


def _standing(side: Summary, code: str) -> str:
    """How a rule stands on one side: refuted, undecided, proved, or not asked (empty)."""
    counts = side.rules.get(code)
    if counts is None or not any(counts.values()):
        return ""
    return next(word for word in ("refuted", "undecided", "proved") if counts.get(word) or word == "proved")


def _standings(base: Summary, head: Summary, said: set[str]) -> Iterator[Change]:
    if not base.rules:
        proved = [counts.get("proved", 0) for counts in head.rules.values()]
        if head.planned and any(proved):
            rules = count_words(sum(map(bool, proved)), "rule")
            yield Change(Level.NOTE, "rule", f"proved: {count_words(sum(proved), 'obligation')} of {rules}")
        return
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
        text = f"no longer asked, for nothing is left that they speak of: {joined(gone)}"
        yield Change(Level.NOTE, "rule", text, before=gone)


def _silenced(base: Summary, head: Summary) -> Iterator[Change]:
    """Rules of ``[allow]`` that are new or gone, and what an old one has newly come to hide."""
    found = _codes(head.findings)
    hidden = _new(head.silenced, base.silenced)
    for rule in dict.fromkeys((*base.allow, *head.allow)):
        old, new = base.allow.get(rule), head.allow.get(rule)
        labels = dict.fromkeys(_first(entry.label) for entry in hidden if entry.code == rule)
        reason = (f"reason given: {new}",)
        if new is None:
            if rule not in found:
                yield Change(Level.NOTE, "silenced", f"{rule} is no longer silenced", before=old)
        elif old is None:
            what = f"; it hides: {'; '.join(labels)}" if labels else ", though it finds nothing today"
            yield Change(Level.WARNING, "silenced", f"{rule} is newly silenced{what}", after=new, details=reason)
        elif labels:
            text = f"{rule}, silenced before, hides what it did not: {'; '.join(labels)}"
            yield Change(Level.WARNING, "silenced", text, details=reason)
        if None not in (old, new) and old != new:
            yield Change(Level.NOTE, "silenced", f"reason for silencing {rule}: {old} → {new}", before=old, after=new)
