"""Coroutines: code of one thread block, or of several blocks, that runs by turns and waits for each other.

Each coroutine is a Python thread, of which exactly one runs at any time; it hands over when it has to wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from tilegen.interp.findings import Site
from tilegen.interp.frame import Frame


class _Stopped(BaseException):
    """Ends the coroutine of a role whose block has stopped."""


class Task:
    """One role as a coroutine: it runs from ``resume`` to its next wait, and never beside another."""

    def __init__(self, run: Callable[[], object], frame: Frame) -> None:
        self.frame = frame
        self.done = False
        self.error: BaseException | None = None
        self.waits_for: Callable[[], str] | None = None
        self.site: Site | None = None
        self._may_go: Callable[[], bool] | None = None
        self._run = run
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._stop = False
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    def _main(self) -> None:
        self._go.acquire()
        try:
            if not self._stop:
                with np.errstate(all="ignore"):
                    self._run()
        except _Stopped:
            pass
        except BaseException as error:  # handed to the thread that resumed this one
            self.error = error
        self.done = True
        self._back.release()

    def ready(self) -> bool:
        return not self.done and (self._may_go is None or self._may_go())

    def resume(self) -> None:
        """Run until the next wait or the end; raises what the role raised."""
        self._go.release()
        self._back.acquire()
        if self.error is not None:
            raise self.error

    def wait(self, may_go: Callable[[], bool], site: Site, waits_for: Callable[[], str]) -> None:
        """Hand over until ``may_go`` holds."""
        self._may_go, self.site, self.waits_for = may_go, site, waits_for
        self._hand_over()
        self._may_go = None

    def breathe(self) -> None:
        """Let the other roles run, in a loop that may wait for what they write."""
        self._may_go = None
        self._hand_over()

    def _hand_over(self) -> None:
        self._back.release()
        self._go.acquire()
        if self._stop:
            raise _Stopped

    def stop(self) -> None:
        if not self.done:
            self._stop = True
            self._go.release()
        self._thread.join()


def wait_until(frame: Frame, site: Site, may_go: Callable[[], bool], waits_for: Callable[[], str]) -> None:
    """Wait in a role until ``may_go`` holds; a wait that nothing can end is reported and ends the block."""
    if may_go():
        return
    if frame.task is None:
        frame.stop("deadlock", site, f"the block waits for {waits_for()}, and nothing can end that wait")
    frame.task.wait(may_go, site, waits_for)


def run_together(parent: Frame, parts: Sequence[tuple[Frame, Callable[[], object]]]) -> None:
    """Run roles until all have ended, always one at a time, in a fixed order."""
    tasks = []
    for frame, run in parts:
        task = Task(run, frame)
        frame.task = task
        tasks.append(task)
    try:
        while any(not task.done for task in tasks):
            ready = [task for task in tasks if task.ready()]
            if not ready:
                _wait_outside(parent, tasks)
                continue
            behind = min(task.frame.stage for task in ready)
            for task in ready:
                if task.frame.stage == behind:
                    task.resume()
    finally:
        for task in tasks:
            task.stop()


def _wait_outside(parent: Frame, tasks: list[Task]) -> None:
    """No role can go on: roles outside may free one, else the block is stuck."""
    waiting = [task for task in tasks if not task.done]
    site = waiting[0].site
    assert site is not None
    if parent.task is not None:
        parent.task.wait(lambda: any(task.ready() for task in waiting), site, lambda: _waits(waiting))
        return
    waiting[0].frame.stop("deadlock", site, "no role can go on: " + _waits(waiting))


def _waits(tasks: list[Task]) -> str:
    parts = []
    for task in tasks:
        threads = task.frame.threads
        what = task.waits_for() if task.waits_for is not None else "nothing"
        block = f"block {task.frame.block.coordinates}, " if task.frame.block.grid is not None else ""
        place = ""
        if task.site is not None:
            place = f" at {task.site.place}" if task.site.place is not None else ""
            loops = [f"{name} = {value}" for name, value in task.site.loop_values(task.frame.environment).items()]
            place += f" ({', '.join(loops)})" if loops else ""
        parts.append(f"{block}threads {int(threads.min())} to {int(threads.max())} wait for {what}{place}")
    return "; ".join(parts)
