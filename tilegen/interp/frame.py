"""The state that compiled code runs against: one frame for each set of threads that executes together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tilegen.interp.findings import Finding, Findings, Site, StoppedBlockError
from tilegen.interp.number_formats import Array

if TYPE_CHECKING:
    from tilegen.interp.barriers import Barriers, GridBarrier
    from tilegen.interp.coroutines import Task
    from tilegen.interp.races import AccessLog
    from tilegen.interp.thread_order import ThreadOrder
    from tilegen.interp.watch import Watch


@dataclass(frozen=True)
class Event:
    """The first NaN or infinity that a block computed from finite operands."""

    kind: str
    finding: Finding
    reported: bool = False


@dataclass
class Block:
    """One thread block: its place in the grid, its findings and what its threads share."""

    coordinates: tuple[int, ...]
    number: int
    threads: int
    findings: Findings
    diagnostics: bool
    barriers: Barriers
    access_log: AccessLog | None = None
    watches: tuple[Watch, ...] = ()
    grid: GridBarrier | None = None
    thread_order: ThreadOrder | None = None
    non_finite: dict[str, Event] = field(default_factory=dict)
    #: The extents of the grid.
    grid_extents: tuple[int, ...] = ()
    print_line: Callable[[str], None] = print
    #: Blocks whose writes this block may read: those that it met through an atomic operation.
    met: int = 0
    #: Whether it has used an atomic operation on global memory.
    has_flags: bool = False

    def name_of(self, number: int) -> str:
        """Another block of the grid, by its number, as findings name it."""
        place, number = [], int(number)
        for extent in self.grid_extents:
            place.append(number % extent)
            number //= extent
        return f"block {tuple(place)}"


class Frame:
    """One set of threads in lockstep.

    ``environment`` holds the value of every TIR variable by slot: a Python number where all threads agree, otherwise an
    array with one axis for the threads and one for each T.Parallel or T.vectorized loop (see ``lanes``). ``memory`` holds
    the storage of every buffer by slot. ``mask`` says which lanes are active; None means all.
    """

    __slots__ = (
        "acting",
        "agent",
        "block",
        "broken",
        "clock",
        "committed",
        "copies",
        "drained",
        "environment",
        "epoch",
        "issued",
        "kept",
        "mask",
        "memory",
        "returned",
        "skipped",
        "stage",
        "stores",
        "synced",
        "task",
        "threads",
        "unpublished",
        "waited",
        "warp_epoch",
    )

    def __init__(self, block: Block, environment: list[Any], memory: list[Any], threads: Array) -> None:
        self.block = block
        self.environment = environment
        self.memory = memory
        self.threads = threads
        self.mask: Array | None = None
        self.returned: Array | None = None
        self.broken: Array | None = None
        self.skipped: Array | None = None
        self.task: Task | None = None
        #: Fragments as roles left them: (threads, slot) to (version, storage).
        self.kept: dict[tuple[bytes, int], tuple[int, Any]] = {}
        #: For the order of accesses (see ``races``): the agent, its clock, and the asynchronous operation it now acts for.
        self.agent = 0
        self.clock: dict[Any, int] = {}
        self.synced: dict[Any, int] = {}
        self.acting: tuple[Any, ...] | None = None
        self.stage: tuple[int, ...] = ()
        #: Warp-group products issued, and how many of them are known to be complete.
        self.issued = 0
        self.waited = 0
        #: Bulk stores issued so far, by agent.
        self.stores: dict[int, int] = {}
        #: How far the thread that waited for them knows them to be complete.
        self.drained: dict[Any, int] = {}
        #: ``cp.async`` copies: the number of the group that is open, and those of the groups committed so far.
        self.copies = 1
        self.committed: list[int] = []
        #: Since which barrier, of the role and of the warp, the threads have not met (see ``thread_order``).
        self.epoch = 0
        #: Whether its threads wrote global memory since they last met: a flag that one of them sets does not cover that.
        self.unpublished = False
        self.warp_epoch = 0

    def fork(self, threads: Array) -> Frame:
        """A frame for a part of the threads, with its own variables and its own view of per-thread memory."""
        return Frame(self.block, list(self.environment), list(self.memory), threads)

    def active_threads(self) -> int:
        """How many threads execute the present operation."""
        if self.mask is None:
            return int(self.threads.size)
        lanes = self.mask.reshape(self.mask.shape[0], -1).any(axis=1)
        return int(self.threads.size) if lanes.size == 1 else int(np.count_nonzero(lanes))

    def report(
        self,
        kind: str,
        site: Site,
        message: Callable[[], str] | str,
        buffer: str = "",
        index: Sequence[int] | None = None,
    ) -> None:
        """Record a finding at ``site``; ``message`` may be a callable so that a repeated finding costs nothing."""
        if not self.block.diagnostics:
            return
        self.block.findings.add(
            (kind, site_key(site), buffer), lambda: self.finding(kind, site, message, buffer, index)
        )

    def stop(
        self, kind: str, site: Site, message: str, buffer: str = "", index: Sequence[int] | None = None
    ) -> NoReturn:
        """Record what keeps the block from going on, whether diagnostics are on or not, and end the block."""
        found = self.finding(kind, site, message, buffer, index)
        self.block.findings.keep((kind, site_key(site), buffer), found)
        raise StoppedBlockError

    def finding(
        self,
        kind: str,
        site: Site,
        message: Callable[[], str] | str,
        buffer: str = "",
        index: Sequence[int] | None = None,
    ) -> Finding:
        return Finding(
            kind=kind,
            message=message if isinstance(message, str) else message(),
            operation=site.operation,
            buffer=buffer,
            index=None if index is None else tuple(int(part) for part in index),
            block=self.block.coordinates,
            loops=tuple(site.loop_values(self.environment).items()),
            place="" if site.place is None else str(site.place),
            source="" if site.place is None else site.place.text,
        )


def site_key(site: Site) -> int:
    return id(site)
