"""How long checks take, in measures that other work on the machine does not change much."""

from __future__ import annotations

import cProfile
import os
import pstats
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.check.thirty import write
from tilegen.check.checker import plans
from tilegen.check.domain import Domain, domain_of
from tilegen.check.prover import Status, prove
from tilegen.check.report import report_of
from tilegen.check.rule import rules
from tilegen.expr import Range, parse_condition
from tilegen.spec import load
from tilegen.spec.find import specs_in

ROOT = Path(__file__).parents[2]
PATHOLOGICAL = (
    "M ** 5 + K ** 5 + C ** 5 != N ** 5 + 7 * M * K * C * N + 1",
    "M * N * K % 1009 != 17 or C * C * C == M * N",
    "(M * K) // (N + 1) * C <= M * N + K ** 3 + 1_000_000_007",
)


def unit() -> float:
    """Seconds that this machine takes now for a fixed piece of Python: what idle cores do in 0.1 s."""
    started = time.process_time()
    sum(i * i % 7 for i in range(1_250_000))
    return time.process_time() - started


CALLS = 2_250_000
"""Python calls that checking thirty specs for seven targets may make: 0.8 s of one core (2.04 million were counted), so
0.4 s on two, beside 0.6 s of imports. Calls are counted, for seconds depend on what else the machine does."""


@pytest.mark.slow
def test_thirty_specs_with_seven_targets_take_so_many_calls(tmp_path: Path) -> None:
    paths = write(tmp_path)
    assert len(paths) == 30
    report_of("warm.toml", paths[0].read_bytes())  # what is imported once
    profile = cProfile.Profile()
    profile.enable()
    reports = [report_of(str(path), path.read_bytes()) for path in paths]
    profile.disable()
    assert sum(report.plans for report in reports) > 800
    assert not any(report.fails(strict=True) for report in reports)
    assert pstats.Stats(profile).total_calls < CALLS  # type: ignore[attr-defined]


def test_a_known_verdict_needs_neither_sympy_nor_the_checker(tmp_path: Path) -> None:
    """Which is what keeps a second run of thirty specs under half a second."""
    (tmp_path / "specs").mkdir()
    write(tmp_path / "specs")
    environment = {**os.environ, "TILEGEN_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    spec = str(tmp_path / "specs" / "norm_0.toml")
    code = (
        "import sys; from tilegen.cli import main; main(['check', sys.argv[1]], standalone_mode=False); "
        "print([m for m in ('sympy', 'z3', 'pydantic', 'tilegen.check.checker') if m in sys.modules])"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code, spec], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert "sympy" in said[0]
    assert "pydantic" not in said[0]
    assert said[1].splitlines()[-1] == "[]"


@pytest.mark.slow
def test_no_obligation_takes_a_fifth_of_a_second() -> None:
    prove(parse_condition("M % 7 == M * M", ("M",)), Domain({"M": Range(1, 2**40)}))  # loads the solver
    slowest = 0.0
    for path in specs_in(ROOT / "specs"):
        spec = load(path)
        for plan in plans(spec):
            region = domain_of(spec).restricted(plan.case.condition)
            for rule in rules():
                for obligation in rule.obligations(plan):
                    started = time.process_time()
                    prove(obligation.claim, region)
                    slowest = max(slowest, time.process_time() - started)
    assert slowest < 0.2


@pytest.mark.parametrize("text", PATHOLOGICAL)
def test_a_pathological_claim_is_given_up_in_time(text: str) -> None:
    """Undecided, or refuted by a point that was tried; never longer than the limit of work allows."""
    wide = Domain({name: Range(1, 2**40) for name in "MNKC"})
    claim = parse_condition(text, tuple("MNKC"))
    prove(parse_condition("M % 7 == M * M", ("M",)), wide)  # loads the solver
    started = time.process_time()
    outcome = prove(claim, wide)
    assert outcome.status is not Status.PROVED
    assert (time.process_time() - started) * 0.1 / unit() < 0.6
