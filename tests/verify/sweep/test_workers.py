"""A worker that hangs or dies costs its own task."""

import os
import time

import pytest

from tilegen.verify.sweep.workers import WorkError, Workers


def work(what: str) -> dict[str, str]:
    if what == "hang":
        time.sleep(600)
    if what == "raise":
        raise KeyError("a fault")
    if what == "die":
        os._exit(3)
    return {"did": what}


@pytest.mark.slow
def test_a_hang_and_a_death_are_results_and_the_other_tasks_are_done(monkeypatch):
    monkeypatch.setattr("tilegen.verify.sweep.workers.START_SECONDS", 0)
    tasks = [("first",), ("hang",), ("die",), ("last",)]
    found = dict(Workers(work, 2, limit=8.0).results(tasks))
    assert found == {
        0: {"did": "first"},
        1: {"error": "took more than 8 s"},
        2: {"error": "the compiler's process died, exit code 3"},
        3: {"did": "last"},
    }


def test_what_is_not_done_in_time_is_left_unanswered(monkeypatch):
    monkeypatch.setattr("tilegen.verify.sweep.workers.START_SECONDS", 0)
    started = time.time()
    assert dict(Workers(work, 1, limit=60).results([("hang",), ("late",)], until=started + 2)) == {}
    assert time.time() - started < 20


def test_a_fault_of_the_work_itself_is_raised(monkeypatch):
    with pytest.raises(WorkError, match="KeyError: 'a fault'"):
        list(Workers(work, 1, limit=60).results([("raise",)]))
