"""What the cases of a spec cost before and after: the same shapes, looked up in both revisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tilegen.plan.build import dtype_bindings
from tilegen.review.budget import Budget, LaunchBudget, budget, cost_of, dtype_words, launch_role
from tilegen.review.change import BudgetRow, Change, Level
from tilegen.review.compare_launches import launch_changes
from tilegen.review.shapes import CaseTable, case_table
from tilegen.review.words import count_words, joined, shape_words

if TYPE_CHECKING:
    from tilegen.spec.model import Spec

SHORT = 72
"""Columns of a condition that still says where better than a shape does."""


@dataclass(frozen=True)
class Pair:
    """One way from a case of the base to a case of the head, at a shape that takes both. ``more`` counts the further
    pairs that changed alike. A side is None where it does not declare the target, the dtype or the shape: ``lacks`` says
    which.
    """

    arch: str
    dtypes: str
    before: Budget | None
    after: Budget | None
    lacks: str = ""
    more: int = 0

    @property
    def either(self) -> Budget:
        found = self.after or self.before
        assert found is not None
        return found


def pairs(base: Spec, head: Spec) -> list[Pair]:
    """Every pair whose cost differs, or that is on one side alone; those that changed alike are one."""
    found: list[Pair] = []
    for arch in dict.fromkeys(target.arch for spec in (head, base) for target in spec.targets):
        sides = [case_table(spec, arch) if _has(spec, arch) else None for spec in (base, head)]
        if sides[0] is None or sides[1] is None:
            found += _alone(arch, base, head, sides[0], sides[1])
        else:
            found += _paired(arch, sides[0], sides[1])
    return list(_grouped(found))


def _has(spec: Spec, arch: str) -> bool:
    return any(target.arch == arch for target in spec.targets)


def _alone(arch: str, base: Spec, head: Spec, before: CaseTable | None, after: CaseTable | None) -> Iterator[Pair]:
    """A target that one side does not have: its cases, with the dtypes that cost the same together."""
    table = before or after
    assert table is not None
    for number, shape in table.examples.items():
        for dtypes in dtype_bindings(table.spec):
            cost = budget(table.spec, arch, dtypes, table.cases[number], shape)
            yield Pair(arch, cost.dtypes, cost if before else None, None if before else cost, "target")


def _paired(arch: str, before: CaseTable, after: CaseTable) -> Iterator[Pair]:
    bindings = [{dtype_words(t.spec, b): b for b in dtype_bindings(t.spec)} for t in (before, after)]
    aligned = _aligned(*bindings)
    meetings = _meetings(before, after)
    partners = Counter(new for old, new in meetings if old is not None)
    for (old, new), shape in meetings.items():
        for words, (was, now) in aligned.items():
            then = None if old is None or was is None else budget(before.spec, arch, was, before.cases[old], shape)
            today = None if new is None or now is None else budget(after.spec, arch, now, after.cases[new], shape)
            if today is not None and partners[new] > 1:
                today = replace(today, where="")  # its condition holds for shapes that another case had, too
            pair = Pair(
                arch,
                words,
                then,
                today,
                "dtypes" if was is None or now is None else "shapes" if old is None or new is None else "",
            )
            if pair.before is None and pair.after is None:
                continue
            if pair.before is None or pair.after is None or cost_of(pair.before) != cost_of(pair.after):
                yield pair


def _aligned(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The dtypes of both sides by name; where each has a single one, those are compared whatever they are."""
    if len(before) == len(after) == 1 and before.keys() != after.keys():
        return {
            f"{next(iter(before))} → {next(iter(after))}": (next(iter(before.values())), next(iter(after.values())))
        }
    return {words: (before.get(words), after.get(words)) for words in dict.fromkeys((*after, *before))}


Meeting = tuple[int | None, int | None]


@lru_cache(maxsize=16)
def _meetings(before: CaseTable, after: CaseTable) -> dict[Meeting, dict[str, int]]:
    """Each pair of cases that some shape takes, with such a shape: the largest listed one of the head's case, if it is
    one. Sides whose dims are not the same dims share no shape. Targets with the same tile rules ask alike.
    """
    names = [{dim.name for dim in table.spec.dims} for table in (before, after)]
    if names[0] != names[1]:
        alone: dict[Meeting, dict[str, int]] = {(number, None): shape for number, shape in before.examples.items()}
        return {**alone, **{(None, number): shape for number, shape in after.examples.items()}}
    found: dict[Meeting, dict[str, int]] = {}
    for shape in (*after.examples.values(), *before.examples.values(), *after.shapes, *before.shapes):
        found.setdefault((before.at(shape), after.at(shape)), shape)
    # A case that shapes of both sides take is told of there: that the domain grew or shrank is said of the domain.
    met = [{meeting[side] for meeting in found if None not in meeting} for side in (0, 1)]
    return {
        (old, new): shape
        for (old, new), shape in found.items()
        if not (old is None and (new is None or new in met[1])) and not (new is None and old in met[0])
    }


def _grouped(found: Iterable[Pair]) -> Iterator[Pair]:
    """Pairs that say the same: of several dtypes first, then of several cases."""
    by_dtype: dict[Any, Pair] = {}
    for pair in found:
        key = (_shape_key(pair), _said(pair))
        if key in by_dtype:
            known = by_dtype[key]
            by_dtype[key] = replace(known, dtypes=joined([*known.dtypes.split(" and "), pair.dtypes]))
        else:
            by_dtype[key] = pair
    by_case: dict[Any, Pair] = {}
    for pair in by_dtype.values():
        alike = (pair.arch, pair.dtypes, _said(pair))
        first = by_case.get(alike)
        by_case[alike] = pair if first is None else replace(first, more=first.more + 1)
    yield from by_case.values()


