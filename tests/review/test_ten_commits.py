"""Each of ten commits is told as what it is. The whole text is pinned in ``expected/``; ``python -m tests.review.pin``
writes it anew, to be read before it is committed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.review.history import COMMITS
from tests.review.pin import told
from tilegen.cli import main

EXPECTED = Path(__file__).parent / "expected"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["diff", *arguments], catch_exceptions=False)


def changes(name: str) -> dict[str, Any]:
    """The single kernel of a commit, as JSON, with the exit code."""
    result = run(f"{name}~1", name, "--format", "json")
    (kernel,) = json.loads(result.stdout)["kernels"]
    return {**kernel, "exit": result.exit_code}


def said(kernel: dict[str, Any], subject: str) -> list[dict[str, Any]]:
    return [change for change in kernel["changes"] if change["subject"] == subject]


@pytest.mark.parametrize("name", COMMITS)
def test_a_commit_is_told_as_pinned(repository: Path, name: str) -> None:
    assert told(name) == (EXPECTED / f"{name}.txt").read_text()


def test_the_source_is_shown_on_demand_without_what_is_only_header(repository: Path) -> None:
    shown = run("swizzle_changed~1", "swizzle_changed", "--source").stdout
    changed = [line.strip() for line in shown.splitlines() if line.startswith(("  +", "  -"))]
    assert changed == ['-            T.use_swizzle(10, order="row")', '+            T.use_swizzle(8, order="column")']


def test_a_rename_is_no_addition_and_no_removal(repository: Path) -> None:
    kernel = changes("harmless_rename")
    assert (kernel["status"], kernel["was"], kernel["kernel"]) == ("renamed", "linear", "linear_relu")
    assert kernel["level"] == "note"
    assert kernel["exit"] == 0


def test_a_tile_that_halves_occupancy_says_so_with_the_bytes_of_each_buffer(repository: Path) -> None:
    kernel = changes("tile_that_halves_occupancy")
    (occupancy,) = said(kernel, "occupancy")
    # 64 x 64 + 64 x 128 halves in 3 stages are 73,728 B, twice that with 128; an SM has 228 KB.
    assert (occupancy["before"], occupancy["after"], occupancy["level"]) == (2, 1, "warning")
    (shared,) = said(kernel, "shared memory")
    assert shared["after"] - shared["before"] == 73_728
    assert len(shared["details"]) == 2


def test_a_rename_does_not_hide_what_else_changed(repository: Path) -> None:
    result = run("start", "tile_that_halves_occupancy", "--format", "json")
    (kernel,) = json.loads(result.stdout)["kernels"]
    assert kernel["status"] == "renamed"
    (occupancy,) = said(kernel, "occupancy")
    assert "2 → 1 (halved)" in occupancy["text"]
    (source,) = said(kernel, "source")
    assert source["text"].startswith("generated code: kernel.py (+1 -1)")


def test_a_domain_widened_past_a_proof_names_the_rule_and_a_counterexample(repository: Path) -> None:
    kernel = changes("domain_widened_past_a_proof")
    (rule,) = said(kernel, "rule")
    assert "TG-A5" in rule["text"]
    assert "newly refuted" in rule["text"]
    # 64 rows a block, 65,535 blocks along y: the first row that does not fit.
    assert f"smallest: M = {64 * 65_535 + 1}" in rule["details"]
    assert rule["line"] == 8
    assert said(kernel, "domain")[0]["text"].startswith("M wider")
    assert kernel["exit"] == 1


def test_a_tolerance_by_hand_is_an_error_with_its_reason(repository: Path) -> None:
    kernel = changes("tolerance_loosened")
    assert kernel["changes"][0]["subject"] == "tolerance"
    assert kernel["changes"][0]["level"] == "error"
    assert kernel["changes"][0]["details"] == ["reason given: a flaky test"]
    assert kernel["exit"] == 1


def test_an_added_dtype_says_what_it_costs_and_how_many_keys_it_adds(repository: Path) -> None:
    kernel = changes("dtype_added")
    assert any("bfloat16 new: " in change["text"] for change in said(kernel, "dtypes"))
    (keys,) = said(kernel, "compile keys")
    assert (keys["before"], keys["after"]) == (4, 8)
    assert kernel["level"] == "note"


def test_a_changed_swizzle_costs_nothing(repository: Path) -> None:
    kernel = changes("swizzle_changed")
    known, *others = kernel["changes"]
    assert known["text"].startswith("TG-A5 grid-limits still refuted, as before")  # since a commit before
    assert {change["subject"] for change in others} == {"tile", "source"}
    assert {change["level"] for change in others} == {"note"}


def test_an_illegal_policy_is_an_error_on_its_line_with_the_edit(repository: Path) -> None:
    kernel = changes("illegal_policy")
    error, edit = kernel["changes"]
    assert (error["level"], error["line"]) == ("error", 27)
    assert edit["text"] == "tile.policy: 'square' → 'col'"
    assert kernel["exit"] == 1


def test_a_comment_changes_no_kernel(repository: Path) -> None:
    kernel = changes("comment_only")
    assert [change["subject"] for change in kernel["changes"]] == ["comments"]
    assert kernel["exit"] == 0


def test_a_slower_winner_is_a_warning_with_both_ratios_and_what_it_costs(repository: Path) -> None:
    kernel = changes("tuned_lock_changed")
    (change,) = said(kernel, "tuned")
    assert change["level"] == "warning"
    assert change["text"] == "winner: BLOCK_C 64 → BLOCK_C 128; ratio 1.04 → 1.01"
    assert change["where"] == "sm_90a, M <= 1024"
    (row,) = kernel["budgets"]
    assert row["where"].startswith("where M <= 1024")
    assert row["registers"][0] != row["registers"][1]


def test_a_deleted_spec_is_a_removed_kernel(repository: Path) -> None:
    kernel = changes("spec_deleted")
    assert (kernel["status"], kernel["kernel"], kernel["level"]) == ("removed", "norm_silu", "warning")


def test_fail_on_decides_the_exit_code(repository: Path) -> None:
    def code(level: str) -> int:
        return run("spec_deleted~1", "spec_deleted", "--fail-on", level).exit_code

    assert [code(level) for level in ("never", "error", "warning", "note")] == [0, 0, 1, 1]


def test_a_loosened_number_is_told_with_its_factor() -> None:
    from tilegen.review.compare import _tolerance_parts

    old = {"atol": 1e-3, "rtol": None, "reason": "r"}
    (looser,) = _tolerance_parts(old, {**old, "atol": 4e-3}, "reason given: r")
    assert (looser.level.value, looser.text) == ("error", "tolerance loosened: atol: 0.001 → 0.004 (4 times)")
    (tighter,) = _tolerance_parts(old, {**old, "atol": 1e-4}, "reason given: r")
    assert tighter.level.value == "note"
