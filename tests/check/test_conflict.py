"""A conflict names the lines that cannot hold together, and none that could go and change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tilegen.check.alternatives import alternative, candidates, parts
from tilegen.check.checker import check, settle
from tilegen.check.examples import Example
from tilegen.check.nearest import nearest_legal
from tilegen.check.prover import Status
from tilegen.spec import Severity, Spec, load, load_bytes

FOLDER = Path(__file__).parent / "broken"


def gemm(change: dict[str, Any]) -> Spec:
    return load_bytes(Example("", True, "gemm", change, "").spec(), "conflict.toml")


def conflict(spec: Spec, code: str) -> tuple[str, ...]:
    refuted = (
        result
        for _, results in settle(spec)
        for result in results
        if result.rule.code == code and result.outcome.status is Status.REFUTED
    )
    return nearest_legal(spec, next(refuted)).conflict


def test_rows_take_no_part_where_only_columns_and_threads_clash() -> None:
    spec = load(FOLDER / "one_wgmma_too_wide_for_512_threads.toml")
    assert conflict(spec, "TG-D24") == ("threads", "BLOCK_N")


def test_every_factor_of_shared_memory_takes_part() -> None:
    spec = load(FOLDER / "shared_memory_over.toml")
    assert set(conflict(spec, "TG-B1")) == {"stages", "BLOCK_M", "BLOCK_K", "BLOCK_N"}


def test_one_value_at_fault_alone_is_no_conflict_of_lines() -> None:
    assert conflict(gemm({"tile": {"BLOCK_M": 96}}), "TG-D3") == ()
    assert conflict(gemm({"tile": {"BLOCK_K": 24}}), "TG-D8") == ()


@pytest.mark.parametrize("name", ["stages", "BLOCK_M", "BLOCK_K", "BLOCK_N"])
def test_each_line_of_a_minimal_conflict_could_end_it(name: str) -> None:
    """Minimal: with any one of the lines let go, some value near its own is legal."""
    spec = load(FOLDER / "shared_memory_over.toml")
    arch = next(
        entry.arch
        for entry in spec.targets
        if any(found.severity is Severity.ERROR for found in check(spec).diagnostics)
    )
    (part,) = parts(spec, arch, name)
    tried = (alternative(spec, arch, part, name, value) for value in candidates(spec, name, part.value))
    assert any(other.legal for other in tried)


def test_the_finding_shows_the_lines() -> None:
    spec = load(FOLDER / "one_wgmma_too_wide_for_512_threads.toml")
    (found,) = [entry for entry in check(spec).diagnostics if entry.code == "TG-D24"]
    assert "cannot hold together: threads = 512, BLOCK_N = 160" in found.notes
    assert [spec.span("tile.BLOCK_N")] == [span for span, _ in found.related]
