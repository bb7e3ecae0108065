"""What happened to one kernel between two revisions."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from tilegen.check.report import Report, known_report, report_of_spec
from tilegen.emit.artefacts import SOURCES
from tilegen.emit.rendering import RenderError, render
from tilegen.review.change import BudgetRow, Change, FileDiff, KernelDiff, Level, Status, ordered
from tilegen.review.compare import compare
from tilegen.review.compare_budgets import budget_changes, pairs, rows
from tilegen.review.compare_findings import said_of
from tilegen.review.formulas import compute_changes
from tilegen.review.goldens import BY_HAND, golden_changes
from tilegen.review.growth import growth
from tilegen.review.names import same_but_for_the_name, same_values
from tilegen.review.same_tiles import same_tiles
from tilegen.review.signature import signature_changes
from tilegen.review.source import source_diffs
from tilegen.review.summary import Summary, summarize
from tilegen.review.tuned import tuned_changes
from tilegen.review.unreadable import edit_changes, error_changes
from tilegen.review.words import count_words, joined
from tilegen.spec.diagnostic import Diagnostic, SpecError
from tilegen.spec.document import MAX_BYTES
from tilegen.spec.loading import load_bytes

if TYPE_CHECKING:
    from tilegen.review.diff import Side
    from tilegen.spec.model import Spec


def added(side: Side, *, cached: bool = True) -> KernelDiff:
    """A kernel that is new: what it promises, and what the checker finds. ``cached`` takes a verdict that is known."""
    loaded = _load(side)
    if isinstance(loaded, SpecError):
        return KernelDiff(side.kernel, side.path, Status.ADDED, changes=tuple(error_changes(loaded)))
    summary = summarize(loaded, _report(side, loaded, cached))
    changes = [
        Change(Level.NOTE, "kernel", f"new kernel, {_promise(summary)}", after=summary.kernel),
        *_findings(summary),
        *tuned_changes(None, side.lock),
    ]
    if not side.folder:
        changes.append(Change(Level.NOTE, "golden", "there is no generated folder yet: run `tilegen build`"))
    return KernelDiff(side.kernel, side.path, Status.ADDED, changes=ordered(changes))


def removed(side: Side) -> KernelDiff:
    """A kernel whose spec is gone."""
    change = Change(
        Level.WARNING, "kernel", "the spec is gone: whoever imports this kernel loses it", before=side.kernel
    )
    return KernelDiff(side.kernel, side.path, Status.REMOVED, changes=(change,))


def changed(old: Side, new: Side, *, cached: bool = True) -> KernelDiff:
    """A kernel that both revisions have, under the same name or another. ``cached`` takes verdicts that are known."""
    status = Status.RENAMED if old.kernel != new.kernel else Status.MOVED if old.path != new.path else Status.CHANGED
    same = (old.spec, old.lock) == (new.spec, new.lock)
    found, budgets, files = ([], (), ()) if same else _content(old, new, cached)
    if not files and new.folder:
        files = _committed(old, new)
    changes = [*_names(old, new), *found]
    changes += golden_changes(old.folder, new.folder, _hash(new.spec), _hash(new.lock), new.built)
    changes += tuned_changes(old.lock, new.lock)
    by_hand = any(change.text.startswith(BY_HAND) for change in changes)
    changes += _source_change(files, printed_anew=same and not by_hand)
    if not changes:
        changes.append(Change(Level.NOTE, "golden", "a file of the generated folder differs that no kernel reads"))
    return KernelDiff(
        new.kernel,
        new.path,
        status,
        old.kernel if old.kernel != new.kernel else "",
        old.path if old.path != new.path else "",
        ordered(changes),
        budgets,
        files,
    )


def _hash(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()


def _names(old: Side, new: Side) -> Iterator[Change]:
    same = "; nothing else of the spec changed" if same_but_for_the_name(old.spec, new.spec) else ""
    if old.kernel != new.kernel:
        text = f"renamed {old.kernel} → {new.kernel}{same}: callers import the new name"
        yield Change(Level.NOTE, "kernel", text, before=old.kernel, after=new.kernel)
    elif old.path != new.path:
        yield Change(Level.NOTE, "kernel", f"its spec moved{same}", before=old.path, after=new.path)


Content = tuple[list[Change], tuple[BudgetRow, ...], tuple[FileDiff, ...]]


def _content(old: Side, new: Side, cached: bool) -> Content:
    """The changes of the spec, the budget table, and what the change does to the generated source."""
    if old.lock == new.lock and same_but_for_the_name(old.spec, new.spec) and len(new.spec) <= MAX_BYTES:
        if same_values(old.spec, new.spec):
            text = "only comments and layout of the spec changed: the kernel is the same"
            return [Change(Level.NOTE, "comments", text)], (), ()
        return [], (), ()
    before, after = _load(old), _load(new)
    if isinstance(after, SpecError):
        return [*error_changes(after), *edit_changes(old, new)], (), ()
    if isinstance(before, SpecError):
        text = "the spec could not be read before, and can be now"
        findings = _findings(summarize(after, _report(new, after, cached)))
        return [Change(Level.NOTE, "kernel", text), *findings, *edit_changes(old, new)], (), ()
    base = summarize(before, _report(old, before, cached, mends=lambda _: False))
    known = {said_of(entry) for entry in base.findings}
    # A finding that was there before is not mended again.
    head = summarize(after, _report(new, after, cached, mends=lambda entry: said_of(entry) not in known))
    found = [*compute_changes(before, after), *compare(base, head, growth(before, after))]
    found += signature_changes(before, after)
    if not base.planned or not head.planned:
        return found, (), ()
    both = pairs(before, after)
    if not both and any(change.subject == "tile" for change in found):
        found += same_tiles(before, after)
    files = _rendered(old, new, before, after)
    if not found and not both and not any(file.kind == "code" for file in files):
        text = "the spec says the same in another order, or in other words: nothing of the kernel changed"
        found.append(Change(Level.NOTE, "comments", text))
    return found + list(budget_changes(both)), rows(both), files


def _report(side: Side, spec: Spec, cached: bool, *, mends: Callable[[Diagnostic], bool] = lambda _: True) -> Report:
    """What the checker says of a side: as ``tilegen check`` has left it, or found now, with mends where they are wanted."""
    known = known_report(Path(side.path), (side.spec, side.lock)) if cached else None
    return known or report_of_spec(spec, mends=mends)


def _rendered(old: Side, new: Side, before: Spec, after: Spec) -> tuple[FileDiff, ...]:
    """The differences of the committed sources where both belong to their specs; else of what the specs render to."""
    if old.folder and new.folder and old.folder != new.folder:
        return _committed(old, new)
    try:
        first, second = (_plain(render(spec).files, spec.kernel) for spec in (before, after))
    except RenderError:
        return ()
    return source_diffs(_renamed(first, old, new), second)


def _committed(old: Side, new: Side) -> tuple[FileDiff, ...]:
    """The differences of the generated sources in the two revisions."""
    first, second = (
        _plain(
            {name: _text(content) for name, content in side.folder.items() if name.endswith(".py")},
            side.kernel,
        )
        for side in (old, new)
    )
    return source_diffs(_renamed(first, old, new), second)


def _text(content: bytes) -> str:
    return content.replace(b"\r\n", b"\n").decode(errors="replace")


def _renamed(files: Mapping[str, str], old: Side, new: Side) -> dict[str, str]:
    """The sources as they would read if kernel and spec had been called as they are at the head."""
    if (old.kernel, old.path) == (new.kernel, new.path):
        return dict(files)
    now = {old.path: new.path, PurePath(old.path).name: PurePath(new.path).name, old.kernel: new.kernel}
    word = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, now))})(?![A-Za-z0-9])")
    return {name: word.sub(lambda match: now[match[0]], text) for name, text in files.items()}


def _plain(files: Mapping[str, str], kernel: str) -> dict[str, str]:
    """The sources of a kernel; its test goes by a name without the kernel's, so that a rename compares it too."""
    found = {name: files[name] for name in SOURCES if name in files}
    test = files.get(f"test_{kernel}.py")
    return found if test is None else {**found, "test_<kernel>.py": test}


