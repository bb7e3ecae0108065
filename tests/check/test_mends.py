"""What a finding offers is so: with the value in its place the finding is gone, and nothing else is newly wrong."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib import import_module
from random import Random
from typing import Any

import pytest

from tilegen.check.checker import check
from tilegen.check.examples import Example, to_toml
from tilegen.spec import Severity, SpecError, load_bytes
from tilegen.spec.diagnostic import Diagnostic
from tilegen.targets import target

OWN = re.compile(
    r"([\d and]+) (?:is|are) the nearest (?:legal )?values? of (\w+)( that ends? this; the other errors stay)?$"
)
OTHERS = re.compile(r"(?:or keep it, )?with (.*?)( it is legal| this ends; the other errors stay)?$")
PAIR = re.compile(r"the nearest legal pair is (\w+) = (\d+) with (\w+) = (\d+)$")


def offers(found: Diagnostic) -> Iterator[tuple[dict[str, int], bool]]:
    """The tile values that a finding offers, each with whether other errors stay."""
    stay = any("the other errors stay" in line for line in found.help)
    for line in found.help:
        if own := OWN.match(line):
            yield from (({own[2]: int(value)}, stay) for value in own[1].split(" and "))
        elif pair := PAIR.match(line):
            yield {pair[1]: int(pair[2]), pair[3]: int(pair[4])}, stay
        elif (others := OTHERS.match(line)) and re.fullmatch(r"\w+ = \d+( or \w+ = \d+)*", others[1]):
            for part in others[1].split(" or "):
                name, value = part.split(" = ")
                yield {name: int(value)}, stay


def diagnostics(tables: Mapping[str, Any], values: Mapping[str, int] | None = None) -> tuple[Diagnostic, ...]:
    """What is found; with values in the place of the spec's own, which need no offers in their turn, without these."""
    changed = copy.deepcopy(dict(tables))
    changed["tile"] = {**changed.get("tile", {}), **(values or {})}
    return check(load_bytes(to_toml(changed).encode(), "mend.toml"), mends=lambda _: values is None).diagnostics


def codes(found: tuple[Diagnostic, ...], severity: Severity) -> set[str]:
    return {entry.code for entry in found if entry.severity is severity}


def wrong(tables: Mapping[str, Any]) -> tuple[int, list[str]]:
    """How many values are offered for a spec, and those that do not keep what the offer says."""
    now, count, bad = diagnostics(tables), 0, []
    for found in now:
        for values, stay in offers(found):
            count += 1
            then = diagnostics(tables, values)
            left = codes(now, Severity.ERROR) if stay else set()
            if found.code in codes(then, found.severity) or not codes(then, Severity.ERROR) <= left:
                bad.append(f"{found.code}: {values} leaves {[entry.code for entry in then]}")
    return count, bad


SETS = [(family, arch) for family in ("gemm", "row_norm", "attention") for arch in ("sm_90a", "sm_80")]
SPECS = 14


@pytest.mark.parametrize(("family", "arch"), SETS)
def test_what_is_offered_for_a_random_spec_ends_the_finding(family: str, arch: str) -> None:
    random, total = Random(f"mends {family} {arch}"), 0
    for _ in range(SPECS):
        tables = import_module(f"tilegen.families.{family}.samples").random_spec(random, target(arch))
        try:
            count, bad = wrong(tables)
        except SpecError:
            continue
        total += count
        assert not bad, tables
    assert total


def spec(of: str, change: dict[str, Any]) -> dict[str, Any]:
    return tomllib.loads(Example("", True, of, change, "").spec().decode())


MLA = "attention/mla_decode"
SPLIT_LATER = {"schedule": "plain", "dims": {"D_nope": {"values": [256]}}, "tile": {"threads": 512, "num_split": 1}}
CASES: list[tuple[str, str, dict[str, Any], str, str]] = [
    (
        "an error that another parameter causes does not hide what ends this one",
        "gemm",
        {"tile": {"BLOCK_K": 24, "threads": 160}},
        "TG-A4",
        "128 and 256 are the nearest values of threads that end this; the other errors stay",
    ),
    (
        "and is itself seen at once",
        "gemm",
        {"tile": {"BLOCK_K": 24, "threads": 160}},
        "TG-D8",
        "16 and 32 are the nearest values of BLOCK_K that end this; the other errors stay",
    ),
    (
        "what no tile value ends is not called legal",
        "gemm",
        {"schedule": "stream_k", "dims": {"N": {"values": [4100]}}, "tile": {"BLOCK_M": 192, "threads": 384}},
        "TG-S5",
        "that ends this; the other errors stay",
    ),
    (
        "a call may split the keys of a spec that does not: what is offered holds then too",
        MLA,
        SPLIT_LATER,
        "TG-E15",
        "256 is the nearest legal value of threads",
    ),
    (
        "a number of stages that is tried counts as given",
        "gemm",
        {"tile": {"BLOCK_M": 128, "BLOCK_N": 64, "threads": 128, "stages": 5}, "target": {"sm_80": {}}},
        "TG-J8",
        "3 is the nearest legal value of stages",
    ),
    (
        "threads that share a row in chunks are at fault, not its chunk",
        "row_norm",
        {"schedule": "two_pass", "dims": {"C": {"values": [65_536]}}, "tile": {"BLOCK_C": 6144, "threads": 96}},
        "TG-F18",
        "64 and 128 are the nearest legal values of threads",
    ),
]


@pytest.mark.parametrize(("what", "of", "change", "code", "says"), CASES, ids=[case[0] for case in CASES])
def test_an_offer(what: str, of: str, change: dict[str, Any], code: str, says: str) -> None:
    tables = spec(of, change)
    (found,) = [entry for entry in diagnostics(tables) if entry.code == code]
    assert any(says in line for line in found.help), found.help
    assert wrong(tables)[1] == []
