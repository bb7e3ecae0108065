"""Which facts of a chip an answer hangs on: it is the same on every chip of which they are the same.

A spec for seven chips has most of its plans, and most of what the rules say of them, on several. What is reckoned for one
is reckoned with a chip that notes what is read of it, and serves for the others that are the same in that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Generic, TypeVar, cast

from tilegen.targets import Target

Fact = tuple[Any, ...]
"""``("shared_memory", "per_block")``, or ``("instruction", ("wgmma", "float16"))`` where it is asked with arguments. A
record alone, ``("tma",)``, says only whether it is there. ``(question, (64, 128))`` is what a function says of the chip."""

Value = TypeVar("Value")


class WatchedTarget:
    """A chip that notes in ``facts`` what is read of it; to readers it is a `Target`.

    What it has is made below, of what a `Target` has: attributes that are found cost a tenth of ones that are missed first.
    """

    def __init__(self, chip: Target) -> None:
        self.chip = chip
        self.facts: set[Fact] = set()

    def __eq__(self, other: object) -> bool:
        return bool(self.name == getattr(other, "name", None))  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.name)  # type: ignore[attr-defined]


def _value(name: str) -> property:
    """An attribute of a chip, noted; of a record, what is read of it is noted too."""
    fact, shown = (name,), f"_{name}"

    def read(watched: WatchedTarget) -> Any:
        watched.facts.add(fact)
        known = watched.__dict__
        if shown not in known:
            value = getattr(watched.chip, name)
            kind: type = type(value)
            known[shown] = _watched_kind(kind, name)(value, watched.facts) if is_dataclass(kind) else value
        return known[shown]

    return property(read)


def _answer(name: str) -> Callable[..., Any]:
    """A method of a chip, noted with what it was asked."""

    def asked(watched: WatchedTarget, *arguments: Any) -> Any:
        watched.facts.add((name, arguments))
        return getattr(watched.chip, name)(*arguments)

    return asked


class _WatchedRecord:
    def __init__(self, record: Any, facts: set[Fact]) -> None:
        self._record, self._facts = record, facts


def _value_of_record(record: str, name: str) -> property:
    fact = record, name

    def read(watched: _WatchedRecord) -> Any:
        watched._facts.add(fact)
        return getattr(watched._record, name)

    return property(read)


@cache
def _watched_kind(kind: type, name: str) -> type[_WatchedRecord]:
    """The record ``name`` of a chip, watched."""
    values = {field.name: _value_of_record(name, field.name) for field in fields(kind)}
    return type(f"_Watched{kind.__name__}", (_WatchedRecord,), values)


for _name in (*(field.name for field in fields(Target)), *(name for name in vars(Target) if not name.startswith("_"))):
    setattr(WatchedTarget, _name, _answer(_name) if callable(getattr(Target, _name, None)) else _value(_name))


def watch(chip: Target) -> tuple[Target, WatchedTarget]:
    """A chip to hand to what reads it, and the same one to ask what was read."""
    watched = WatchedTarget(bare(chip))
    return cast(Target, watched), watched


def answer(chip: Target, question: Callable[..., Value], *arguments: Hashable) -> Value:
    """What ``question(chip, *arguments)`` gives. For who watches the chip it is one fact, whatever the question reads: chips
    of which it gives the same are alike. It must hang on nothing else.
    """
    if isinstance(chip, WatchedTarget):
        chip.facts.add((question, arguments))
        chip = chip.chip
    return question(chip, *arguments)


def bare(chip: Target) -> Target:
    """The chip itself, where it may be a watched one."""
    return chip.chip if isinstance(chip, WatchedTarget) else chip


MOST_FACTS = 65_536
"""That two chips are known to have the same, or not: sizes are part of questions, and there is no end of them."""


class _Pair:
    """What two chips have the same, and what not, as far as it was asked."""

    def __init__(self, one: Target, other: Target) -> None:
        self.one, self.other = one, other
        self.same: set[Fact] = set()
        self.different: set[Fact] = set()

    def alike(self, facts: AbstractSet[Fact]) -> bool:
        if len(self.same) + len(self.different) > MOST_FACTS:
            self.same.clear()
            self.different.clear()
        for fact in facts - self.same - self.different:
            (self.same if _read(self.one, fact) == _read(self.other, fact) else self.different).add(fact)
        return self.different.isdisjoint(facts)


class _Likeness:
    """Says of other chips whether they are the same as this one in some facts."""

    def __init__(self, chip: Target) -> None:
        self.chip = chip
        self._pairs: dict[int, _Pair] = {}

    def __call__(self, other: Target, facts: AbstractSet[Fact]) -> bool:
        if other is self.chip:
            return True
        pair = self._pairs.get(id(other))  # which the pair keeps alive
        if pair is None:
            pair = self._pairs[id(other)] = _Pair(self.chip, other)
        return facts <= pair.same or pair.alike(facts)


_likeness: dict[int, _Likeness] = {}


def likeness(chip: Target) -> _Likeness:
    """What says whether others are as this chip."""
    found = _likeness.get(id(chip))  # which it keeps alive
    if found is None:
        found = _likeness[id(chip)] = _Likeness(chip)
    return found


def _read(chip: Target, fact: Fact) -> Any:
    if callable(fact[0]):
        return fact[0](chip, *fact[1])
    value = getattr(chip, fact[0])
    if len(fact) == 1:
        return THERE if is_dataclass(value) else value
    if isinstance(fact[1], tuple):
        return value(*fact[1])
    return getattr(value, fact[1], None)


THERE = object()


class ByFacts(Generic[Value]):
    """Values that were reckoned for chips: of one key, one value for all chips that it finds alike."""

    def __init__(self) -> None:
        self._known: dict[Hashable, list[tuple[Target, frozenset[Fact], Value]]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, key: Hashable, chip: Target, reckon: Callable[[Target], Value]) -> Value:
        """What ``reckon`` gives for a chip. ``key`` holds whatever else the value hangs on."""
        plain = bare(chip)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = []
        for entry in known:
            if entry[0] is plain or likeness(plain)(entry[0], entry[1]):
                break
        else:
            shown, watched = watch(plain)
            value = reckon(shown)
            entry = plain, frozenset(watched.facts), value
            known.append(entry)
        if isinstance(chip, WatchedTarget):
            chip.facts.update(entry[1])
        return entry[2]
