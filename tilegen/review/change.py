"""What a comparison found, as plain values: the forms of ``tilegen diff`` print nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """How much a change asks of a reviewer. ``error``: it does not build, or a test asks less than before. ``warning``:
    something was lost. ``note``: it is different.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


RANK = {Level.ERROR: 0, Level.WARNING: 1, Level.NOTE: 2}


class Status(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    RENAMED = "renamed"
    MOVED = "moved"
    CHANGED = "changed"


@dataclass(frozen=True)
class Change:
    """One thing that changed. ``subject`` is what it is about (domain, tile, occupancy ...), ``text`` says it in words.
    ``where`` names target, dtypes and shapes if it does not hold everywhere; ``details`` are further lines, such as a
    counterexample; ``line`` is the line at the head, 0 if there is none, of ``file`` or else of the spec.
    """

    level: Level
    subject: str
    text: str
    where: str = ""
    before: Any = None
    after: Any = None
    details: tuple[str, ...] = ()
    line: int = 0
    file: str = ""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "level": self.level.value}


@dataclass(frozen=True)
class BudgetRow:
    """One line of the budget table: what one case costs at one shape before and after; a side without the case is None.

    ``shared_bytes`` of the launch that takes the most, against ``shared_limit``; ``registers`` a thread, estimated;
    ``blocks_per_sm``; ``path`` is the instruction and the way of the copies.
    """

    arch: str
    dtypes: str
    where: str
    shape: str
    tiles: tuple[str, str]
    shared_bytes: tuple[int | None, int | None]
    shared_limit: int
    registers: tuple[int | None, int | None]
    blocks_per_sm: tuple[int | None, int | None]
    path: tuple[str, str]


@dataclass(frozen=True)
class FileDiff:
    """A generated file that differs. ``kind``: ``header`` if only its docstring, hashes and the spec lines in comments
    do, ``comments`` if only comments do, ``support`` if it is the same beside every kernel, else ``code``. ``hunks`` is a
    unified diff without what is only header.
    """

    path: str
    kind: str
    added: int
    removed: int
    hunks: tuple[str, ...]


@dataclass(frozen=True)
class KernelDiff:
    """What happened to one kernel. ``was`` is its former name, and ``path_was`` its former file, where they differ."""

    kernel: str
    path: str
    status: Status
    was: str = ""
    path_was: str = ""
    changes: tuple[Change, ...] = ()
    budgets: tuple[BudgetRow, ...] = ()
    files: tuple[FileDiff, ...] = ()

    @property
    def level(self) -> Level:
        return min((change.level for change in self.changes), key=RANK.__getitem__, default=Level.NOTE)

    def to_json(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "path": self.path,
            "status": self.status.value,
            "was": self.was,
            "path_was": self.path_was,
            "level": self.level.value,
            "changes": [change.to_json() for change in self.changes],
            "budgets": [asdict(row) for row in self.budgets],
            "files": [asdict(file) for file in self.files],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KernelDiff:
        """What :meth:`to_json` wrote. KeyError, TypeError or ValueError for anything else."""
        return cls(
            data["kernel"],
            data["path"],
            Status(data["status"]),
            data["was"],
            data["path_was"],
            tuple(
                Change(**{**entry, "level": Level(entry["level"]), "details": tuple(entry["details"])})
                for entry in data["changes"]
            ),
            tuple(
                _row({name: tuple(value) if isinstance(value, list) else value for name, value in row.items()})
                for row in data["budgets"]
            ),
            tuple(FileDiff(**{**entry, "hunks": tuple(entry["hunks"])}) for entry in data["files"]),
        )


def _row(data: dict[str, Any]) -> BudgetRow:
    return BudgetRow(**data)


@dataclass(frozen=True)
class SpecDiff:
    """The comparison of two revisions: kernels that differ, those that matter most first, and how many do not."""

    base: str
    head: str
    kernels: tuple[KernelDiff, ...]
    unchanged: int = 0
    notes: tuple[str, ...] = field(default=())

    def fails(self, level: Level | None) -> bool:
        """Whether anything is at or above ``level``; never, if it is None."""
        return level is not None and any(RANK[kernel.level] <= RANK[level] for kernel in self.kernels if kernel.changes)

    def count(self, level: Level) -> int:
        return sum(change.level is level for kernel in self.kernels for change in kernel.changes)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": 1,
            "base": self.base,
            "head": self.head,
            "unchanged": self.unchanged,
            "counts": {level.value: self.count(level) for level in Level},
            "notes": list(self.notes),
            "kernels": [kernel.to_json() for kernel in self.kernels],
        }


def ordered(changes: Iterable[Change]) -> tuple[Change, ...]:
    """What matters most first; else in the order in which it was found."""
    return tuple(sorted(changes, key=lambda change: RANK[change.level]))
