"""Ordering of accesses to shared memory by the threads of one role, for code in terms of thread indices.

TileLang inserts the barriers that such code needs, unless the kernel switches that off (``tl.disable_thread_storage_sync``);
only then is there anything to check. The threads of a role run in step here, so each element keeps who touched it last and
in which epoch: a barrier begins a new epoch for all threads of the role, ``sync_warp`` one for the threads of a warp.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilegen.interp.findings import Site
from tilegen.interp.frame import Frame
from tilegen.interp.number_formats import Array

if TYPE_CHECKING:
    from tilegen.interp.memory import Storage

WARP = 32
_epochs = itertools.count(1)


@dataclass
class Touched:
    """For each element of a buffer: the thread that read or wrote it last, and the epochs in which it did."""

    thread: Array
    epoch: Array
    warp_epoch: Array

    @staticmethod
    def never(size: int) -> Touched:
        return Touched(*(np.zeros(size, dtype=np.int64) for _ in range(3)))


@dataclass
class ThreadOrder:
    """What the threads of a block did to shared memory since their last barriers."""

    written: dict[int, Touched] = field(default_factory=dict)
    read: dict[int, Touched] = field(default_factory=dict)

    def note_read(
        self, frame: Frame, site: Site, storage: Storage, index: tuple[Array, ...], active: Array | None
    ) -> None:
        """Lanes read the elements ``index`` (arrays that broadcast over the lanes)."""
        flat, threads = _by_lane(frame, storage, index, active)
        if flat is None:
            return
        self._check(frame, site, storage, flat, threads, self.written, "read", "wrote")
        _note(frame, self.read.setdefault(storage.memory_id, Touched.never(storage.data.size)), flat, threads)

    def note_write(self, frame: Frame, site: Site, storage: Storage, flat: Array, threads: Array) -> None:
        """The threads ``threads`` write the elements ``flat``, one each."""
        self._check(frame, site, storage, flat, threads, self.written, "written", "wrote")
        self._check(frame, site, storage, flat, threads, self.read, "written", "read")
        _note(frame, self.written.setdefault(storage.memory_id, Touched.never(storage.data.size)), flat, threads)

    def _check(
        self,
        frame: Frame,
        site: Site,
        storage: Storage,
        flat: Array,
        threads: Array,
        earlier: dict[int, Touched],
        verb: str,
        other: str,
    ) -> None:
        touched = earlier.get(storage.memory_id)
        if touched is None:
            return
        before = touched.thread[flat]
        race = (touched.epoch[flat] == frame.epoch) & (before != threads)
        race &= (before // WARP != threads // WARP) | (touched.warp_epoch[flat] == frame.warp_epoch)
        if race.any():
            lane = int(np.argmax(race))
            place = [int(part) for part in np.unravel_index(int(flat[lane]), storage.data.shape)]
            frame.report(
                "shared-race",
                site,
                lambda: (
                    f"{storage.name}[{', '.join(map(str, place))}] is {verb} by thread {int(threads[lane])} with no "
                    f"barrier after thread {int(before[lane])}, which {other} it"
                ),
                storage.name,
                place,
            )


def new_epoch(frame: Frame) -> None:
    """All threads of the frame have met at a barrier."""
    frame.epoch = next(_epochs)
    frame.warp_epoch = next(_epochs)


def new_warp_epoch(frame: Frame) -> None:
    """The threads of each warp have met."""
    frame.warp_epoch = next(_epochs)


def threads_of_lanes(frame: Frame, shape: tuple[int, ...]) -> Array | None:
    """The thread of each lane of ``shape``; None where the lanes are not those of the threads."""
    if not shape or shape[0] != frame.threads.size:
        return None
    column = frame.threads.reshape((-1,) + (1,) * (len(shape) - 1))
    return np.broadcast_to(column, shape)


def _by_lane(
    frame: Frame, storage: Storage, index: tuple[Array, ...], active: Array | None
) -> tuple[Array | None, Array]:
    shape = np.broadcast_shapes(*(part.shape for part in index), () if active is None else active.shape)
    threads = threads_of_lanes(frame, shape)
    if threads is None:
        return None, frame.threads
    flat = np.ravel_multi_index(tuple(np.broadcast_to(part, shape) for part in index), storage.data.shape)
    if active is None:
        return flat.reshape(-1), threads.reshape(-1)
    chosen = np.broadcast_to(active, shape)
    return flat[chosen], threads[chosen]


def _note(frame: Frame, touched: Touched, flat: Array, threads: Array) -> None:
    touched.thread[flat] = threads
    touched.epoch[flat] = frame.epoch
    touched.warp_epoch[flat] = frame.warp_epoch
