"""Two revisions to what changed between their kernels."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tilegen import cache
from tilegen.check.report import import_ahead
from tilegen.review.change import RANK, Change, KernelDiff, Level, SpecDiff, ordered
from tilegen.review.names import kernel_name, likeness, same_but_for_the_name
from tilegen.review.revisions import Revision, RevisionError
from tilegen.review.words import joined
from tilegen.spec.find import is_spec, lock_path
from tilegen.spread import processes_for, spread

KIND = "reviews"
"""Folder of the cache."""

ALIKE = 0.8
"""Share of values in common above which a spec that is gone and one that is new, under another name, are one kernel."""

SPECS_A_PROCESS = 3
"""Changed specs below which another process costs more than it saves."""


@dataclass(frozen=True)
class Side:
    """A spec in one revision, with its lock, and the generated folder of its kernel. ``kernel`` is its name, or that of
    its file where it cannot be read; ``built`` maps what the build wrote for it to hashes, as the manifest says.
    """

    path: str
    kernel: str
    spec: bytes
    lock: bytes | None
    folder: Mapping[str, bytes]
    built: Mapping[str, str] = field(default_factory=dict)


def diff(base: Revision, head: Revision, specs: Sequence[str], generated: str, *, cached: bool = True) -> SpecDiff:
    """Compares the specs in the folders (or files) ``specs``, and the kernels' folders under ``generated``."""
    sides = [_sides(revision, specs, generated) for revision in (base, head)]
    if not sides[0].specs and not sides[1].specs:
        folders = joined(f"`{folder}`" for folder in specs)
        raise RevisionError(
            f"neither {base.label} nor {head.label} has a spec in {folders}; `--specs` names other folders"
        )
    matched = _matched(sides[0].specs, sides[1].specs)
    changed = [pair for pair in matched if _differ(*pair)]
    same = len(matched) - len(changed)
    kernels = [
        _in_its_tree(kernel, new, sides[1]) for kernel, (_, new) in zip(_all(changed, cached), changed, strict=True)
    ]
    ranked = sorted(kernels, key=lambda kernel: (RANK[kernel.level], -len(kernel.changes), kernel.kernel))
    return SpecDiff(base.label, head.label, tuple(ranked), same)


def changed_sides(
    base: Revision, head: Revision, specs: Sequence[str], generated: str
) -> tuple[list[tuple[Side | None, Side | None]], int]:
    """Both sides of every kernel that changed, and how many did not."""
    old, new = (_sides(revision, specs, generated).specs for revision in (base, head))
    matched = _matched(old, new)
    changed = [pair for pair in matched if _differ(*pair)]
    return changed, len(matched) - len(changed)


@dataclass(frozen=True)
class _Tree:
    """The specs of a revision by their paths, and the folders of its generated tree by their names."""

    specs: Mapping[str, Side]
    generated: Mapping[str, Mapping[str, bytes]]


def _sides(revision: Revision, specs: Sequence[str], generated: str) -> _Tree:
    files = revision.files([*specs, generated])
    roots = [os.path.normpath(folder) for folder in specs]
    tree = os.path.normpath(generated)
    folders: dict[str, dict[str, bytes]] = {}
    for path, content in files.items():
        if _under(path, tree) and "/" in (inner := os.path.relpath(path, tree)):
            kernel, _, name = inner.partition("/")
            folders.setdefault(kernel, {})[name] = content
    manifest = _manifest(files.get(f"{tree}/manifest.json" if tree != "." else "manifest.json"))
    found = {}
    for path, content in files.items():
        hidden = any(part.startswith(".") for part in path.split("/"))
        if is_spec(path) and not hidden and not _under(path, tree) and any(_under(path, root) for root in roots):
            kernel = kernel_name(content) or os.path.basename(path).removesuffix(".toml")
            found[path] = Side(
                path,
                kernel,
                content,
                files.get(lock_path(Path(path)).as_posix()),
                folders.get(kernel, {}),
                manifest.get(kernel, {}),
            )
    return _Tree(found, folders)


def _manifest(content: bytes | None) -> dict[str, dict[str, str]]:
    """For each kernel the hashes of its files; nothing where the manifest is absent, or is none."""
    try:
        return {name: dict(entry["files"]) for name, entry in json.loads(content or b"")["kernels"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _under(path: str, root: str) -> bool:
    return path == root or root == "." or path.startswith(f"{root}/")


def _in_its_tree(found: KernelDiff, new: Side | None, head: _Tree) -> KernelDiff:
    """The changes of a kernel with what only a look at the other kernels, or at what was generated, can tell."""
    more = []
    others = [] if new is None else [path for path, side in head.specs.items() if side.kernel == new.kernel]
    if len(others) > 1:
        text = (
            f"{new.kernel} is declared by {joined(sorted(others))}: they would be built into one folder" if new else ""
        )
        more.append(Change(Level.ERROR, "kernel", text))
    former = found.was or (found.kernel if new is None else "")
    if former in head.generated and all(side.kernel != former for side in head.specs.values()):
        text = f"the generated folder of {former} is still there: `tilegen build` removes it"
        more.append(Change(Level.WARNING, "golden", text))
    return replace(found, changes=ordered([*more, *found.changes])) if more else found


def _differ(old: Side | None, new: Side | None) -> bool:
    if old is None or new is None:
        return True
    return (old.path, old.spec, old.lock, old.folder) != (new.path, new.spec, new.lock, new.folder)


def _matched(base: Mapping[str, Side], head: Mapping[str, Side]) -> list[tuple[Side | None, Side | None]]:
    """Which spec of the base became which of the head: the same kernel, the same content or most of it, or the same file."""
    old, new = dict(base), dict(head)
    same: tuple[Callable[[Side, Side], float], ...] = (
        lambda a, b: a.path == b.path and a.kernel == b.kernel,
        lambda a, b: a.kernel == b.kernel,
        lambda a, b: same_but_for_the_name(a.spec, b.spec),
        lambda a, b: max(0.0, likeness(a.spec, b.spec) - ALIKE),
        lambda a, b: a.path == b.path,
    )
    found: list[tuple[Side | None, Side | None]] = []
    for agree in same:
        agreed = [(agree(a, b), a.path, b.path) for b in new.values() for a in old.values()]
        for score, before, after in sorted(agreed, key=lambda entry: -entry[0]):
            if score and before in old and after in new:
                found.append((old.pop(before), new.pop(after)))
    return [*found, *((side, None) for side in old.values()), *((None, side) for side in new.values())]


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
    return cache.digest("diff", cache.package_digest(), sys.version, [_content(side) for side in (old, new)])


def _content(side: Side | None) -> list[object] | None:
    """All that a comparison reads of a side."""
    if side is None:
        return None
    folder = sorted((name, _digest(content)) for name, content in side.folder.items())
    return [side.path, _digest(side.spec), _digest(side.lock), sorted(side.built.items()), folder]


def _digest(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()


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
    import tilegen.review.kernel  # noqa: F401  once, before processes are forked

    def compared(pair: tuple[Side | None, Side | None]) -> KernelDiff:
        return kernel_diff(*pair, cached)

    found = dict(spread(compared, changed, processes_for(len(changed), SPECS_A_PROCESS)))
    return [found[number] for number in range(len(changed))]


def kernel_diff(old: Side | None, new: Side | None, cached: bool = True) -> KernelDiff:
    """What happened to one kernel. ``cached`` takes what the checker is known to say of a side."""
    from tilegen.review.kernel import added, changed, removed

    if new is None:
        assert old is not None
        return removed(old)
    if old is None:
        return added(new, cached=cached)
    return changed(old, new, cached=cached)
