"""One tuning of one shape: the candidates, the rendered kernel that holds all of them, the workers, and what comes of it."""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilegen import cache
from tilegen.bench.rendered import write_package
from tilegen.expr import parse_condition
from tilegen.spec.document import parse_document
from tilegen.spec.loading import with_lock
from tilegen.spec.model import Lock, Winner
from tilegen.spec.source import Span
from tilegen.tune.candidate import Candidate, Goal, default, plain, proposals
from tilegen.tune.isolated import Isolated
from tilegen.tune.journal import Journal
from tilegen.tune.search import Found, Limits, Say, search

if TYPE_CHECKING:
    from tilegen.spec.model import Spec
    from tilegen.targets import Part

COMPILER, GPU = "tilegen.tune.gpu:Compiler", "tilegen.tune.gpu:GpuBench"


@dataclass(frozen=True)
class Machine:
    """Where candidates are measured: the chip, the card's name and versions, and what compiles and measures there."""

    arch: str
    part: Part
    facts: Mapping[str, Any]
    compiler: str = COMPILER
    bench: str = GPU
    jobs: int = 1


@dataclass(frozen=True)
class Tuned:
    """What a session found: the candidates in the order of the model, and the winner as the lock holds it, if any."""

    goal: Goal
    default: Candidate
    candidates: tuple[Candidate, ...]
    found: Found
    winner: Winner | None


def journal_of(goal: Goal, machine: Machine, candidates: Sequence[Candidate], fresh: bool) -> Journal:
    """The journal of a search: another spec, card, version of tilegen or set of candidates has another one."""
    key = cache.digest(
        goal.spec.sha256,
        machine.facts,
        machine.bench,
        goal.dtype,
        dict(goal.dims),
        goal.when_text,
        [candidate.key for candidate in candidates],
        cache.package_digest(),
    )
    path = cache.cache_folder() / "tune" / f"{goal.spec.kernel}-{key[:24]}.jsonl"
    if fresh:
        path.unlink(missing_ok=True)
    return Journal(path)


def tune(
    goal: Goal,
    machine: Machine,
    *,
    count: int,
    limits: Limits,
    fresh: bool = False,
    say: Say = lambda _what, _done, _total: None,
    chosen: Callable[[Sequence[Candidate]], None] = lambda _: None,
) -> Tuned:
    """Searches the best ``count`` proved tilings for one shape. ``chosen`` hears of them before anything is compiled."""
    first, candidates = default(goal), proposals(goal, count)
    chosen(candidates)
    journal = journal_of(goal, machine, (first, *candidates), fresh)
    with tempfile.TemporaryDirectory(prefix="tilegen-tune-") as folder, ExitStack() as stack:
        every = (first, *candidates)
        context = write_package(holding(goal.spec, goal.arch, every), Path(folder))
        taken = {"schedule", "num_split", *context["factory_parameters"]}
        config = {
            "folder": folder,
            "kernel": goal.spec.kernel,
            "arch": goal.arch,
            "dtype": goal.dtype,
            "dims": dict(goal.dims),
            "sm_count": machine.facts.get("sm_count", goal.part.sm_count),
            "taken": sorted(taken),
            "seed": 0,
        }
        compilers = [Isolated(machine.compiler, config) for _ in range(min(machine.jobs, len(every)))]
        bench = Isolated(machine.bench, config)
        for worker in (*compilers, bench):
            stack.callback(worker.close)
        found = search(first, candidates, compilers=compilers, bench=bench, journal=journal, limits=limits, say=say)
    return Tuned(goal, first, tuple(candidates), found, _winner(goal, machine, found))


def holding(spec: Spec, arch: str, candidates: Sequence[Candidate]) -> Spec:
    """The spec with a rule for each kind of candidate, so that one rendered kernel has the factory of every schedule.

    What is printed into a kernel are words: schedule, policy. Numbers are arguments of its factory. The conditions only
    keep the rules apart: a worker says which tiling it wants.
    """
    kinds = {str([v for v in plain(c.tiles).values() if not isinstance(v, int)]): c for c in candidates}
    winners = tuple(
        _entry(arch, f"sm_count == {index}", parse_condition(f"sm_count == {index}", ["sm_count"]), candidate.tiles)
        for index, candidate in enumerate(kinds.values(), start=1)
    )
    path = f"{spec.path}, candidates"
    lock = Lock(path=path, sha256=cache.digest(_keys(candidates)), winners=winners, document=parse_document(b"", path))
    return with_lock(spec, lock)


def _keys(candidates: Sequence[Candidate]) -> list[str]:
    return [candidate.key for candidate in candidates]


def _entry(arch: str, text: str, when: Any, tiles: Mapping[str, Any]) -> Winner:
    return Winner(target=arch, when=when, when_text=text, tiles=dict(tiles), span=Span("", 1, 1, 1, 1))


def _winner(goal: Goal, machine: Machine, found: Found) -> Winner | None:
    if found.winner is None:
        return None
    versions = {
        name: str(machine.facts[name]) for name in ("tilelang", "torch", "cuda", "driver") if name in machine.facts
    }
    entry = _entry(goal.arch, goal.when_text, goal.when, found.winner.candidate.tiles)
    return replace(
        entry,
        card=str(machine.facts.get("card", machine.part.name)),
        dtype=goal.dtype,
        shape=dict(goal.dims),
        us=None if found.winner.seconds is None else round(found.winner.seconds * 1e6, 2),
        ratio=None if found.winner.ratio is None else round(found.winner.ratio, 3),
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        versions=versions,
    )
