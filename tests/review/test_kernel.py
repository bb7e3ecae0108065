"""One kernel on two sides: what is told, in which order, and what is worked out for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.check.thirty import GEMM, HALF
from tests.review.history import LINEAR
from tilegen.check.report import report_on
from tilegen.plan import build
from tilegen.review.change import KernelDiff
from tilegen.review.diff import Side
from tilegen.review.kernel import changed
from tilegen.review.words import joined
from tilegen.targets import names

CHIPS = "".join(f"[target.{arch}]\n" for arch in names())
SEVEN_CHIPS = GEMM.format(name="linear", b="N K", k=1024, formula="relu(acc + bias)", dtype=HALF) + "\n" + CHIPS
AT_ODDS = LINEAR.replace("threads = 128", "threads = 512").replace("BLOCK_N = 128", "BLOCK_N = 160")
"""One WGMMA is too wide for the registers of 512 threads: two lines that cannot hold together."""


def compared(text: str, edit: tuple[str, str], *, cached: bool = False) -> KernelDiff:
    assert text.count(edit[0]) == 1
    old, new = (
        Side("specs/linear.toml", "linear", content.encode(), None, {}) for content in (text, text.replace(*edit))
    )
    return changed(old, new, cached=cached)


def subjects(found: KernelDiff) -> set[str]:
    return {change.subject for change in found.changes}


def test_targets_are_told_of_in_the_order_of_the_spec() -> None:
    found = compared(SEVEN_CHIPS, ("stages = 3", "stages = 2"))
    assert [change.where for change in found.changes if change.subject == "compile keys"] == [joined(names())]


def test_a_kernel_that_does_not_build_is_an_error_though_it_did_not_before() -> None:
    found = compared(AT_ODDS, ('doc = "relu(a @ b)"', 'doc = "a product"'))
    assert subjects(found) == {"rule", "doc", "source"}
    known = [change for change in found.changes if change.subject == "rule"]
    assert known
    assert all("still refuted, as before" in change.text and change.level.value == "error" for change in known)
    assert not any("help" in line for change in known for line in change.details)


@pytest.fixture
def looked_for(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The rules whose findings the nearest legal values were looked for."""
    from tilegen.check import findings

    rules: list[str] = []
    nearest = findings.nearest_legal

    def counted(spec: Any, result: Any, tried: Any) -> Any:
        rules.append(result.rule.id)
        return nearest(spec, result, tried)

    monkeypatch.setattr(findings, "nearest_legal", counted)
    return rules


def test_nearest_legal_values_are_looked_for_where_a_finding_is_new(looked_for: list[str]) -> None:
    found = compared(LINEAR, ("threads = 128", "threads = 96"))
    assert looked_for
    assert any("nearest legal" in line for change in found.changes for line in change.details)


def test_nearest_legal_values_are_not_looked_for_where_a_finding_is_known(looked_for: list[str]) -> None:
    compared(AT_ODDS, ('doc = "relu(a @ b)"', 'doc = "a product"'))
    assert not looked_for


HIDDEN = LINEAR.replace("BLOCK_M = 64", "BLOCK_M = 32") + '\n[allow]\nTG-D1 = "few rows"\n'


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        (AT_ODDS, ("stages = 3", "stages = 2")),
        (LINEAR, ("threads = 128", "threads = 96")),
        (HIDDEN, ("few rows", "rows are few")),
        (HIDDEN, ('TG-D1 = "few rows"', "")),
    ],
    ids=["a conflict stays", "a finding is new", "a reason changes", "a finding is no longer hidden"],
)
def test_what_a_check_has_found_is_not_looked_for_again_and_makes_no_difference(
    text: str, edit: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    anew = compared(text, edit)
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    spec = Path("specs/linear.toml")
    spec.parent.mkdir()
    for state in (text, text.replace(*edit)):
        spec.write_text(state)
        report_on(spec)
    monkeypatch.delattr("tilegen.check.checker.check")
    assert compared(text, edit, cached=True) == anew


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[Any, ...]]:
    """How often each plan was built, by its place in a spec."""
    counts: Counter[tuple[Any, ...]] = Counter()
    family_of: Callable[..., Any] = build.family_of

    class Counting:
        def __init__(self, family: Any) -> None:
            self.family = family

        def __getattr__(self, name: str) -> Any:
            return getattr(self.family, name)

        def plan(self, spec: Any, target: Any, dtypes: Any, case: Any) -> Any:
            counts[spec.sha256, target.name, tuple(dtypes.values()), str(case.tiles)] += 1
            return self.family.plan(spec, target, dtypes, case)

    monkeypatch.setattr(build, "family_of", lambda spec: Counting(family_of(spec)))
    return counts


def test_checks_budgets_and_headers_share_their_plans(built: Counter[tuple[Any, ...]]) -> None:
    compared(f"{SEVEN_CHIPS}# compared here alone\n", ("stages = 3", "stages = 2"))
    assert set(built.values()) == {1}
    two_sides, cases, dtypes = 2, 2, 2
    assert len(built) == two_sides * cases * dtypes * len(names())