def _shape_key(pair: Pair) -> Any:
    return pair.arch, tuple(sorted(pair.either.shape.items())), pair.before is None, pair.after is None


def _said(pair: Pair) -> tuple[Any, ...]:
    return tuple((change.level, change.subject, change.text) for change in pair_changes(pair, where=""))


def rows(found: list[Pair]) -> tuple[BudgetRow, ...]:
    """The budget table: what lost occupancy first, then by the growth of shared memory."""

    def order(pair: Pair) -> tuple[int, int]:
        before, after = _widest(pair.before), _widest(pair.after)
        if before is None or after is None:
            return 0, 0
        return after.blocks_per_sm - before.blocks_per_sm, before.shared_bytes - after.shared_bytes

    return tuple(_row(pair) for pair in sorted(found, key=order))


def _row(pair: Pair) -> BudgetRow:
    before, after = _widest(pair.before), _widest(pair.after)
    either = after or before
    assert either is not None
    return BudgetRow(
        pair.arch,
        pair.dtypes,
        where_words(pair),
        shape_words(pair.either.shape),
        (_tile_words(pair.before, pair.after), _tile_words(pair.after, pair.before)),
        (_shared_of(before), _shared_of(after)),
        either.shared_limit,
        (before.registers if before else None, after.registers if after else None),
        (before.blocks_per_sm if before else None, after.blocks_per_sm if after else None),
        (_path(before), _path(after)),
    )


def _widest(side: Budget | None) -> LaunchBudget | None:
    """The launch that takes the most shared memory, then the most registers."""
    if side is None:
        return None
    return max(side.launches, key=lambda launch: (launch.shared_bytes, launch.registers or 0))


def _shared_of(launch: LaunchBudget | None) -> int | None:
    return None if launch is None else launch.shared_bytes + launch.static_bytes


def _path(launch: LaunchBudget | None) -> str:
    if launch is None:
        return ""
    return ", ".join(part for part in (*launch.instructions, launch.copies) if part)


def _tile_words(side: Budget | None, other: Budget | None) -> str:
    """The tile values that differ from the other side's, or all where there is none."""
    if side is None:
        return ""
    tiles = side.tiles
    if other is not None:
        tiles = {name: value for name, value in tiles.items() if other.tiles.get(name) != value}
    return ", ".join(f"{name} {value}" for name, value in tiles.items())


def where_words(pair: Pair) -> str:
    """Where a pair holds: its condition where that is short, else its shape; and how many more changed alike."""
    where = pair.either.where
    words = f"where {where}" if where and len(where) <= SHORT else f"at {shape_words(pair.either.shape)}"
    return words + (f" and {count_words(pair.more, 'more case')}" if pair.more else "")


def budget_changes(found: list[Pair]) -> Iterator[Change]:
    """The changes of all pairs; what several targets or dtypes have in common is told once."""
    told: dict[tuple[Any, ...], list[Pair]] = {}
    kept: dict[tuple[Any, ...], Change] = {}
    for pair in found:
        for change in pair_changes(pair, where=""):
            key = change.level, change.subject, change.text
            told.setdefault(key, []).append(pair)
            kept.setdefault(key, change)
    for key, change in kept.items():
        yield replace(change, where=_common(told[key], at_shape=change.subject == "grid"))


def _common(found: list[Pair], at_shape: bool) -> str:
    """The targets, dtypes and shapes that say the same. A grid is that of one shape, whatever the condition."""
    archs = joined(dict.fromkeys(pair.arch for pair in found))
    dtypes = joined(dict.fromkeys(dtype for pair in found for dtype in pair.dtypes.split(" and ")))
    total = sum(pair.more + 1 for pair in found)
    first = f"at {shape_words(found[0].either.shape)}" if at_shape else where_words(replace(found[0], more=0))
    more = f" and {count_words(total - 1, 'more case')}" if total > 1 else ""
    return f"{archs}, {dtypes}, {first}{more}"


def pair_changes(pair: Pair, where: str) -> Iterator[Change]:
    """What one pair says: launch by launch of the same name."""
    before, after = pair.before, pair.after
    if before is None or after is None:
        yield from _one_sided(pair)
        return
    old, new = ({launch_role(side, launch): launch for launch in side.launches} for side in (before, after))
    for name in dict.fromkeys((*new, *old)):
        if name in old and name in new:
            yield from launch_changes(old[name], new[name], f" of `{name}`" if name and len(new) > 1 else "")
        else:
            word = "added" if name in new else "gone"
            yield Change(Level.NOTE, "launch", f"kernel launch `{name or pair.either.kernel}` {word}", where=where)


def _one_sided(pair: Pair) -> Iterator[Change]:
    side = _widest(pair.either)
    assert side is not None
    word = "new" if pair.before is None else "no longer declared"
    registers = "unknown" if side.registers is None else side.registers
    of = {"target": pair.arch, "dtypes": pair.dtypes}.get(pair.lacks, "shapes")
    text = (
        f"{of} {word}: {side.shared_bytes + side.static_bytes:,} B shared, "
        f"{registers} registers a thread, {count_words(side.blocks_per_sm, 'block')} an SM, "
        f"{_path(side) or 'no copies to shared memory'}"
    )
    yield Change(Level.NOTE, pair.lacks, text)
