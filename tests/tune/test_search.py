"""The search with planted times and faults: workers are real processes, only the GPU is not."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tune.planted import seconds_of
from tilegen.tune.candidate import Candidate
from tilegen.tune.isolated import CandidateError, Isolated
from tilegen.tune.journal import Journal
from tilegen.tune.search import Limits, search

DEFAULT = Candidate({"schedule": "plain", "stages": 4}, 1.0)
CANDIDATES = [Candidate({"schedule": "plain", "stages": stages}, 1.0) for stages in (9, 6, 7, 8, 5)]
LIMITS = Limits(budget_s=60, compile_s=2, measure_s=2)


def run(tmp_path, planted=None, candidates=CANDIDATES, limits=LIMITS, **config):
    config = {"planted": planted or {}, "log": str(tmp_path / "log"), **config}
    bench = Isolated("tests.tune.planted:Bench", config)
    compilers = [Isolated("tests.tune.planted:Bench", config) for _ in range(2)]
    try:
        return search(
            DEFAULT,
            candidates,
            compilers=compilers,
            bench=bench,
            journal=Journal(tmp_path / "journal.jsonl"),
            limits=limits,
        )
    finally:
        bench.close()


def log(tmp_path):
    return (tmp_path / "log").read_text().splitlines()


def test_the_fastest_wins_with_its_ratio_to_the_default(tmp_path):
    found = run(tmp_path)
    assert found.winner.candidate.tiles["stages"] == 7
    assert found.winner.ratio == pytest.approx(seconds_of({"stages": 4}) / seconds_of({"stages": 7}))
    assert found.complete
    assert [outcome.ratio for outcome in found.outcomes] == pytest.approx([40 / 30, 40 / 20, 40 / 10, 40 / 20, 40 / 30])


FAULTS = [
    "compile hangs",
    "compile crashes",
    "compile raises",
    "measure hangs",
    "measure crashes",
    "measure exits",
    "measure raises",
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_candidate_that_fails_costs_only_itself(tmp_path, fault):
    found = run(tmp_path, {"7": fault})
    (failed,) = [outcome for outcome in found.outcomes if outcome.ratio is None]
    assert failed.candidate.tiles["stages"] == 7
    assert failed.failed
    assert found.complete
    assert found.winner.candidate.tiles["stages"] == 6, (
        "of two that are equally fast, the one that the model puts first"
    )


def test_a_hang_and_a_crash_together_do_not_stop_it(tmp_path):
    found = run(tmp_path, {"7": "measure hangs", "6": "measure crashes", "9": "compile hangs"})
    assert found.winner.candidate.tiles["stages"] == 8
    assert sum(outcome.ratio is None for outcome in found.outcomes) == 3


def test_a_default_that_fails_is_an_error(tmp_path):
    with pytest.raises(CandidateError, match="the tiling of the spec itself: ValueError: planted"):
        run(tmp_path, {"4": "compile raises"})


def test_nothing_that_is_less_than_a_hundredth_faster_wins(tmp_path):
    same = [Candidate({"schedule": "plain", "stages": 4, "group_m": 8}, 1.0)]
    found = run(tmp_path, candidates=same)
    assert found.winner is None
    assert found.outcomes[0].ratio == pytest.approx(1)


def test_a_finished_search_answers_from_its_journal(tmp_path):
    first = run(tmp_path)
    compiled = len(log(tmp_path))
    again = run(tmp_path)
    assert again == first
    assert not [line for line in log(tmp_path)[compiled:] if line.startswith("measure")], "nothing is measured twice"


def test_a_failure_is_remembered(tmp_path):
    run(tmp_path, {"7": "compile hangs", "8": "measure crashes"})
    before = len(log(tmp_path))
    run(tmp_path, {"7": "compile hangs", "8": "measure crashes"})
    assert "compile 7" not in log(tmp_path)[before:]


def test_a_search_out_of_time_keeps_what_it_has_and_says_that_it_is_incomplete(tmp_path):
    found = run(tmp_path, limits=Limits(budget_s=2.5, compile_s=5, measure_s=5), slow=0.9)
    assert not found.complete
    assert len(found.outcomes) < len(CANDIDATES)


SCRIPT = """
import sys
from pathlib import Path
from tests.tune.test_search import run
run(Path(sys.argv[1]), {"9": "compile raises"}, slow=0.4)
"""


def test_a_search_that_is_killed_and_begun_again_has_the_same_winner(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir(), killed.mkdir()
    expected = run(whole, {"9": "compile raises"})
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(killed)], cwd=Path(__file__).parent.parent.parent)
    ends = time.monotonic() + 60
    while time.monotonic() < ends and len(screened(killed)) < 2:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = screened(killed)
    assert 2 <= len(before) < 4, "killed half-way"
    found = run(killed, {"9": "compile raises"})
    assert found == expected
    measured = [line for line in log(killed) if line.startswith("measure") and len(line.split()) == 3]
    assert all(measured.count(line) == 1 for line in measured if line.split()[2] in before)


def screened(folder):
    """The stages of the candidates that a journal has a measurement of."""
    path = folder / "journal.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    events = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    return {str(json.loads(event["candidate"])["stages"]) for event in events if event["step"] == "screen"}


def test_a_line_that_a_kill_cut_short_is_dropped(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.add("screen", "a", failed="", ratios=[1.5])
    with path.open("a") as file:
        file.write('{"step": "screen", "cand')
    Journal(path).add("screen", "b", failed="")
    again = Journal(path)
    assert again.get("screen", "a")["ratios"] == [1.5]
    assert again.get("screen", "b") is not None
    assert len(again.events) == 2
    assert os.path.getsize(path) > 0
