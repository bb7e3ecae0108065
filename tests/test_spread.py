"""Work that is spread over processes gives what one process gives, and fails as one process fails."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

from tilegen.spread import MOST_TICKETS, processes_for, spread


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that were started."""
    found: list[int] = []
    fork = os.fork

    def noted() -> int:
        process = fork()
        if process:
            found.append(process)
        return process

    monkeypatch.setattr(os, "fork", noted)
    return found


def all_gone(processes: list[int]) -> bool:
    """Whether each has ended, and has been waited for."""
    for process in processes:
        with pytest.raises(ChildProcessError):
            os.waitpid(process, os.WNOHANG)
    return len(processes) > 0


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("items", [0, 1, 7, MOST_TICKETS + 1])
def test_every_item_is_worked_on_once(items: int, processes: int) -> None:
    numbers = range(items)
    assert sorted(spread(lambda number: number * number, numbers, processes)) == [(n, n * n) for n in numbers]


def test_who_has_done_its_item_takes_the_next_and_this_process_is_one_of_them() -> None:
    """The first item takes as long as it takes the other process to do all the others."""
    here, there = os.pipe()

    def work(number: int) -> int:
        if number == 0:
            for _ in range(9):
                os.read(here, 1)
        else:
            os.write(there, b"x")
        return os.getpid()

    found = dict(spread(work, range(10), 2))
    os.close(here)
    os.close(there)
    others = {found[number] for number in range(1, 10)}
    assert len(others) == 1
    assert found[0] not in others
    assert os.getpid() in others | {found[0]}


def one_of_two(guilty: Callable[[int], bool], deed: Callable[[], None]) -> list[tuple[int, int]]:
    """Two items for two processes, where the one that is guilty does something in its first; the other waits for that."""
    here, there = os.pipe()

    def work(number: int) -> int:
        if guilty(os.getpid()):
            os.write(there, b"x")
            deed()
        os.read(here, 1)
        return number

    try:
        return list(spread(work, range(2), 2))
    finally:
        os.close(here)
        os.close(there)


def fail() -> None:
    raise ValueError("no")


@pytest.mark.parametrize("here", [True, False])
def test_an_exception_of_any_process_is_raised_and_none_is_left_running(here: bool, forked: list[int]) -> None:
    parent = os.getpid()
    with pytest.raises(ValueError, match="no"):
        one_of_two(lambda process: (process == parent) is here, fail)
    assert all_gone(forked)


def test_a_process_that_is_killed_is_an_error() -> None:
    parent = os.getpid()
    with pytest.raises(RuntimeError, match="ended before it was done"):
        one_of_two(lambda process: process != parent, lambda: os.kill(os.getpid(), signal.SIGKILL))


def test_who_stops_asking_leaves_no_process_behind(forked: list[int]) -> None:
    answers = spread(lambda number: number, range(2000), 2)
    next(answers)
    answers.close()  # type: ignore[attr-defined]
    assert all_gone(forked)


def test_few_items_and_processes_with_threads_stay_in_one() -> None:
    assert processes_for(3, least=4) == 1
    assert processes_for(10_000, least=4) >= 1
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert processes_for(10_000, least=4) == 1
    finally:
        stop.set()
        thread.join()
