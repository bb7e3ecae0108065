"""The search: compile the candidates in parallel, measure each beside the default, then the best of them once more.

Every decision follows from the order of the candidates and from what the journal holds, so a search that was killed and
begun again ends as it would have. What hangs, crashes or is wrong costs its own time and no more.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from tilegen.tune.candidate import Candidate, plain
from tilegen.tune.isolated import CandidateError, Isolated
from tilegen.tune.journal import Journal

SCREEN_ROUNDS, FINAL_ROUNDS = 3, 9
FINALISTS = 3

LEAST_GAIN = 1.01
"""A tiling that is not a hundredth faster than the default is not worth a rule."""

SAME = 0.005
"""Ratios this near are the same: the tiling that the model puts first is taken."""

FINAL_SHARE = 0.2
"""Of the budget, kept for the final measurement."""


@dataclass(frozen=True)
class Limits:
    """Seconds: of the whole search, of compiling one candidate, of measuring one."""

    budget_s: float = 60.0
    compile_s: float = 90.0
    measure_s: float = 15.0


@dataclass(frozen=True)
class Outcome:
    """One candidate: ``ratio`` is the default's time over its own, None with the reason in ``failed``."""

    candidate: Candidate
    ratio: float | None
    seconds: float | None = None
    failed: str = ""


@dataclass(frozen=True)
class Found:
    """``winner`` is None where nothing beats the default. ``complete``: no candidate was left out for lack of time."""

    winner: Outcome | None
    outcomes: tuple[Outcome, ...]
    complete: bool
    default_s: float | None


Say = Callable[[str, int, int], None]
"""What happened, how many candidates are done, and how many there are."""


def search(
    default: Candidate,
    candidates: Sequence[Candidate],
    *,
    compilers: Sequence[Isolated],
    bench: Isolated,
    journal: Journal,
    limits: Limits,
    say: Say = lambda _what, _done, _total: None,
) -> Found:
    """The fastest of the candidates beside the default. The default must compile and be right: CandidateError if not."""
    started = time.monotonic()
    others = [candidate for candidate in candidates if candidate.key != default.key]
    pool = _Compilers(compilers, journal, limits)
    bench.start()
    try:
        pool.start([default, *others])
        problem = pool.wait(default)
        if problem:
            raise CandidateError(f"the tiling of the spec itself: {problem}")
        ends = started + limits.budget_s * (1 - FINAL_SHARE)
        outcomes, complete = _screen(default, others, pool, bench, journal, limits, ends, say)
    finally:
        pool.stop()
    winner, default_s = _final(default, outcomes, bench, journal, limits)
    return Found(winner, tuple(outcomes), complete, default_s)


class _Compilers:
    """Compiles in one thread for each worker process; what the journal knows is not compiled again."""

    def __init__(self, workers: Sequence[Isolated], journal: Journal, limits: Limits) -> None:
        self._idle = list(workers)
        self._lock = threading.Lock()
        self._journal = journal
        self._limits = limits
        self._pool = ThreadPoolExecutor(len(workers))
        self._workers = workers
        self._stopped = False
        self.futures: dict[str, Future[str]] = {}

    def start(self, candidates: Sequence[Candidate]) -> None:
        for candidate in candidates:
            self.futures[candidate.key] = self._pool.submit(self._compile, candidate)

    def wait(self, candidate: Candidate) -> str:
        return self.futures[candidate.key].result()

    def stop(self) -> None:
        self._stopped = True
        for future in self.futures.values():
            future.cancel()
        for worker in self._workers:
            worker.close()
        self._pool.shutdown(wait=True)

    def _compile(self, candidate: Candidate) -> str:
        """Why the candidate does not compile; empty where it does. Events are written by the thread that found out."""
        known = self._journal.get("compile", candidate.key)
        if known is not None and known["failed"]:
            return str(known["failed"])
        with self._lock:
            worker = self._idle.pop()
        try:
            worker.ask("compile", {"tiles": plain(candidate.tiles)}, self._limits.compile_s)
            problem = ""
        except CandidateError as error:
            problem = str(error)
        finally:
            with self._lock:
                self._idle.append(worker)
        if not self._stopped:
            self._journal.add("compile", candidate.key, failed=problem)
        return problem


