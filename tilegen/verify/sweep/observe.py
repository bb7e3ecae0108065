"""Lowers and compiles the programs of a sweep, and keeps what came out by the content of each.

``python -m tilegen.verify.sweep.observe JOBS... --store FOLDER`` does it for programs that were prepared elsewhere, on a
machine that has tilelang and nvcc.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tilegen.verify.sweep.workers import Workers

if TYPE_CHECKING:
    from tilegen.targets import Target

LIMIT_SECONDS = 180.0
"""For the programs of one run of nvcc, and then for each alone; an ordinary one takes 3 to 8 seconds of one core."""

TOGETHER = 8
"""Programs in one run of nvcc."""

APPENDED = "observed.jsonl"


class Store:
    """Observations by digest: every ``*.jsonl`` of a folder is read, new ones are appended to ``observed.jsonl``.

    One may be marked: ``seen``, where the estimate of registers was made with it; ``refusals_only``, where it is of a run
    without nvcc, of which nothing but refusals was kept.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[str, dict[str, Any]] = {}
        for path in sorted(folder.glob("*.jsonl")):
            self.known.update(_read(path))

    def add(self, digest: str, observed: dict[str, Any]) -> None:
        """Keeps one observation; on disk before the next is taken."""
        self.known[digest] = observed
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / APPENDED, "a", encoding="utf-8") as file:
            file.write(json.dumps({"digest": digest, "observed": observed}, separators=(",", ":")) + "\n")


def _read(path: Path) -> Iterable[tuple[str, dict[str, Any]]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
            yield row["digest"], row["observed"]
        except (ValueError, KeyError, TypeError):
            continue  # the line that a kill cut off


def observe_programs(programs: Sequence[tuple[str, Mapping[str, Any], str]]) -> dict[str, Any]:
    """What TileLang and nvcc make of some programs, (source, key, arch) of one arch; for a process of its own.

    They share one run of nvcc.
    """
    from tilegen.targets import target
    from tilegen.verify.worker import add_usage, lower

    observations, sources = [], {}
    for index, (source, key, arch) in enumerate(programs):
        observed, facts = lower(source, {}, dict(key), arch)
        observed.pop("golden", None)
        observations.append(observed)
        # What no block can have need not be compiled: it does not fit.
        if facts is not None and all(_room(kernel.dynamic_bytes, target(arch)) for kernel in facts.kernels):
            sources[index] = facts.source
    add_usage(observations, sources, programs[0][2])
    return {"observations": observations}


def _room(dynamic_bytes: Any, target: Target) -> bool:
    return not isinstance(dynamic_bytes, int) or dynamic_bytes <= target.shared_memory.per_block


def observe_all(
    jobs: Mapping[str, Mapping[str, Any]],
    store: Store,
    workers: int,
    *,
    limit: float = LIMIT_SECONDS,
    until: float | None = None,
    together: int = TOGETHER,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Observes the jobs, ``{digest: {source, key, arch}}``, that the store does not know; returns how many are left.

    In random order, so that what a short run has seen stands for the whole, and some ``together``; what a group of them
    came to grief over, each tries alone.
    """
    missing = sorted(jobs.keys() - store.known.keys())
    Random(0).shuffle(missing)
    by_arch: dict[str, list[str]] = {}
    for digest in missing:
        by_arch.setdefault(jobs[digest]["arch"], []).append(digest)
    groups = [found[i : i + together] for found in by_arch.values() for i in range(0, len(found), together)]
    Random(1).shuffle(groups)
    for size in (together, 1):
        alone: list[list[str]] = []
        tasks = [([_task(jobs[digest]) for digest in group],) for group in groups]
        for index, result in Workers(observe_programs, workers, limit).results(tasks, until):
            group = groups[index]
            if "error" in result and len(group) > 1:
                alone += [[digest] for digest in group]
                continue
            observations = result.get("observations") or [result]
            for digest, observed in zip(group, observations, strict=True):
                store.add(digest, observed)
            progress(len(group))
        groups = alone
        if size == 1 or not groups:
            break
    return len(jobs.keys() - store.known.keys())


def _task(job: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], str]:
    return job["source"], job["key"], job["arch"]


def write_jobs(path: Path, jobs: Mapping[str, Mapping[str, Any]]) -> None:
    """The programs as an xz file, for :func:`main` on another machine."""
    path.write_bytes(lzma.compress(json.dumps(jobs).encode()))


def read_jobs(path: Path) -> dict[str, dict[str, Any]]:
    jobs: dict[str, dict[str, Any]] = json.loads(lzma.decompress(path.read_bytes()))
    return jobs


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tilegen.verify.sweep.observe", description=__doc__)
    parser.add_argument("jobs", nargs="+", type=Path, help="files that --prepare wrote")
    parser.add_argument(
        "--store", type=Path, required=True, help="folder of observations; what it has is not done again"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--together", type=int, default=TOGETHER, help="programs in one run of nvcc")
    parser.add_argument("--seconds", type=float, help="stop after so long; a later run goes on from there")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the workers are ended too
    until = None if given.seconds is None else time.time() + given.seconds
    jobs = {digest: job for path in given.jobs for digest, job in read_jobs(path).items()}
    left = observe_all(jobs, Store(given.store), given.workers, until=until, together=given.together)
    print(f"{len(jobs) - left} of {len(jobs)} programs observed")


if __name__ == "__main__":
    main()
