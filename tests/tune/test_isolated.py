"""Workers that hang, crash and talk too much, in real processes."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tilegen.tune.isolated import CandidateError, CrashedError, HungError, Isolated

TILES = {"stages": 5}


@pytest.fixture
def worker():
    workers = []

    def start(fault=None):
        config = {"planted": {"5": fault}} if fault else {}
        workers.append(Isolated("tests.tune.planted:Bench", config))
        return workers[-1]

    yield start
    for entry in workers:
        entry.close()


def test_a_value_comes_back_whatever_libraries_print(worker):
    assert worker().ask("echo", {"value": [1, "two", {"three": 3.5}]}, 30) == [1, "two", {"three": 3.5}]


def test_an_exception_is_an_error_and_the_worker_stays(worker):
    entry = worker("measure raises")
    pid = entry.ask("pid", {}, 30)
    with pytest.raises(CandidateError, match="ValueError: planted"):
        entry.ask("measure", {"candidates": [TILES], "rounds": 1}, 30)
    assert entry.ask("pid", {}, 30) == pid


def test_a_hang_costs_its_limit_and_the_next_request_gets_a_fresh_worker(worker):
    entry = worker("measure hangs")
    pid = entry.ask("pid", {}, 30)
    started = time.monotonic()
    with pytest.raises(HungError, match=r"no reply within 0\.5 s"):
        entry.ask("measure", {"candidates": [TILES], "rounds": 1}, 0.5)
    assert time.monotonic() - started < 5
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert entry.ask("pid", {}, 30) != pid


@pytest.mark.parametrize(("fault", "message"), [("crashes", "killed by SIGSEGV"), ("exits", "exit code 3")])
def test_a_crash_is_named_and_the_next_request_gets_a_fresh_worker(worker, fault, message):
    entry = worker(f"measure {fault}")
    with pytest.raises(CrashedError, match=message):
        entry.ask("measure", {"candidates": [TILES], "rounds": 1}, 30)
    assert entry.ask("echo", {"value": 1}, 30) == 1


def test_a_bench_that_cannot_start_is_a_crash():
    with pytest.raises(CrashedError, match="exit code 1"):
        Isolated("tests.tune.no_such_module:Bench", {}).ask("echo", {"value": 1}, 30)


@pytest.mark.skipif(sys.platform != "linux", reason="the death of a parent is signalled on Linux alone")
def test_a_killed_search_leaves_no_worker_behind():
    code = (
        "from tilegen.tune.isolated import Isolated\n"
        "worker = Isolated('tests.tune.planted:Bench', {'planted': {'5': 'measure hangs'}})\n"
        "print(worker.ask('pid', {}, 30), flush=True)\n"
        "worker.ask('measure', {'candidates': [{'stages': 5}], 'rounds': 1}, 600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    ends = time.monotonic() + 10
    while time.monotonic() < ends:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the worker outlived its search")