def _source_change(files: tuple[FileDiff, ...], printed_anew: bool) -> Iterator[Change]:
    """What differs of the generated source, in one line: code, and then what matters less."""
    counts = Counter(file.kind for file in files)
    less = [(counts["comments"] + counts["header"], "only in header or comments"), (counts["support"], "of support")]
    rest = joined(f"{count_words(count, 'file')} {word}" for count, word in less if count)
    code = joined(f"{file.path} (+{file.added} -{file.removed})" for file in files if file.kind == "code")
    if code:
        but = "; the spec is the same: the templates that print it changed" if printed_anew else ""
        yield Change(Level.NOTE, "source", f"generated code: {code}" + (f"; {rest}" if rest else "") + but)
    elif counts["comments"] or counts["support"]:
        yield Change(Level.NOTE, "source", f"generated source: no code of the kernel; {rest}")
    elif files:
        yield Change(Level.NOTE, "source", "generated source: only the header differs (spec hash, budget, spec lines)")


def _load(side: Side) -> Spec | SpecError:
    try:
        return load_bytes(side.spec, side.path, side.lock)
    except SpecError as error:
        return error


def _findings(summary: Summary) -> Iterator[Change]:
    """What the checker finds in a kernel that was not there before: everything is new."""
    empty = replace(summary, findings=(), rules={}, silenced=(), allow={}, tolerance=None)
    yield from compare(empty, summary, {})


def _promise(summary: Summary) -> str:
    keys = sum(map(len, summary.compile_keys.values()))
    dims = "; ".join(f"{name} {words}" for name, words in summary.dims.items())
    return f"{summary.family}, on {joined(summary.targets)}, {count_words(keys, 'compile key')}; {dims}"
