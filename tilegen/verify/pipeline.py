"""Verifies rendered kernels: lowers instances in parallel processes, cached by content, and compares with their plans."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from tilegen import cache
from tilegen.emit.rendering import support
from tilegen.verify.compare import disagreements
from tilegen.verify.expected import expected
from tilegen.verify.worker import observe, reference_outputs, start_quietly

if TYPE_CHECKING:
    from tilegen.plan.instances import Instance


@dataclass(frozen=True)
class Job:
    """One instance to lower: its kernel source and its compile key (the arguments of ``build``).

    ``recorded``: it stands in the goldens, and nvcc compiles it where there is one; the others are only compared.
    """

    instance: Instance
    source: str
    key: Mapping[str, Any]
    recorded: bool = True

    @property
    def name(self) -> str:
        """A name that is a valid test id: ``sm_90a-float16-N1024-K1024-128x256x64-plain`` and the like."""
        words = [f"{name}{value}" if name.isupper() else str(value) for name, value in self.key.items()]
        return "-".join(words)


@dataclass(frozen=True)
class Verified:
    """What came out: the raw observation and every disagreement with the plan."""

    job: Job
    observed: Mapping[str, Any]
    disagreements: tuple[str, ...]


def instruction_patterns() -> dict[str, str]:
    """The patterns of the emitted golden test, read out of its source without importing it."""
    for node in ast.parse(support("golden.py")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "INSTRUCTIONS":
            patterns: dict[str, str] = ast.literal_eval(node.value)
            return patterns
    raise LookupError("golden.py has no INSTRUCTIONS")


READERS = ("verify", "targets")
"""What decides an observation besides the kernel's source: how it is read, and the chips. Not the rest of tilegen."""


def _cache_key(job: Job) -> str:
    return cache.digest(
        "observe",
        job.source,
        dict(job.key),
        instruction_patterns(),
        version("tilelang"),
        job.recorded,
        cache.package_digest(READERS, without=("verify/sweep",)),
    )


def pool(jobs: int) -> ProcessPoolExecutor:
    """Worker processes for lowering. Spawned, for TileLang does not survive a fork of a process with threads."""
    return ProcessPoolExecutor(max_workers=jobs, mp_context=get_context("spawn"), initializer=start_quietly)


def verify(jobs: Iterable[Job], workers: int, progress: Callable[[str], None] = lambda _: None) -> list[Verified]:
    """Observes every kernel once, from the cache where its content is known, and compares; in the order of ``jobs``."""
    ordered = list(jobs)
    keys = [_cache_key(job) for job in ordered]
    found: dict[str, dict[str, Any]] = {}
    missing = []
    for key, job in dict(zip(keys, ordered, strict=True)).items():
        stored = cache.read("observed", key)
        if stored is None:
            missing.append((key, job))
        else:
            found[key] = stored
            progress(job.name)
    if missing:
        with pool(min(workers, len(missing))) as executor:
            futures: dict[Future[dict[str, Any]], tuple[str, Job]] = {
                executor.submit(
                    observe, job.source, instruction_patterns(), dict(job.key), job.instance.arch, job.recorded
                ): (key, job)
                for key, job in missing
            }
            for future in as_completed(futures):
                key, job = futures[future]
                found[key] = future.result()
                cache.write("observed", key, found[key])
                progress(job.name)
    return [
        Verified(job, found[key], tuple(disagreements(expected(job.instance), found[key])))
        for key, job in zip(keys, ordered, strict=True)
    ]


def golden_outputs(files: Mapping[str, str], cases: list[dict[str, Any]]) -> dict[str, bytes]:
    """The reference outputs of one kernel, computed in a process of its own and cached by content."""
    key = cache.digest("outputs", files["reference.py"], files["_golden.py"], cases)
    stored = cache.read("outputs", key)
    if stored is None:
        with pool(1) as executor:
            outputs = executor.submit(reference_outputs, dict(files), cases).result()
        cache.write("outputs", key, {name: content.hex() for name, content in outputs.items()})
        return outputs
    return {name: bytes.fromhex(content) for name, content in stored.items()}


def default_workers() -> int:
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
