"""A value that was reckoned for one chip serves for another exactly where both are the same in what was read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from tilegen.targets import Target, names, target
from tilegen.targets.facts import ByFacts, answer, bare, watch

READS: dict[str, Callable[[Target], Any]] = {
    "a value of a record": lambda chip: chip.launch.max_threads_per_sm,
    "a plain value": lambda chip: chip.kind,
    "whether a record is there": lambda chip: chip.tma is not None,
    "whether a record counts as true": lambda chip: bool(chip.tma),
    "a value of a record that may be missing": lambda chip: chip.tma.max_box if chip.tma is not None else 0,
    "an answer": lambda chip: chip.instruction("wgmma", "float16"),
    "another answer": lambda chip: chip.multiplies("float8_e4m3", "float32"),
    "a property": lambda chip: chip.part.sm_count,
    "one or another": lambda chip: chip.launch.warp_group_size if chip.tma else chip.shared_memory.per_sm,
    "the chip as a key": lambda chip: {chip: 1}[chip] and chip.name,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_every_chip_gets_what_it_would_alone_and_alike_ones_are_asked_once(read: Callable[[Target], Any]) -> None:
    asked: list[str] = []

    def reckon(chip: Target) -> Any:
        asked.append(bare(chip).name)
        return read(chip)

    values: ByFacts[Any] = ByFacts()
    found = {name: values.of("key", target(name), reckon) for name in names()}
    assert found == {name: read(target(name)) for name in names()}
    if read is not READS["one or another"]:
        assert len(asked) == len({repr(value) for value in found.values()})


def test_what_a_shared_value_read_counts_as_read_by_whoever_asked_for_it() -> None:
    inner: ByFacts[int] = ByFacts()
    outer: ByFacts[int] = ByFacts()

    def count(chip: Target) -> int:
        return inner.of("SMs", chip, lambda shown: shown.part.sm_count)

    first, second = target("sm_80"), target("sm_90a")
    inner.of("SMs", first, lambda shown: shown.part.sm_count)
    assert outer.of("a", first, count) == first.part.sm_count
    assert outer.of("a", second, count) == second.part.sm_count != first.part.sm_count


def test_chips_of_one_name_are_told_apart() -> None:
    chip = target("sm_90a")
    smaller = replace(chip, launch=replace(chip.launch, max_threads_per_block=512))
    values: ByFacts[int] = ByFacts()
    assert [values.of("a", each, lambda shown: shown.launch.max_threads_per_block) for each in (chip, smaller)] == [
        1024,
        512,
    ]


def test_a_watched_chip_says_what_was_read() -> None:
    shown, watched = watch(target("sm_90a"))
    assert shown.copy.vector_bytes == 16
    assert shown.takes("float16")
    assert watched.facts == {("copy",), ("copy", "vector_bytes"), ("takes", ("float16",))}
    watched.facts.clear()
    assert shown.copy is not None
    assert watched.facts == {("copy",)}, "what was read before counts again"


def shares_out(chip: Target, threads: int) -> bool:
    return threads % chip.launch.warp_size == 0


def test_what_is_asked_of_a_chip_is_one_fact_whatever_it_reads() -> None:
    shown, watched = watch(target("sm_90a"))
    assert answer(shown, shares_out, 128) is True
    assert watched.facts == {(shares_out, (128,))}
    assert answer(target("gfx942"), shares_out, 96) is False


def test_chips_that_answer_alike_share_a_value_though_they_differ_in_what_decides() -> None:
    asked: list[str] = []

    def reckon(threads: int) -> Callable[[Target], bool]:
        def reckoned(chip: Target) -> bool:
            asked.append(bare(chip).name)
            return answer(chip, shares_out, threads)

        return reckoned

    values: ByFacts[bool] = ByFacts()
    assert all(values.of(128, target(name), reckon(128)) for name in names())
    assert asked == [names()[0]]
    found = {name: values.of(96, target(name), reckon(96)) for name in names()}
    assert found == {name: 96 % target(name).launch.warp_size == 0 for name in names()}
    assert len(asked) == 3, "waves have 64 threads"


def test_all_that_a_chip_has_can_be_read_of_a_watched_one() -> None:
    for name in names():
        chip, (shown, _) = target(name), watch(target(name))
        for field in fields(chip):
            value, seen = getattr(chip, field.name), getattr(shown, field.name)
            if is_dataclass(value):
                assert all(getattr(seen, each.name) == getattr(value, each.name) for each in fields(value))
            else:
                assert seen == value
