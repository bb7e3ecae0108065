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
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from tilegen.verify.sweep.workers import Workers

LIMIT_SECONDS = 180.0
"""For one program; an ordinary one takes 3 to 15 seconds of one core."""

APPENDED = "observed.jsonl"


class Store:
    """Observations by digest: every ``*.jsonl`` of a folder is read, new ones are appended to ``observed.jsonl``."""

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


def observe_program(source: str, key: Mapping[str, Any], arch: str) -> dict[str, Any]:
    """What TileLang and nvcc make of one program; for a process of its own."""
    from tilegen.verify.worker import observe

    started = time.time()
    observed = observe(source, {}, dict(key), arch, with_ptxas=True)
    observed.pop("golden", None)
    return {**observed, "seconds": round(time.time() - started, 1)}


def observe_all(
    jobs: Mapping[str, Mapping[str, Any]],
    store: Store,
    workers: int,
    *,
    limit: float = LIMIT_SECONDS,
    until: float | None = None,
    progress: Callable[[], None] = lambda: None,
) -> int:
    """Observes the jobs, ``{digest: {source, key, arch}}``, that the store does not know; returns how many are left.

    In random order, so that what a short run has seen stands for the whole.
    """
    missing = sorted(jobs.keys() - store.known.keys())
    Random(0).shuffle(missing)
    tasks = [(jobs[digest]["source"], jobs[digest]["key"], jobs[digest]["arch"]) for digest in missing]
    done = 0
    for index, observed in Workers(observe_program, workers, limit).results(tasks, until):
        store.add(missing[index], observed)
        done += 1
        progress()
    return len(missing) - done


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
    parser.add_argument("--seconds", type=float, help="stop after so long; a later run goes on from there")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the workers are ended too
    until = None if given.seconds is None else time.time() + given.seconds
    jobs = {digest: job for path in given.jobs for digest, job in read_jobs(path).items()}
    left = observe_all(jobs, Store(given.store), given.workers, until=until)
    print(f"{len(jobs) - left} of {len(jobs)} programs observed")


if __name__ == "__main__":
    main()
