"""Two summaries of a kernel to the changes between what their specs say, and what the checker found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilegen.review.change import Change, Level
from tilegen.review.compare_findings import finding_changes
from tilegen.review.summary import Summary
from tilegen.review.words import count_words, joined, number_words


def compare(base: Summary, head: Summary, growth: Mapping[str, str]) -> Iterator[Change]:
    """The changes of the specs themselves; budgets are compared apart (``compare_budgets``).

    ``growth`` says of each dim whose domain changed whether it became ``wider``, ``narrower``, or ``other``.
    """
    yield from _tolerance(base, head)
    yield from finding_changes(base, head)
    yield from _words("family", base.family, head.family, Level.WARNING)
    yield from _words("variant", base.variant, head.variant, Level.WARNING)
    yield from _domain(base, head, growth)
    yield from _tensors(base, head)
    yield from _scalars(base, head)
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
    yield from _tests(base, head)
    yield from _words("doc", base.doc, head.doc)


def _shapes(base: Summary, head: Summary) -> tuple[str, ...]:
    gone, new = [s for s in base.shapes if s not in head.shapes], [s for s in head.shapes if s not in base.shapes]
    return tuple([f"- {shape}" for shape in gone] + [f"+ {shape}" for shape in new])


def _tests(base: Summary, head: Summary) -> Iterator[Change]:
    """Golden cases of ``[tests]``, and sizes of dynamic dims: one that is gone is a case that nothing tests any more."""
    for name, sizes in base.tested.items():
        lost = [size for size in sizes if size not in head.tested.get(name, sizes)]
        if lost:
            text = f"{name} is no longer tested at {joined(f'{size:,}' for size in lost)}"
            yield Change(Level.WARNING, "tests", text, before=list(sizes), after=list(head.tested[name]))
    gone = [case for case in base.tests if case not in head.tests]
    new = [case for case in head.tests if case not in base.tests]
    if gone or new:
        words = [f"{len(cases)} {word}" for cases, word in ((new, "new"), (gone, "gone")) if cases]
        level = Level.WARNING if gone else Level.NOTE
        details = tuple([f"- {case}" for case in gone] + [f"+ {case}" for case in new])
        text = f"golden cases of [tests]: {' and '.join(words)}"
        yield Change(level, "tests", text, before=len(base.tests), after=len(head.tests), details=details)


def _words(subject: str, before: str, after: str, level: Level = Level.NOTE) -> Iterator[Change]:
    if before != after:
        text = f"{subject}: {before or 'none'} → {after or 'none'}"
        yield Change(level, subject, text, before=before, after=after)


def _scalars(base: Summary, head: Summary) -> Iterator[Change]:
    for name in dict.fromkeys((*base.scalars, *head.scalars)):
        old, new = base.scalars.get(name), head.scalars.get(name)
        if old is None:
            yield Change(Level.WARNING, "scalar", f"`{name}` ({new}) is new: callers must pass it", after=new)
        elif new is None:
            yield Change(Level.WARNING, "scalar", f"`{name}` ({old}) is gone", before=old)
        elif old != new:
            yield Change(Level.NOTE, "scalar", f"`{name}`: {old} → {new}", before=old, after=new)


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
            what = "an output that callers get too" if new.output else "callers must pass it"
            yield Change(Level.WARNING, "tensors", f"`{name}` ({new.shape}) is new: {what}", after=new.shape)
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
    return f"{name}: {count_words(max(len(gone), len(new)), 'rule')} of {max(len(before), len(after))} changed", lines


def _compile_keys(base: Summary, head: Summary) -> Iterator[Change]:
    if not base.compile_keys or not head.compile_keys:
        return
    told: dict[tuple[str, int, int], list[str]] = {}
    for arch in (arch for arch in head.compile_keys if arch in base.compile_keys):
        old = {_key(key) for key in base.compile_keys[arch]}
        new = {_key(key) for key in head.compile_keys[arch]}
        if old == new:
            continue
        added, gone = len(new - old), len(old - new)
        words = [f"{added} new" for _ in (0,) if added] + [f"{gone} gone" for _ in (0,) if gone]
        text = f"{number_words(len(old))} → {number_words(len(new))}: {', '.join(words)}"
        told.setdefault((text, len(old), len(new)), []).append(arch)
    for (text, before, after), archs in told.items():
        where = joined(archs)
        yield Change(Level.NOTE, "compile keys", text, where=where, before=before, after=after)


def _key(key: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in key.items()))
