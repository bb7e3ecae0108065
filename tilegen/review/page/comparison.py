"""Two states of a kernel side by side: which of their cases belong together, and what of each changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilegen.review.page.line_diff import DiffLine, diff
from tilegen.review.page.model import PageModel
from tilegen.review.page.proofs import where

if TYPE_CHECKING:
    from tilegen.review.page.banks import BankPicture
    from tilegen.review.page.model import KernelFigures, ViewFigures
    from tilegen.review.page.proofs import RuleRow
    from tilegen.review.page.roofline import Roofline
    from tilegen.spec.diagnostic import Diagnostic

MOST_PAIRS = 10
"""Changed cases that are drawn."""


@dataclass(frozen=True)
class KernelPair:
    name: str
    base: KernelFigures | None
    head: KernelFigures | None


@dataclass(frozen=True)
class ViewPair:
    """A case before and after; one side is None where a case came or went."""

    base: ViewFigures | None
    head: ViewFigures | None
    kernels: tuple[KernelPair, ...]
    changed: bool

    @property
    def changed_numbers(self) -> frozenset[str]:
        """Labels of the numbers that differ, where both sides are there."""
        if self.base is None or self.head is None:
            return frozenset()
        old = {number.label: number.text for number in self.base.numbers}
        new = {number.label: number.text for number in self.head.numbers}
        return frozenset(label for label in (*old, *new) if old.get(label) != new.get(label))

    @property
    def changed_tiles(self) -> frozenset[str]:
        """Names of the tile values that differ, where both sides are there."""
        if self.base is None or self.head is None:
            return frozenset()
        old, new = dict(self.base.tiles), dict(self.head.tiles)
        return frozenset(name for name in (*old, *new) if old.get(name) != new.get(name))

    @property
    def name(self) -> str:
        names = [entry.view.name for entry in (self.base, self.head) if entry is not None]
        return names[0] if len(set(names)) == 1 else " → ".join(names)


@dataclass(frozen=True)
class RulePair:
    code: str
    name: str
    sentence: str
    base: RuleRow | None
    head: RuleRow | None

    @property
    def counts_only(self) -> bool:
        """Whether it holds on both sides, or fails alike."""
        if self.base is None or self.head is None:
            return False
        old, new = self.base, self.head
        return (old.status, old.refuted, old.undecided) == (new.status, new.refuted, new.undecided)


@dataclass(frozen=True)
class Unreadable:
    """A state whose spec cannot be read: its text, and why."""

    name: str
    text: str
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True)
class Pair:
    """Both models; at least one state is there. ``views`` are the changed cases that are drawn, of ``changed`` in all."""

    name: str
    base: PageModel | None
    head: PageModel | None
    problems: tuple[tuple[Diagnostic, ...], tuple[Diagnostic, ...]]
    """Why a side cannot be read."""
    views: tuple[ViewPair, ...]
    changed: int
    unchanged: str
    """The cases that are the same on both sides, in words."""
    rules: tuple[RulePair, ...]
    counted: tuple[RulePair, ...]
    """Rules that hold on both sides, of another number of obligations."""
    rooflines: tuple[tuple[Roofline | None, Roofline | None], ...]
    banks: tuple[tuple[BankPicture, ...], tuple[BankPicture, ...]]
    spec: tuple[DiffLine, ...]
    lock: tuple[DiffLine, ...]
    """The winners of tuning, where they differ."""
    source: tuple[DiffLine, ...]
    no_source: str
    """Why there is no source to compare; empty where there is."""


def compared(old: PageModel | Unreadable | None, new: PageModel | Unreadable | None) -> Pair:
    """The two states of one kernel, paired. At least one is there."""
    base, head = (state if isinstance(state, PageModel) else None for state in (old, new))
    pairs = list(_view_pairs(base.drawn if base else (), head.drawn if head else ()))
    changed = [pair for pair in pairs if pair.changed]
    same = [pair.head.view for pair in pairs if not pair.changed and pair.head is not None]
    without = _no_source(old, "before") or _no_source(new, "after")
    rules = list(_rule_pairs(base.rules if base else (), head.rules if head else ()))
    if base is None or head is None:  # what one side proves is no change of the other, which asks nothing
        rules = [pair for pair in rules if any(row and row.status != "proved" for row in (pair.base, pair.head))]
    return Pair(
        _name(new) or _name(old),
        base,
        head,
        (_problems(old), _problems(new)),
        tuple(changed[:MOST_PAIRS]),
        len(changed),
        where(list(head.views), same) if head is not None and same else "",
        tuple(pair for pair in rules if not pair.counts_only),
        tuple(pair for pair in rules if pair.counts_only),
        tuple(_roofline_pairs(base.rooflines if base else (), head.rooflines if head else ())),
        _bank_pairs(base.banks if base else (), head.banks if head else ()),
        tuple(diff(_spec_lines(old), _spec_lines(new))),
        tuple(diff(_lock_lines(base), _lock_lines(head))),
        () if without else tuple(diff(_source_lines(base), _source_lines(head))),
        without,
    )


def _name(state: PageModel | Unreadable | None) -> str:
    if state is None:
        return ""
    return state.name if isinstance(state, Unreadable) else state.spec.kernel


def _problems(state: PageModel | Unreadable | None) -> tuple[Diagnostic, ...]:
    return state.diagnostics if isinstance(state, Unreadable) else ()


def _no_source(state: PageModel | Unreadable | None, side: str) -> str:
    if isinstance(state, Unreadable):
        return f"{side}, the spec cannot be read"
    return f"{side}, {state.listing.problem}" if state is not None and state.listing.problem else ""


def _spec_lines(state: PageModel | Unreadable | None) -> list[str]:
    if isinstance(state, Unreadable):
        return state.text.rstrip("\n").split("\n")
    return [] if state is None else [line.text for line in state.listing.spec]


def _lock_lines(model: PageModel | None) -> list[str]:
    lock = None if model is None else model.spec.lock
    return [] if lock is None else lock.text.rstrip("\n").split("\n")


def _source_lines(model: PageModel | None) -> list[str]:
    return [] if model is None else [line.text for line in model.listing.source]


def _view_pairs(base: tuple[ViewFigures, ...], head: tuple[ViewFigures, ...]) -> Iterator[ViewPair]:
    """Cases of one target belong together where condition and schedule are the same; the rest in their order."""
    for arch in dict.fromkeys(entry.view.arch for entry in (*head, *base)):
        old = [entry for entry in base if entry.view.arch == arch]
        new = [entry for entry in head if entry.view.arch == arch]
        taken: dict[int, int] = {}
        for key in (_condition, _schedule, _nothing):
            for at, entry in enumerate(new):
                if at not in taken:
                    match = next(
                        (i for i, o in enumerate(old) if i not in taken.values() and key(o) == key(entry)), None
                    )
                    if match is not None:
                        taken[at] = match
        for at, entry in enumerate(new):
            yield _pair(old[taken[at]] if at in taken else None, entry)
        for at, entry in enumerate(old):
            if at not in taken.values():
                yield _pair(entry, None)


def _condition(entry: ViewFigures) -> tuple[str, ...]:
    return entry.view.plan.schedule, str(entry.view.plan.case.condition), *entry.view.dtypes


def _schedule(entry: ViewFigures) -> tuple[str, ...]:
    return (entry.view.plan.schedule, *entry.view.dtypes)


def _nothing(_: ViewFigures) -> tuple[str, ...]:
    return ()


def _pair(base: ViewFigures | None, head: ViewFigures | None) -> ViewPair:
    names = dict.fromkeys(kernel.name for side in (head, base) if side is not None for kernel in side.kernels)
    kernels = []
    for name in names:
        sides = [
            next((kernel for kernel in side.kernels if kernel.name == name), None) if side is not None else None
            for side in (base, head)
        ]
        kernels.append(KernelPair(name, *_at_one_scale(*sides)))
    changed = base is None or head is None or _shown(base) != _shown(head)
    return ViewPair(base, head, tuple(kernels), changed)


def _shown(entry: ViewFigures) -> object:
    """What a reader sees of a case."""
    numbers = [(number.label, number.text, number.note) for number in entry.numbers]
    return numbers, entry.tiles, entry.kernels, entry.view.where, entry.view.dtypes, entry.view.sized.shape


def _at_one_scale(
    base: KernelFigures | None, head: KernelFigures | None
) -> tuple[KernelFigures | None, KernelFigures | None]:
    """Both with tiles at the smaller scale, so that sizes can be compared by eye."""
    if base is None or head is None:
        return base, head
    scale = min(base.tiles.scale, head.tiles.scale)
    narrow = min(base.tiles.narrow, head.tiles.narrow)
    stretch, bar = min(base.tiles.stretch, head.tiles.stretch), max(base.tiles.bar, head.tiles.bar)
    first, second = (
        replace(side, tiles=replace(side.tiles, scale=scale, narrow=narrow, stretch=stretch, bar=bar))
        for side in (base, head)
    )
    return first, second


def _rule_pairs(base: tuple[RuleRow, ...], head: tuple[RuleRow, ...]) -> Iterator[RulePair]:
    """The rules whose results differ, refuted ones first."""
    old, new = {row.code: row for row in base}, {row.code: row for row in head}
    found = []
    for code in dict.fromkeys((*new, *old)):
        before, after = old.get(code), new.get(code)
        if before is None or after is None or _result(before) != _result(after):
            row = after or before
            assert row is not None
            found.append(RulePair(code, row.name, row.sentence, before, after))
    return iter(sorted(found, key=lambda pair: pair.head is None or pair.head.status == "proved"))


def _result(row: RuleRow) -> object:
    return row.status, row.proved, row.refuted, row.undecided


def _roofline_pairs(
    base: tuple[Roofline, ...], head: tuple[Roofline, ...]
) -> Iterator[tuple[Roofline | None, Roofline | None]]:
    old = {(roof.arch, roof.dtype): roof for roof in base}
    new = {(roof.arch, roof.dtype): roof for roof in head}
    for key in dict.fromkeys((*new, *old)):
        if old.get(key) != new.get(key):
            yield old.get(key), new.get(key)


def _bank_pairs(
    base: tuple[BankPicture, ...], head: tuple[BankPicture, ...]
) -> tuple[tuple[BankPicture, ...], tuple[BankPicture, ...]]:
    """The layouts that only one side has, each once."""

    def only(mine: tuple[BankPicture, ...], theirs: tuple[BankPicture, ...]) -> tuple[BankPicture, ...]:
        others = {(picture.names, picture.title) for picture in theirs}
        kept = {
            (picture.names, picture.title): picture for picture in mine if (picture.names, picture.title) not in others
        }
        return tuple(kept.values())

    return only(base, head), only(head, base)
