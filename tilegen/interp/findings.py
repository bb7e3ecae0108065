"""What the interpreter found wrong, and where: operation, buffer, index, block and loop variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tilegen.interp.places import Place

#: Every kind of finding, with the sentence that the documentation prints for it.
KINDS: dict[str, str] = {
    "uninitialised-read": "memory is read that nothing has written",
    "out-of-bounds": "an access lies outside its buffer",
    "double-write": "two iterations of a T.Parallel, or two threads of one statement, write one element",
    "iteration-race": "one iteration of a T.Parallel reads what another writes in the same statement",
    "shared-race": "a shared tile is accessed by two roles with no barrier between them",
    "block-race": "two blocks access one element of global memory, and one of them writes",
    "in-flight": "a tile is touched while an asynchronous operation still uses it",
    "index-overflow": "an index does not fit in its integer type",
    "float-to-int": "a float is converted to an integer that cannot hold it",
    "non-finite": "a NaN reaches an output, or a 16-bit or 8-bit format overflows; this is where it arose",
    "infinity": "an infinity computed from finite operands reaches an output; this is where it arose",
    "deadlock": "no role can go on",
    "barrier-misuse": "a barrier is used against its arrive count",
    "implicit-zero": "a T.alloc_var is read before anything writes it: TileLang starts it at 0",
    "unwritten-output": "an element of an output is never written",
    "unused-output": "nothing of a buffer that the kernel may write is written in this run",
    "partial-warp": "a matrix product is carried out by a part of a warp, or of a warp group",
    "divergent-value": "a value that differs from thread to thread is used where one value is needed",
    "failed-assert": "T.device_assert does not hold",
    "division-by-zero": "an integer is divided by zero",
    "layout": "an explicit layout puts two elements in one place, or one element outside",
    "extents": "the two sides of a copy have different extents; one side's are used for both",
    "stages": "a pipelined loop has more stages than trips",
}
#: Kinds that are worth knowing but make no kernel wrong.
NOTES = frozenset({"stages", "extents", "unused-output", "implicit-zero", "infinity", "index-overflow"})


class UnsupportedError(Exception):
    """An operation that the interpreter does not model; the message names it and where it stands."""

    placed = False

    def stands_at(self, place: Place | None) -> None:
        """Begin the message with the line of source, where it is known; the innermost statement is the first to do so."""
        if place is not None and not self.placed:
            self.args = (f"{place}: {self}",)
            self.placed = True


class InvalidKernelError(Exception):
    """A kernel or an argument that cannot be run at all."""


class StoppedBlockError(Exception):
    """A block cannot go on; the finding that says why has been recorded."""


def check_kinds(kinds: Iterable[str]) -> None:
    """Raise ``InvalidKernelError`` for a name that is no kind of finding."""
    for kind in kinds:
        if kind not in KINDS:
            raise InvalidKernelError(f"there is no kind of finding {kind!r}; there are {', '.join(KINDS)}")


@dataclass(frozen=True)
class Site:
    """One operation in the kernel: its TIR node, the loops round it and the line of source; rendered only when needed.

    ``mend`` is what to do where the operation reads memory that nothing has written.
    """

    node: Any = field(compare=False)
    loops: tuple[tuple[str, int], ...] = ()
    place: Place | None = None
    mend: str = ""

    @property
    def operation(self) -> str:
        """The operation as TVMScript prints it, on one line, without its declarations."""
        return render(self.node)

    def loop_values(self, environment: list[Any]) -> dict[str, int]:
        """Loop variable names and their present values."""
        return {name: int(environment[slot]) for name, slot in self.loops if isinstance(environment[slot], int)}


def render(node: Any) -> str:
    """Print a TIR statement or expression as one line of TileLang-like text."""
    if isinstance(node, str):
        return node
    body = [line for line in str(node).splitlines() if line.strip() and not line.lstrip().startswith("#")]
    declaration = re.compile(
        r"^\w+(, \w+)*( = T\.(Buffer|int32|int64|handle|float32|launch_thread_idx)\b.*|: T\.\w+ = .*)$"
    )
    text = [line for line in body if not declaration.match(line)]
    line = " ".join(part.strip() for part in (text or body)[:3])
    line = re.sub(r"T\.region\((\w+\[[^\]]*\]), \d+(?:, [^()]*)?\)", r"\1", line)
    return line if len(line) <= 160 else line[:157] + "..."


@dataclass(frozen=True)
class Finding:
    """One thing wrong with a run.

    ``index`` is the element of ``buffer``; ``block`` the grid coordinates (x, y, z); ``loops`` the values of the serial
    loops round the operation; ``place`` the line of source (``file:line``) and ``source`` its text, as far as TileLang noted
    them; ``count`` how often the same finding came up (only the first is kept in full).
    """

    kind: str
    message: str
    operation: str = ""
    buffer: str = ""
    index: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    loops: tuple[tuple[str, int], ...] = ()
    count: int = 1
    place: str = ""
    source: str = ""

    @property
    def severity(self) -> str:
        return "note" if self.kind in NOTES else "error"

    def __str__(self) -> str:
        where = [f"{name} = {value}" for name, value in self.loops]
        if self.block is not None:
            where.insert(0, f"block {self.block}")
        lines = [f"{self.severity}[{self.kind}]: {self.message}"]
        if self.operation:
            lines.append(f"  at `{self.operation}`" + (f" ({', '.join(where)})" if where else ""))
        if self.place:
            lines.append(f"  {self.place}" + (f": {self.source}" if self.source else ""))
        if self.count > 1:
            lines.append(f"  and {self.count - 1} more of this kind there")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON-ready values."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "message": self.message,
            "operation": self.operation,
            "buffer": self.buffer,
            "index": None if self.index is None else list(self.index),
            "block": None if self.block is None else list(self.block),
            "loops": dict(self.loops),
            "place": self.place,
            "source": self.source,
            "count": self.count,
        }


class Findings:
    """Collects findings, one for each (kind, operation, buffer): the first in full, the rest counted."""

    def __init__(self, limit: int = 100) -> None:
        self.limit = limit
        self._kept: dict[Any, Finding] = {}
        self._count: dict[Any, int] = {}

    def add(self, key: Any, make: Callable[[], Finding]) -> None:
        """Record a finding under ``key``; ``make`` is called only for the first one of that key."""
        if key in self._count:
            self._count[key] += 1
        elif len(self._kept) < self.limit:
            self._count[key] = 1
            self._kept[key] = make()

    def has(self, kind: str) -> bool:
        """Whether anything of this kind has been found."""
        return any(finding.kind == kind for finding in self._kept.values())

    def keep(self, key: Any, finding: Finding) -> None:
        """Record a finding that has been made already."""
        self.add(key, lambda: finding)

    def extend(self, findings: Iterable[Finding]) -> None:
        """Merge findings of another process."""
        for finding in findings:
            key = (finding.kind, finding.operation, finding.buffer)
            if key in self._kept:
                self._count[key] += finding.count
            elif len(self._kept) < self.limit:
                self._kept[key] = finding
                self._count[key] = finding.count

    def collected(self) -> list[Finding]:
        """All findings, errors first, in the order in which they came up."""
        counted = [Finding(**{**found.__dict__, "count": self._count[key]}) for key, found in self._kept.items()]
        return sorted(counted, key=lambda finding: finding.severity == "note")
