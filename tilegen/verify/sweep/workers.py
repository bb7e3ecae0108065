"""Worker processes with a time limit for each task: one that hangs or dies costs its own task and nothing else."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection, get_context
from typing import Any

from tilegen.verify.worker import start_quietly

START_SECONDS = 120
"""What a process may take to start, on top of the limit of its first task: it imports tilelang."""

TICK_SECONDS = 1.0


class WorkError(Exception):
    """What ``work`` raised, with its traceback: a fault of the sweep, not of a compiler."""


@dataclass
class _Worker:
    process: Any
    pipe: connection.Connection
    task: int
    deadline: float


@dataclass
class Workers:
    """Runs ``work(*arguments)`` for each task in ``count`` processes.

    A result is what ``work`` returns, or ``{"error": text}`` where its process died or took more than ``limit`` seconds.
    An exception of ``work`` is no result: it is raised here as :class:`WorkError`.
    """

    work: Callable[..., dict[str, Any]]
    count: int
    limit: float
    _running: list[_Worker] = field(default_factory=list)

    def results(
        self, tasks: Sequence[tuple[Any, ...]], until: float | None = None
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Index and result of each task as they come. What is not done at the time ``until`` is given up unanswered."""
        waiting = list(range(len(tasks)))[::-1]
        try:
            while (waiting or self._running) and (until is None or time.time() < until):
                while waiting and len(self._running) < self.count:
                    self._running.append(self._start(waiting.pop(), tasks))
                yield from self._finished(tasks, waiting)
        finally:
            for worker in self._running:
                _kill(worker)
            self._running.clear()

    def _start(self, task: int, tasks: Sequence[tuple[Any, ...]]) -> _Worker:
        here, there = get_context("spawn").Pipe()
        process = get_context("spawn").Process(target=_serve, args=(there, self.work), daemon=True)
        process.start()
        there.close()
        here.send(tasks[task])
        return _Worker(process, here, task, time.time() + self.limit + START_SECONDS)

    def _finished(self, tasks: Sequence[tuple[Any, ...]], waiting: list[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        ready = connection.wait([worker.pipe for worker in self._running], timeout=TICK_SECONDS)
        for worker in list(self._running):
            if worker.pipe in ready:
                done, result = worker.task, self._received(worker)
                if result is None:
                    self._drop(worker)
                    yield done, {"error": f"the compiler's process died, exit code {worker.process.exitcode}"}
                    continue
                if waiting:
                    worker.task, worker.deadline = waiting.pop(), time.time() + self.limit
                    worker.pipe.send(tasks[worker.task])
                else:
                    self._drop(worker)
                yield done, result
            elif time.time() > worker.deadline:
                self._drop(worker)
                yield worker.task, {"error": f"took more than {self.limit:g} s"}

    def _received(self, worker: _Worker) -> dict[str, Any] | None:
        try:
            raised, result = worker.pipe.recv()
        except (EOFError, OSError):
            return None
        if raised:
            raise WorkError(raised)
        found: dict[str, Any] = result
        return found

    def _drop(self, worker: _Worker) -> None:
        self._running.remove(worker)
        _kill(worker)


def _kill(worker: _Worker) -> None:
    """Ends a worker and whatever it has started: its process group is its own."""
    worker.pipe.close()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.process.pid, signal.SIGKILL)
    worker.process.kill()
    worker.process.join()


def _serve(pipe: connection.Connection, work: Callable[..., dict[str, Any]]) -> None:
    os.setsid()
    start_quietly()
    with contextlib.suppress(EOFError, OSError):
        while True:
            task = pipe.recv()
            try:
                answer = ("", work(*task))
            except Exception:
                answer = (traceback.format_exc(), {})
            pipe.send(answer)
