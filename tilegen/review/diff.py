"""Two revisions to what changed between their kernels."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

from tilegen import cache
from tilegen.check.report import import_ahead
from tilegen.review.change import RANK, KernelDiff, SpecDiff
from tilegen.review.names import kernel_name, same_but_for_the_name
from tilegen.review.revisions import Revision
from tilegen.spec.find import is_spec, lock_path

KIND = "reviews"
"""Folder of the cache."""

SPECS_A_WORKER = 3
"""Changed specs below which another process costs more than it saves."""


@dataclass(frozen=True)
class Side:
    """A spec in one revision, with its lock, and the generated folder of its kernel. ``kernel`` is its name, or that of
    its file where it cannot be read.
    """

    path: str
    kernel: str
    spec: bytes
    lock: bytes | None
    folder: Mapping[str, bytes]


def diff(base: Revision, head: Revision, specs: Sequence[str], generated: str, *, cached: bool = True) -> SpecDiff:
    """Compares the specs in the folders (or files) ``specs``, and the kernels' folders under ``generated``."""
    changed, same = changed_sides(base, head, specs, generated)
    kernels = _all(changed, cached)
    ranked = sorted(kernels, key=lambda kernel: (RANK[kernel.level], -len(kernel.changes), kernel.kernel))
    return SpecDiff(base.label, head.label, tuple(ranked), same)


def changed_sides(
    base: Revision, head: Revision, specs: Sequence[str], generated: str
) -> tuple[list[tuple[Side | None, Side | None]], int]:
    """Both sides of every kernel that changed, and how many did not."""
    sides = [_sides(revision.files([*specs, generated]), specs, generated) for revision in (base, head)]
    matched = list(_matched(*sides))
    changed = [(old, new) for old, new in matched if old is None or new is None or _differ(old, new)]
    return changed, len(matched) - len(changed)


def _sides(files: Mapping[str, bytes], specs: Sequence[str], generated: str) -> dict[str, Side]:
    """Every spec by its path."""
    roots = [os.path.normpath(folder) for folder in specs]
    tree = os.path.normpath(generated)
    folders: dict[str, dict[str, bytes]] = {}
    for path, content in files.items():
        if _under(path, tree) and "/" in (inner := os.path.relpath(path, tree)):
            kernel, _, name = inner.partition("/")
            folders.setdefault(kernel, {})[name] = content
    found = {}
    for path, content in files.items():
        hidden = any(part.startswith(".") for part in path.split("/"))
        if is_spec(path) and not hidden and not _under(path, tree) and any(_under(path, root) for root in roots):
            kernel = kernel_name(content) or os.path.basename(path).removesuffix(".toml")
            found[path] = Side(
                path, kernel, content, files.get(lock_path(Path(path)).as_posix()), folders.get(kernel, {})
            )
    return found


def _under(path: str, root: str) -> bool:
    return path == root or root == "." or path.startswith(f"{root}/")


def _differ(old: Side, new: Side) -> bool:
    return (old.path, old.spec, old.lock, old.folder) != (new.path, new.spec, new.lock, new.folder)


def _matched(base: Mapping[str, Side], head: Mapping[str, Side]) -> Iterator[tuple[Side | None, Side | None]]:
    """Which spec of the base became which of the head: the same kernel, the same content, or the same file."""
    old, new = dict(base), dict(head)
    same: tuple[Callable[[Side, Side], bool], ...] = (
        lambda a, b: a.path == b.path and a.kernel == b.kernel,
        lambda a, b: a.kernel == b.kernel,
        lambda a, b: same_but_for_the_name(a.spec, b.spec),
        lambda a, b: a.path == b.path,
    )
    for agree in same:
        for path in list(new):
            partner = next((a for a in old.values() if agree(a, new[path])), None)
            if partner is not None:
                yield old.pop(partner.path), new.pop(path)
    for side in old.values():
        yield side, None
    for side in new.values():
        yield None, side


def _all(changed: Sequence[tuple[Side | None, Side | None]], cached: bool) -> list[KernelDiff]:
    found: dict[int, KernelDiff] = {}
    keys = [_key(old, new) for old, new in changed]
    for number, key in enumerate(keys):
        known = _known(key) if cached else None
        if known is not None:
            found[number] = known
    unknown = [number for number in range(len(changed)) if number not in found]
    for number, kernel in zip(unknown, _compared([changed[number] for number in unknown], cached), strict=True):
        found[number] = kernel
        if cached:
            cache.write(KIND, keys[number], kernel.to_json())
    return [found[number] for number in range(len(changed))]


def _key(old: Side | None, new: Side | None) -> str:
    def digest(content: bytes | None) -> str:
        return "" if content is None else hashlib.sha256(content).hexdigest()

    parts = [
        None
        if side is None
        else [side.path, digest(side.spec), digest(side.lock), sorted((n, digest(c)) for n, c in side.folder.items())]
        for side in (old, new)
    ]
    return cache.digest("diff", cache.package_digest(), sys.version, parts)


def _known(key: str) -> KernelDiff | None:
    stored = cache.read(KIND, key)
    try:
        return None if stored is None else KernelDiff.from_json(stored)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None  # not an entry that tilegen wrote


def _compared(changed: Sequence[tuple[Side | None, Side | None]], cached: bool) -> Iterable[KernelDiff]:
    if not changed:
        return []
    import_ahead()
    import tilegen.review.kernel  # noqa: F401  once, before workers are forked

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    workers = min(cores, len(changed) // SPECS_A_WORKER)
    if workers < 2 or threading.active_count() > 1:
        return [kernel_diff(old, new, cached) for old, new in changed]
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        return list(pool.map(kernel_diff, *zip(*changed, strict=True), repeat(cached), chunksize=2))


def kernel_diff(old: Side | None, new: Side | None, cached: bool = True) -> KernelDiff:
    """What happened to one kernel. ``cached`` takes what the checker is known to say of a side."""
    from tilegen.review.kernel import added, changed, removed

    if new is None:
        assert old is not None
        return removed(old)
    if old is None:
        return added(new, cached=cached)
    return changed(old, new, cached=cached)