def _screen(
    default: Candidate,
    candidates: Sequence[Candidate],
    pool: _Compilers,
    bench: Isolated,
    journal: Journal,
    limits: Limits,
    ends: float,
    say: Say,
) -> tuple[list[Outcome], bool]:
    """Each candidate beside the default, as soon as it is compiled; outcomes in the order of the candidates."""
    found: dict[str, Outcome] = {}
    pending = {pool.futures[candidate.key]: candidate for candidate in candidates}
    while pending and time.monotonic() < ends:
        done, _ = wait(pending, timeout=max(0.0, ends - time.monotonic()), return_when=FIRST_COMPLETED)
        for future in sorted(done, key=lambda future: candidates.index(pending[future])):
            candidate = pending.pop(future)
            if time.monotonic() >= ends and journal.get("screen", candidate.key) is None:
                pending[future] = candidate
                continue
            outcome = _measured(default, candidate, future.result(), bench, journal, limits)
            found[candidate.key] = outcome
            text = outcome.failed or f"{outcome.ratio:.3f} of the default"
            say(f"{candidate.label}: {text}", len(found), len(candidates))
        if not done:
            break
    return [found[candidate.key] for candidate in candidates if candidate.key in found], not pending


def _measured(
    default: Candidate, candidate: Candidate, problem: str, bench: Isolated, journal: Journal, limits: Limits
) -> Outcome:
    if problem:
        return Outcome(candidate, None, failed=problem)
    event = journal.get("screen", candidate.key)
    if event is None:
        event = journal.add("screen", candidate.key, **_compare(default, [candidate], bench, SCREEN_ROUNDS, limits))
    if event["failed"]:
        return Outcome(candidate, None, failed=str(event["failed"]))
    return Outcome(candidate, event["ratios"][0], event["seconds"][1])


def _compare(
    default: Candidate, candidates: Sequence[Candidate], bench: Isolated, rounds: int, limits: Limits
) -> dict[str, Any]:
    """Ratios of the candidates to the default, and the seconds of all, the default first; or why there are none."""
    tiles = [plain(candidate.tiles) for candidate in (default, *candidates)]
    try:
        rows = bench.ask("measure", {"candidates": tiles, "rounds": rounds}, limits.measure_s)
    except CandidateError as error:
        return {"failed": str(error)}
    ours = rows[0]
    ratios = [statistics.median(o / t for o, t in zip(ours, row, strict=True)) for row in rows[1:]]
    return {"failed": "", "ratios": ratios, "seconds": [statistics.median(row) for row in rows]}


def _final(
    default: Candidate, outcomes: Sequence[Outcome], bench: Isolated, journal: Journal, limits: Limits
) -> tuple[Outcome | None, float | None]:
    """The winner of a longer round between the best and the default. One that fails there is left out of the next try."""
    order = {outcome.candidate.key: place for place, outcome in enumerate(outcomes)}
    right = [outcome for outcome in outcomes if outcome.ratio is not None]
    best = sorted(right, key=lambda o: (-(o.ratio or 0), order[o.candidate.key]))[:FINALISTS]
    if not best:
        return None, None
    name = "+".join(outcome.candidate.key for outcome in best)
    event = journal.get("final", name)
    if event is None:
        facts = _compare(default, [outcome.candidate for outcome in best], bench, FINAL_ROUNDS, limits)
        event = journal.add("final", name, **facts)
    if event["failed"]:
        # They were right one by one: what was measured then must do.
        ratios: Mapping[str, float] = {o.candidate.key: o.ratio or 0.0 for o in best}
        seconds: Mapping[str, float | None] = {o.candidate.key: o.seconds for o in best}
        default_s = None
    else:
        keys = [outcome.candidate.key for outcome in best]
        ratios = dict(zip(keys, event["ratios"], strict=True))
        seconds = dict(zip(keys, event["seconds"][1:], strict=True))
        default_s = event["seconds"][0]
    top = max(ratios.values())
    if top < LEAST_GAIN:
        return None, default_s
    near = [outcome for outcome in best if ratios[outcome.candidate.key] >= top - SAME]
    chosen = min(near, key=lambda outcome: order[outcome.candidate.key]).candidate
    return Outcome(chosen, ratios[chosen.key], seconds[chosen.key]), default_s
