"""Storage of buffers, with what is known about each element: written or not, and by which block.

All reads and writes of shared, fragment and global memory go through ``Storage``, which is where uninitialised reads, races
and watched elements are seen. ``key`` is a basic numpy index (integers, slices and a trailing Ellipsis), so that
``data[key]`` is always a view; ``orient`` turns that view to the axes of the operation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilegen.interp.findings import Site
from tilegen.interp.frame import Frame
from tilegen.interp.number_formats import Array, poison, storage_dtype
from tilegen.interp.places import Place
from tilegen.interp.watch import Watch

_versions = itertools.count(1)

Key = tuple[Any, ...]
Orient = Callable[[Array], Array]


@dataclass
class Storage:
    """The elements of one buffer.

        ``written`` is None once every element is known to be written, else one flag an element. ``writer`` (global buffers that
    X"""

    name: str
    dtype: str
    scope: str
    data: Array
    written: Array | None = None
    writer: Array | None = None
    check_readers: bool = False
    shared_between_roles: bool = False
    watches: list[Watch] = field(default_factory=list)
    safe_value: Any = 0
    unwritten: int = 0
    version: int = 0
    memory_id: int = 0
    #: The last warp-group product that accumulates into this fragment, and the last that reads it.
    accumulated_by: int = 0
    read_by: int = 0
    #: The lines of source that write it; None stands for a statement whose line is not known.
    write_places: list[Place | None] = field(default_factory=list)
    atomic_history: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def poisoned(name: str, dtype: str, scope: str, shape: Sequence[int], tracked: bool = True) -> Storage:
        """Memory that nothing has written yet."""
        data = np.full(tuple(shape), poison(dtype), dtype=storage_dtype(dtype))
        written = np.zeros(data.shape, dtype=np.bool_) if tracked else None
        storage = Storage(name, dtype, scope, data, written)
        storage.unwritten = data.size if tracked else 0
        storage.shared_between_roles = scope.startswith("shared")
        storage.memory_id = next(_versions)
        return storage

    def clone(self) -> Storage:
        """A copy of a fragment, for a role of its own."""
        written = None if self.written is None else self.written.copy()
        copy = Storage(self.name, self.dtype, self.scope, self.data.copy(), written)
        copy.unwritten, copy.write_places = self.unwritten, self.write_places
        copy.version, copy.watches, copy.shared_between_roles = self.version, self.watches, self.shared_between_roles
        return copy

    @property
    def is_global(self) -> bool:
        return self.scope == "global"

    def read(
        self, frame: Frame, site: Site, key: Key, orient: Orient | None = None, mask: Array | None = None
    ) -> Array:
        """A view of the elements at ``key``, with the read checked."""
        view: Array = self.data[key]
        if self.accumulated_by > frame.waited:
            self._report_in_flight(frame, site, "read")
        if self.written is not None:
            self._check_written(frame, site, key, orient, mask)
        if self.check_readers:
            self._check_block_race(frame, site, key, orient, mask)
        if self.shared_between_roles and frame.block.access_log is not None:
            frame.block.access_log.read(frame, site, self, key)
        return view if orient is None else orient(view)

    def write(
        self,
        frame: Frame,
        site: Site,
        key: Key,
        value: Any,
        orient: Orient | None = None,
        mask: Array | None = None,
    ) -> None:
        """Store ``value`` (broadcast) at ``key`` where ``mask`` holds."""
        self.version = next(_versions)
        if self.accumulated_by > frame.waited or self.read_by > frame.waited:
            self._report_in_flight(frame, site, "written")
        view: Array = self.data[key]
        if orient is not None:
            view = orient(view)
        claimed = None
        if self.writer is not None:
            claimed = self._claim(frame, key, orient, mask, view)
            self._note_unpublished(frame, any(isinstance(part, slice) for part in key))
        if mask is None:
            view[...] = value
        else:
            np.copyto(view, value, where=mask, casting="unsafe")
        if claimed is not None:
            self._check_claim(frame, site, key, view, claimed)
        if self.written is not None:
            self._mark_written(key, orient, mask)
        if self.shared_between_roles and frame.block.access_log is not None:
            frame.block.access_log.write(frame, site, self, key)
        if self.watches:
            self._show(frame, site)

    def gather(self, frame: Frame, site: Site, index: tuple[Array, ...], valid: Array | None) -> Array:
        """The elements at the given index arrays (already inside the buffer); lanes that are not ``valid`` are not checked."""
        if self.written is not None:
            missing = ~self.written[index]
            if valid is not None:
                missing &= valid
            if missing.any():
                self._report_unwritten(frame, site, tuple(int(part[missing][0]) for part in _spread(index, missing)))
        if self.check_readers and self.writer is not None:
            self._report_foreign(frame, site, index, self.writer[index], valid)
        if self.shared_between_roles and frame.block.access_log is not None:
            frame.block.access_log.read(frame, site, self, index)
        result: Array = self.data[index]
        return result

    def scatter(self, frame: Frame, site: Site, index: tuple[Array, ...], value: Array) -> None:
        """Store ``value`` at one-dimensional index arrays that are inside the buffer and name no element twice."""
        self.version = next(_versions)
        if self.writer is not None:
            owner = self.writer[index]
            foreign = _foreign(owner, frame)
            old = self.data[index] if foreign.any() else None
            self.writer[index] = frame.block.number + 1
            self.data[index] = value
            self._note_unpublished(frame, index[0].size > 1 if index else False)
            if old is not None:
                changed = foreign & ~same_values(old, self.data[index])
                if changed.any():
                    self._report_overwrite(
                        frame, site, tuple(int(part[changed][0]) for part in index), owner[changed][0]
                    )
        else:
            self.data[index] = value
        if self.written is not None:
            before = np.count_nonzero(self.written[index])
            self.written[index] = True
            self._count_down(index[0].size - before if index else 1)
        if self.shared_between_roles and frame.block.access_log is not None:
            frame.block.access_log.write(frame, site, self, index)
        if self.watches:
            self._show(frame, site)

    def _note_unpublished(self, frame: Frame, shares: bool) -> None:
        """Remember that threads wrote global memory, unless each of them wrote the same element."""
        frame.unpublished = frame.unpublished or (shares and frame.active_threads() > 1)

    def touch_atomically(self, frame: Frame, index: tuple[Array, ...]) -> None:
        """Note an atomic access: atomics never race with each other, and order the blocks that meet at an element."""
        if self.writer is None:
            return
        self.writer[index] = 0
        block = frame.block
        block.has_flags = True
        # What one thread says of a block holds for what all its threads wrote before they last met.
        published = not frame.unpublished or frame.active_threads() == frame.threads.size
        for flat in np.ravel_multi_index(index, self.data.shape)[:4].tolist():
            block.met |= self.atomic_history.get(flat, 0)
            self.atomic_history[flat] = block.met | (1 << block.number if published else 0)

    def element(self, key: Key, orient: Orient | None, lane: tuple[int, ...]) -> tuple[int, ...]:
        """Which element of the buffer a lane of ``orient(data[key])`` is."""
        grid = np.arange(self.data.size).reshape(self.data.shape)[key]
        flat = (grid if orient is None else orient(grid))[lane]
        return tuple(int(part) for part in np.unravel_index(int(flat), self.data.shape))

    def _report_in_flight(self, frame: Frame, site: Site, verb: str) -> None:
        if frame.acting is None:
            frame.report(
                "in-flight",
                site,
                f"{self.name} is {verb} while a warp-group product that uses it may still be in flight; wait_wgmma comes first",
                self.name,
            )

    def _check_written(self, frame: Frame, site: Site, key: Key, orient: Orient | None, mask: Array | None) -> None:
        assert self.written is not None
        flags = self.written[key]
        if orient is not None:
            flags = orient(flags)
        if flags.all():
            return
        missing = ~flags if mask is None else ~flags & mask
        if missing.any():
            lane = _first(missing, flags.shape)
            self._report_unwritten(frame, site, self.element(key, orient, lane))

    def _report_unwritten(self, frame: Frame, site: Site, index: tuple[int, ...]) -> None:
        frame.report(
            "uninitialised-read",
            site,
            lambda: (
                f"{self._place(index)} is read before anything writes it{site.mend and f' ({site.mend})'}"
                f"{self.writers(site) or ('' if self.write_places else '; the kernel never writes it')}"
            ),
            self.name,
            index,
        )

    def _mark_written(self, key: Key, orient: Orient | None, mask: Array | None) -> None:
        assert self.written is not None
        flags = self.written[key]
        if orient is not None:
            flags = orient(flags)
        before = np.count_nonzero(flags)
        if mask is None:
            flags[...] = True
            self._count_down(flags.size - before)
        else:
            np.logical_or(flags, mask, out=flags)
            self._count_down(np.count_nonzero(flags) - before)

    def _count_down(self, written: Any) -> None:
        """Stop keeping flags once every element is written. The count may be too high where a view wrote elements."""
        self.unwritten -= int(written)
        if self.unwritten <= 0 and self.written is not None:
            self.unwritten = self.written.size - int(np.count_nonzero(self.written))
            if self.unwritten == 0:
                self.written = None

    def _check_block_race(self, frame: Frame, site: Site, key: Key, orient: Orient | None, mask: Array | None) -> None:
        if self.writer is None:
            return
        owner = self.writer[key]
        if not owner.any():
            return
        oriented = owner if orient is None else orient(owner)
        bad = _foreign(oriented, frame) if mask is None else _foreign(oriented, frame) & mask
        if bad.any():
            lane = _first(bad, oriented.shape)
            self._report_read_race(frame, site, self.element(key, orient, lane), int(oriented[lane]) - 1)

    def _report_foreign(
        self, frame: Frame, site: Site, index: tuple[Array, ...], owner: Array, valid: Array | None
    ) -> None:
        bad = _foreign(owner, frame)
        if valid is not None:
            bad = bad & valid
        if bad.any():
            spread = _spread(index, bad)
            self._report_read_race(frame, site, tuple(int(part[bad][0]) for part in spread), int(owner[bad][0]) - 1)

    def _report_read_race(self, frame: Frame, site: Site, index: tuple[int, ...], owner: int) -> None:
        frame.report(
            "block-race",
            site,
            lambda: (
                f"{self._place(index)} is read here and written by {frame.block.name_of(owner)} "
                f"with nothing that orders the two{_UNPUBLISHED if frame.block.has_flags else ''}{self.writers(site)}"
            ),
            self.name,
            index,
        )

    def _claim(
        self, frame: Frame, key: Key, orient: Orient | None, mask: Array | None, view: Array
    ) -> tuple[Array, Array, Array] | None:
        """Take ownership of the elements; returns (foreign, owner, old values) where another block owned some."""
        assert self.writer is not None
        owner = self.writer[key]
        if orient is not None:
            owner = orient(owner)
        mine = frame.block.number + 1
        found = None
        if owner.any():
            foreign = _foreign(owner, frame)
            if mask is not None:
                foreign = foreign & mask
            if foreign.any():
                found = (foreign, owner.copy(), view.copy())
        if mask is None:
            owner[...] = mine
        else:
            np.copyto(owner, mine, where=mask)
        return found

    def _check_claim(
        self, frame: Frame, site: Site, key: Key, view: Array, claimed: tuple[Array, Array, Array]
    ) -> None:
        foreign, owner, old = claimed
        changed = foreign & ~same_values(old, view)
        if changed.any():
            lane = _first(changed, view.shape)
            # The claim is only made with the oriented view, so the element is found from its address.
            self._report_overwrite(frame, site, self._element_of_view(view, lane), int(owner[lane]))

    def _element_of_view(self, view: Array, lane: tuple[int, ...]) -> tuple[int, ...]:
        place: Any = (*lane, Ellipsis)
        offset = view[place].__array_interface__["data"][0] - self.data.__array_interface__["data"][0]
        index = []
        for stride in self.data.strides:
            index.append(offset // stride if stride else 0)
            offset -= index[-1] * stride
        return tuple(int(part) for part in index)

    def _report_overwrite(self, frame: Frame, site: Site, index: tuple[int, ...], owner: int) -> None:
        frame.report(
            "block-race",
            site,
            lambda: (
                f"{self._place(index)} is written here with another value than {frame.block.name_of(owner - 1)} wrote"
            ),
            self.name,
            index,
        )

    def writers(self, reader: Site | None) -> str:
        """Where the kernel writes this buffer, for the end of a message: what is read too early is written there."""
        places = [place for place in self.write_places if place is not None]
        if not places or len(places) < len(self.write_places):
            return ""
        if reader is not None and reader.place is not None and set(places) == {reader.place}:
            return "" if reader.mend else "; only this statement writes it: it has to be cleared or filled first"
        others = [str(place) for place in dict.fromkeys(places) if reader is None or place != reader.place]
        shown = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
        return f"; it is written at {shown}" if shown else ""

    def _place(self, index: Sequence[int]) -> str:
        return f"{self.name}[{', '.join(str(part) for part in index)}] ({self.scope})"

    def attach(self, watches: Sequence[Watch]) -> None:
        """Watch those elements that belong to this buffer."""
        self.watches = [watch for watch in watches if watch.buffer == self.name]
        for watch in self.watches:
            watch.check(self.name, self.data.shape)

    def _show(self, frame: Frame, site: Site) -> None:
        for watch in self.watches:
            if self.written is None or self.written[watch.index]:
                watch.show(frame, site, self.data[watch.index])


#: Why an atomic operation may order less than it seems to.
_UNPUBLISHED = " (a flag set by one thread covers what the others wrote only if they met at a barrier in between)"


def _foreign(owner: Array, frame: Frame) -> Array:
    """Elements that a block other than this one, and not ordered before it, wrote."""
    foreign: Array = np.asarray((owner != 0) & (owner != frame.block.number + 1))
    if frame.block.met and foreign.any():
        for block in np.unique(owner[foreign]):
            if frame.block.met >> (int(block) - 1) & 1:
                foreign &= owner != block
    return foreign


def same_values(left: Array, right: Array) -> Array:
    """Elementwise equality by value, NaN equal to NaN."""
    with np.errstate(all="ignore"):
        equal: Array = (left == right) | ((left != left) & (right != right))
    return equal


def _first(flags: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Coordinates of the first set flag, clamped to ``shape`` where the flags were broadcast."""
    position = np.unravel_index(int(np.argmax(flags)), flags.shape)
    return tuple(min(int(part), extent - 1) for part, extent in zip(position, shape, strict=True))


def _spread(index: tuple[Array, ...], like: Array) -> tuple[Array, ...]:
    return tuple(np.broadcast_to(part, like.shape) for part in index)
