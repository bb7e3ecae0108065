"""Work spread over processes: this one and forks of it, each of which takes the next item when it has done its last.

A pool of `concurrent.futures` would leave this process idle while its workers work, and takes some 20 ms to import.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

Item = TypeVar("Item")
Value = TypeVar("Value")

WIDTH = 4
"""Bytes of a ticket: the number of an item, or of the first of several."""

MOST_TICKETS = 4096
"""So many fit a pipe of 16 KiB, the least that one holds where it has not been made smaller."""


def processes_for(items: int, least: int) -> int:
    """How many processes to spread so many items over, where each must have at least ``least`` to be worth its start.

    One where this process has threads: a fork has none of them, but all of their locks.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return 1 if threading.active_count() > 1 else max(1, min(cores, items // least))


def spread(work: Callable[[Item], Value], items: Sequence[Item], processes: int) -> Iterator[tuple[int, Value]]:
    """The number of each item with what ``work`` gives for it, in no order. An exception of any process is raised here.

    What ``work`` gives is pickled where another process has done it; RuntimeError where one of them was killed.
    """
    if processes < 2:
        yield from enumerate(map(work, items))
        return
    tickets = _Tickets(len(items))
    others: dict[int, int] = {}
    try:
        for _ in range(processes - 1):
            process, answers = _forked(work, items, tickets)
            others[process] = answers
        for number in tickets:
            yield number, work(items[number])
        for answers in others.values():
            yield from _answers(answers)
    finally:
        tickets.close()
        for process, answers in others.items():
            os.close(answers)
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)  # it has nothing left to say, or nobody to say it to
            os.waitpid(process, 0)


class _Tickets:
    """The numbers of items that no process has taken yet."""

    def __init__(self, items: int) -> None:
        self.items = items
        self.step = max(1, -(-items // MOST_TICKETS))
        self._end, start = os.pipe()
        os.write(start, b"".join(number.to_bytes(WIDTH, "little") for number in range(0, items, self.step)))
        os.close(start)  # so that who finds none left reads the end of the pipe

    def __iter__(self) -> Iterator[int]:
        while ticket := os.read(self._end, WIDTH):
            first = int.from_bytes(ticket, "little")
            yield from range(first, min(first + self.step, self.items))

    def close(self) -> None:
        os.close(self._end)


def _forked(work: Callable[[Item], Value], items: Sequence[Item], tickets: _Tickets) -> tuple[int, int]:
    """A process that works too: its id, and the pipe from which its answers are read once it has found no more to do."""
    answers, said = os.pipe()
    process = os.fork()
    if process:
        os.close(said)
        return process, answers
    status = 1
    try:
        os.close(answers)
        found: Any
        try:
            found = [(number, work(items[number])) for number in tickets]
        except Exception as error:
            found = error
        with open(said, "wb") as pipe:
            pickle.dump(found, pipe)
        status = 0
    finally:
        os._exit(status)  # nothing of what this process was forked from is to be cleaned up here


def _answers(pipe: int) -> list[tuple[int, Any]]:
    with open(pipe, "rb", closefd=False) as answers:
        content = answers.read()
    try:
        found = pickle.loads(content)
    except (EOFError, pickle.UnpicklingError):
        raise RuntimeError("a process that shared the work was ended before it was done") from None
    if isinstance(found, Exception):
        raise found
    return list(found)
