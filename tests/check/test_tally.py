"""Counting what is proved, chip by chip, gives what settling every obligation of every plan gives."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.check.thirty import write
from tilegen.check.checker import plans, settle, settle_spec, tally
from tilegen.check.result import Result
from tilegen.check.rule import find_rule, rules
from tilegen.plan.roles import in_roles
from tilegen.spec import load
from tilegen.targets import names
from tilegen.targets import target as chip

CHIPS = 7

EDITS = {
    "gemm_0": {
        "as it is": ("", ""),
        "tiles that no warps share": ("threads = 128", "threads = 96"),
        "more shared memory than small chips have": ("stages = 3", "stages = 8"),
        "too many blocks": ("max = 1_048_576", "max = 1_099_511_627_776"),
    },
    "norm_0": {
        "as it is": ("", ""),
        "rows that spill": ("C <= 4096", "C <= 65536"),
        "lanes that are no power of two": ("use = 64,", "use = 96,"),
    },
    "decode_0": {
        "as it is": ("", ""),
        "two stages": ("stages = 1", "stages = 2"),
        "more heads than a block has": ("BLOCK_H = 16", "BLOCK_H = 64"),
    },
}


def spec_file(folder: Path, name: str, edit: tuple[str, str] = ("", "")) -> Path:
    write(folder)
    path = folder / f"{name}.toml"
    path.write_text(path.read_text().replace(*edit))
    return path


def plain(result: Result) -> tuple[object, ...]:
    obligation, outcome = result.obligation, result.outcome
    label = obligation.explain(outcome.counterexample)
    return result.rule.id, obligation.at, label, obligation.advice(), outcome, result.arch, result.dtypes, result.case


@pytest.mark.parametrize(("name", "what"), [(name, what) for name, edits in EDITS.items() for what in edits])
def test_a_tally_is_what_every_plan_by_itself_comes_to(tmp_path: Path, name: str, what: str) -> None:
    spec = load(spec_file(tmp_path, name, EDITS[name][what]))
    results = [*settle_spec(spec), *(result for _, settled in settle(spec) for result in settled)]
    found = tally(spec)
    assert found.rules == by_rule(results)
    assert found.methods == Counter(result.outcome.method for result in results)
    assert [plain(result) for result in found.open] == [plain(r) for r in results if not r.outcome.proved]
    assert found.plans == len(list(plans(spec))) == len(list(settle(spec)))
    if what != "as it is":
        assert found.open, "the edit breaks no rule"


def by_rule(results: list[Result]) -> dict[str, dict[str, int]]:
    counts = Counter((result.rule.code, result.outcome.status.value) for result in results)
    return {
        result.rule.code: {word: counts[result.rule.code, word] for word in ("proved", "refuted", "undecided")}
        for result in results
    }


def asked(monkeypatch: pytest.MonkeyPatch, path: Path) -> Counter[str]:
    """How often a tally of the spec asks each rule."""
    counts: Counter[str] = Counter()

    def counting(rule):
        def obligations(plan):
            counts[rule.id] += 1
            yield from rule.obligations(plan)

        return replace(rule, obligations=obligations)

    counted = tuple(counting(rule) for rule in rules())
    monkeypatch.setattr("tilegen.check.checker.rules", lambda: counted)
    tally(load(path))
    return counts


def test_a_rule_of_the_program_alone_is_asked_once_for_all_chips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = spec_file(tmp_path, "norm_0")
    each = asked(monkeypatch, path)
    programs = len(list(plans(load(path)))) // CHIPS
    assert each["F19"] == each["F8"] == each["N3"] == programs


def test_a_rule_that_looks_at_the_chip_is_asked_where_chips_differ_in_what_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = spec_file(tmp_path, "norm_0")
    each = asked(monkeypatch, path)
    every = len(list(plans(load(path))))
    sms = {target.part.sm_count for target in map(chip, names())}
    threads = {target.launch.max_threads_per_block for target in map(chip, names())}
    assert each["J9"] == every * len(sms) // CHIPS
    assert each["A2"] == every * len(threads) // CHIPS < each["B1"] < every


def test_a_rule_that_fails_is_asked_of_every_chip_though_it_did_not_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its finding names the chips that it is true of."""
    path = spec_file(tmp_path, "norm_0", ("C % 32 == 0", "C % 4 == 0"))
    each = asked(monkeypatch, path)
    rule = find_rule("F19")
    assert rule is not None
    assert each["F19"] == len(list(plans(load(path))))


def test_cases_with_one_tile_program_are_asked_once_what_does_not_hang_on_the_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that does not split the keys is the same for any number of splits."""
    path = spec_file(tmp_path, "decode_0")
    each = asked(monkeypatch, path)
    spec = load(path)
    programs = {(str(plan.dtypes), str(plan.kernels)) for whole in plans(spec) for plan in in_roles(whole)}
    cases = {(str(plan.dtypes), str(plan.case)) for whole in plans(spec) for plan in in_roles(whole)}
    assert len(programs) < len(cases)
    assert each["D10"] == each["D8"] == len(programs)
    assert each["H2"] == len(cases), "a condition decides what a claim over dims comes to"


def test_a_product_that_no_chip_refuses_is_asked_about_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chips with different instructions are alike in what the rule asks of them."""
    path = spec_file(tmp_path, "decode_0")
    each = asked(monkeypatch, path)
    assert each["D3"] == each["D4"] == each["D24"] == each["D10"]
