"""Verifies rendered kernels: lowers instances in parallel processes, cached by content, and compares with their plans."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
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


@dataclass(frozen=True)
class Reference:
    """What gives the golden outputs of one kernel: two of its files, and the cases."""

    reference: str
    golden: str
    cases: list[dict[str, Any]]

    @property
    def content(self) -> tuple[str, str, list[dict[str, Any]]]:
        return self.reference, self.golden, self.cases


Outputs = dict[str, bytes]
"""The bytes of an ``.npy`` file by the name of the golden case."""


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


def verify(
    jobs: Iterable[Job],
    references: Mapping[str, Reference],
    workers: int,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[list[Verified], dict[str, Outputs]]:
    """Observes every kernel once and compares, in the order of ``jobs``; computes the golden outputs of each reference.

    What is known by its content comes from the cache; the rest shares the worker processes.
    """
    ordered = list(jobs)
    keys = [_cache_key(job) for job in ordered]
    by_key = dict(zip(keys, ordered, strict=True))
    found: dict[str, dict[str, Any]] = _stored("observed", by_key)
    for key in found:
        progress(by_key[key].name)
    output_keys = {kernel: cache.digest("outputs", *reference.content) for kernel, reference in references.items()}
    outputs = _stored("outputs", output_keys.values())
    groups = _groups([(key, job) for key, job in by_key.items() if key not in found], workers)
    unknown = {key: references[kernel] for kernel, key in output_keys.items() if key not in outputs}
    if groups or unknown:
        for kind, key, value in _done(groups, unknown, workers):
            cache.write(kind, key, value)
            if kind == "observed":
                found[key] = value
                progress(by_key[key].name)
            else:
                outputs[key] = value
    compared = [
        Verified(job, found[key], tuple(disagreements(expected(job.instance), found[key])))
        for key, job in zip(keys, ordered, strict=True)
    ]
    return compared, {
        kernel: {name: bytes.fromhex(content) for name, content in outputs[key].items()}
        for kernel, key in output_keys.items()
    }


def _done(
    groups: list[list[tuple[str, Job]]], references: Mapping[str, Reference], workers: int
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """What the workers find, as entries of the cache: kind, key and value."""
    with pool(max(1, min(workers, len(groups)))) as executor:
        observing = {executor.submit(observe, *_task(group)): group for group in groups}
        computing = {executor.submit(reference_outputs, *r.content): key for key, r in references.items()}
        for future in as_completed(observing):
            for (key, _), observed in zip(observing[future], future.result(), strict=True):
                yield "observed", key, observed
        for done in as_completed(computing):
            yield "outputs", computing[done], {name: content.hex() for name, content in done.result().items()}


def _stored(kind: str, keys: Iterable[str]) -> dict[str, Any]:
    """What the cache holds, by key."""
    read = {key: cache.read(kind, key) for key in keys}
    return {key: value for key, value in read.items() if value is not None}


TOGETHER = 4
"""Kernels in one run of nvcc, which spends some two seconds on headers. More save little, and leave cores idle at the end."""


def _groups(missing: list[tuple[str, Job]], workers: int) -> list[list[tuple[str, Job]]]:
    """What one worker observes at a time: some that nvcc compiles together, which take longest and so come first; then the
    others, one by one."""
    compiled: dict[tuple[str, str], list[tuple[str, Job]]] = {}
    alone = []
    for key, job in missing:
        if job.recorded:
            compiled.setdefault((job.source, job.instance.arch), []).append((key, job))
        else:
            alone.append([(key, job)])
    size = min(TOGETHER, -(-sum(map(len, compiled.values())) // workers))
    return [group[start : start + size] for group in compiled.values() for start in range(0, len(group), size)] + alone


def _task(group: list[tuple[str, Job]]) -> tuple[Any, ...]:
    """The arguments of :func:`observe`."""
    first = group[0][1]
    keys = [dict(job.key) for _, job in group]
    return first.source, instruction_patterns(), keys, first.instance.arch, first.recorded


def default_workers() -> int:
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
