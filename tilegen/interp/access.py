"""Element accesses, ``buffer[i, j]``: a slice where the index is affine in the lanes, else a gather or a scatter.

TileLang guards accesses of global memory that it cannot prove to be inside the buffer: a load outside gives the buffer's safe
value (0 unless annotated), a store outside is dropped. That is its tail semantics, so it is no finding here, except where
the index is a constant (which TileLang does not guard) or the guard is switched off. Anything else outside is a finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.interp.findings import Site
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Code, as_scalar, combine_masks
from tilegen.interp.local_memory import LocalStorage, LocalView
from tilegen.interp.memory import Key, Storage
from tilegen.interp.number_formats import Array
from tilegen.interp.thread_order import threads_of_lanes


@dataclass(frozen=True)
class Dimension:
    """One index of an access: ``base + offset + step * lane`` along lane axis ``axis`` (-1: no lane axis)."""

    base: Any
    offset: int
    axis: int
    step: int
    extent_slot: int


class ElementAccess:
    """A compiled ``buffer[indices]``."""

    def __init__(
        self,
        slot: int,
        indices: Sequence[Code],
        site: Site,
        axes: int,
        extent_slots: dict[int, int],
        guarded: bool,
    ) -> None:
        self.slot = slot
        self.site = site
        self.axes = axes
        self.indices = list(indices)
        self.guarded = guarded and any(code.const is None for code in indices)
        self.dimensions = _dimensions(indices, extent_slots)
        sliced = [dimension.axis for dimension in self.dimensions or () if dimension.axis >= 0]
        self.sliced = frozenset(sliced)
        self.extent_slots = [dimension.extent_slot for dimension in self.dimensions or () if dimension.axis >= 0]
        self.is_fixed = self.dimensions is not None and all(dimension.base is None for dimension in self.dimensions)
        self.fixed: tuple[Any, Any, Key] | None = None
        self.permutation = None if sliced == sorted(sliced) else tuple(int(i) for i in np.argsort(sliced))
        self.expander = tuple(slice(None) if axis in self.sliced else None for axis in range(axes))

    def orient(self, view: Array) -> Array:
        """Bring a view of the buffer to the lane axes."""
        if self.permutation is not None:
            view = view.transpose(self.permutation)
        return view[self.expander]

    def key(self, frame: Frame, shape: tuple[int, ...]) -> Key | None:
        """The basic numpy index of the access; None where it leaves the buffer or is not affine in the lanes."""
        if self.dimensions is None:
            return None
        if self.is_fixed:
            extents = [frame.environment[slot] for slot in self.extent_slots]
            if self.fixed is not None and self.fixed[0] == shape and self.fixed[1] == extents:
                return self.fixed[2]
            key = self._compute_key(frame, shape)
            if key is not None:
                self.fixed = (shape, extents, key)
            return key
        return self._compute_key(frame, shape)

    def _compute_key(self, frame: Frame, shape: tuple[int, ...]) -> Key | None:
        assert self.dimensions is not None
        key: list[Any] = []
        for dimension, extent in zip(self.dimensions, shape, strict=True):
            start = dimension.offset
            if dimension.base is not None:
                base = dimension.base(frame)
                if type(base) is not int:
                    base = as_scalar(base)
                    if not isinstance(base, int):
                        return None
                start += base
            if dimension.axis < 0:
                if not 0 <= start < extent:
                    return None
                key.append(start)
                continue
            step = dimension.step
            last = start + step * (frame.environment[dimension.extent_slot] - 1)
            if not (0 <= start < extent and 0 <= last < extent):
                return None
            key.append(slice(start, last + 1 if step > 0 else (last - 1 if last else None), step))
        key.append(Ellipsis)
        return tuple(key)

    def load(self, frame: Frame) -> Any:
        storage = frame.memory[self.slot]
        if isinstance(storage, (LocalStorage, LocalView)):
            return self._load_local(frame, storage)
        key = self.key(frame, storage.data.shape)
        if key is None:
            return self._gather(frame, storage)
        if self.sliced:
            return storage.read(frame, self.site, key, self.orient, frame.mask)
        value = storage.read(frame, self.site, key, None, None if frame.mask is None else frame.mask.any())[()]
        return as_scalar(value)

    def store(self, frame: Frame, value: Any) -> None:
        storage = frame.memory[self.slot]
        if isinstance(storage, (LocalStorage, LocalView)):
            self._store_local(frame, storage, value)
            if storage.watches:
                storage.show(frame, self.site)
            return
        key = self.key(frame, storage.data.shape)
        mask = frame.mask
        if key is None or self._varies_elsewhere(value) or (mask is not None and self._varies_elsewhere(mask)):
            self._scatter(frame, storage, value)
            return
        if self.sliced:
            storage.write(frame, self.site, key, value, self.orient, mask)
        elif mask is None or mask.any():
            storage.write(frame, self.site, key, as_scalar(value))

    def _varies_elsewhere(self, value: Any) -> bool:
        """Whether a value varies along a lane axis that does not choose the element: several lanes then write one element."""
        return isinstance(value, np.ndarray) and any(
            extent > 1 and axis not in self.sliced for axis, extent in enumerate(value.shape)
        )

    def evaluate_indices(self, frame: Frame) -> list[Array]:
        return [np.asarray(code.run(frame), dtype=np.int64) for code in self.indices]

    def locate(self, frame: Frame, storage: Storage) -> tuple[list[Array], Array]:
        """Index arrays clipped to the buffer, and which lanes are inside it; active lanes outside are reported."""
        indices = self.evaluate_indices(frame)
        inside: Array = np.ones((), dtype=np.bool_)
        for index, extent in zip(indices, storage.data.shape, strict=True):
            inside = inside & (index >= 0) & (index < extent)
        if not inside.all():
            active = ~inside if frame.mask is None else ~inside & frame.mask
            if active.any() and not (storage.is_global and self.guarded):
                self._report_outside(frame, storage, indices, active)
        clipped = [np.clip(index, 0, extent - 1) for index, extent in zip(indices, storage.data.shape, strict=True)]
        return clipped, inside

    def _gather(self, frame: Frame, storage: Storage) -> Any:
        if 0 in storage.data.shape:
            return storage.data.dtype.type(storage.safe_value)
        indices, inside = self.locate(frame, storage)
        valid = inside if frame.mask is None else inside & frame.mask
        value = storage.gather(frame, self.site, tuple(indices), valid)
        order = frame.block.thread_order
        if order is not None and storage.shared_between_roles:
            order.note_read(frame, self.site, storage, tuple(indices), valid)
        if not inside.all():
            value = np.where(inside, value, storage.data.dtype.type(storage.safe_value))
        return as_scalar(value)

    def _scatter(self, frame: Frame, storage: Storage, value: Any) -> None:
        if 0 in storage.data.shape:
            return
        indices, inside = self.locate(frame, storage)
        active = combine_masks(inside, frame.mask)
        assert active is not None
        value = np.asarray(value)
        shape = np.broadcast_shapes(active.shape, value.shape, *(index.shape for index in indices))
        chosen = np.broadcast_to(active, shape).reshape(-1)
        if not chosen.any():
            return
        picked = tuple(np.broadcast_to(index, shape).reshape(-1)[chosen] for index in indices)
        values = np.broadcast_to(value, shape).reshape(-1)[chosen]
        flat = np.ravel_multi_index(picked, storage.data.shape) if picked else np.zeros(1, dtype=np.int64)
        order = np.argsort(flat, kind="stable")
        repeated = flat[order][1:] == flat[order][:-1]
        if repeated.any():
            values = values.astype(storage.data.dtype)
            clash = repeated & (values[order][1:] != values[order][:-1])
            if clash.any():
                place = int(order[1:][clash][0])
                self._report_double_write(frame, storage, tuple(int(part[place]) for part in picked))
            last = order[np.append(~repeated, True)]
            picked, values = tuple(part[last] for part in picked), values[last]
        storage.scatter(frame, self.site, picked, values)
        log = frame.block.thread_order
        threads = threads_of_lanes(frame, shape) if log is not None and storage.shared_between_roles else None
        if log is not None and threads is not None:
            places, first = np.unique(flat, return_index=True)
            log.note_write(frame, self.site, storage, places, threads.reshape(-1)[chosen][first])

    def _load_local(self, frame: Frame, storage: LocalStorage | LocalView) -> Any:
        index = self._local_index(frame, storage, ())
        written = storage.written[index]
        if not written.all():
            missing = ~written if frame.mask is None else ~written & frame.mask
            if missing.any():
                self._report_unwritten_local(frame, storage)
        return as_scalar(storage.data[index])

    def _store_local(self, frame: Frame, storage: LocalStorage | LocalView, value: Any) -> None:
        shape = value.shape if isinstance(value, np.ndarray) and value.ndim == self.axes else ()
        mask = frame.mask
        if mask is not None:
            shape = np.broadcast_shapes(shape, mask.shape)
        index = self._local_index(frame, storage, shape)
        if any(isinstance(part, np.ndarray) for part in index):
            lanes = np.broadcast_shapes(*(part.shape for part in index if isinstance(part, np.ndarray)))
            active = None if mask is None else np.broadcast_to(mask, lanes)
            values = np.broadcast_to(np.asarray(value), lanes)
            if active is None:
                storage.data[index], storage.written[index] = values, True
            else:
                picked = tuple(np.broadcast_to(part, lanes)[active] for part in index)
                storage.data[picked], storage.written[picked] = values[active], True
            return
        if mask is None:
            storage.data[index] = value
            storage.written[index] = True
        else:
            np.copyto(storage.data[index], value, where=mask, casting="unsafe")
            np.logical_or(storage.written[index], mask, out=storage.written[index])

    def _local_index(self, frame: Frame, storage: LocalStorage | LocalView, lanes: tuple[int, ...]) -> tuple[Any, ...]:
        """The numpy index of the element in every lane's copy, after giving the lanes their own copies where needed."""
        indices = [as_scalar(code.run(frame)) for code in self.indices]
        for position, (index, extent) in enumerate(zip(indices, storage.shape, strict=True)):
            if type(index) is int and 0 <= index < extent:
                continue
            outside = (np.asarray(index) < 0) | (np.asarray(index) >= extent)
            if frame.mask is not None and outside.any():
                outside = outside & frame.mask
            if outside.any():
                self._report_local_outside(frame, storage, indices)
            if np.any((np.asarray(index) < 0) | (np.asarray(index) >= extent)):
                indices[position] = as_scalar(np.clip(index, 0, extent - 1))
        arrays = [index for index in indices if isinstance(index, np.ndarray)]
        if arrays:
            lanes = np.broadcast_shapes(lanes, *(index.shape for index in arrays))
        if lanes:
            storage.widen(lanes)
        if not arrays:
            return (Ellipsis, *indices)
        grid = np.ogrid[tuple(slice(extent) for extent in storage.data.shape[: storage.axes])]
        return (*grid, *(np.asarray(index) for index in indices))

    def _report_outside(self, frame: Frame, storage: Storage, indices: Sequence[Array], active: Array) -> None:
        place = tuple(int(np.broadcast_to(index, active.shape)[active][0]) for index in indices)
        shape = storage.data.shape
        frame.report(
            "out-of-bounds",
            self.site,
            lambda: f"{storage.name}[{_join(place)}] is outside its shape ({_join(shape)}), {storage.scope} memory",
            storage.name,
            place,
        )

    def _report_local_outside(self, frame: Frame, storage: LocalStorage | LocalView, indices: Sequence[Any]) -> None:
        place = tuple(int(np.asarray(index).reshape(-1)[0]) for index in indices)
        for index, extent in zip(indices, storage.shape, strict=True):
            array = np.asarray(index)
            bad = array[(array < 0) | (array >= extent)]
            if bad.size:
                place = (*place[:-1], int(bad.reshape(-1)[0])) if len(place) == 1 else place
        frame.report(
            "out-of-bounds",
            self.site,
            lambda: (
                f"{storage.name}[{_join(place)}] is outside its shape ({_join(storage.shape)}), {storage.scope} memory"
            ),
            storage.name,
            place,
        )

    def _report_unwritten_local(self, frame: Frame, storage: LocalStorage | LocalView) -> None:
        if storage.scope == "local.var":
            message = (
                f"the variable {storage.name} is read before anything writes it: the CUDA that TileLang prints starts it "
                "at 0; say so, with T.alloc_var(dtype, 0)"
            )
            frame.report("implicit-zero", self.site, message, storage.name)
            return
        frame.report(
            "uninitialised-read",
            self.site,
            f"{storage.name} ({storage.scope}) is read before anything writes it, in some thread or iteration",
            storage.name,
        )

    def _report_double_write(self, frame: Frame, storage: Storage, place: tuple[int, ...]) -> None:
        frame.report(
            "double-write",
            self.site,
            lambda: (
                f"{storage.name}[{_join(place)}] ({storage.scope}) is written by two iterations or threads "
                "of this statement with different values"
            ),
            storage.name,
            place,
        )


def _dimensions(indices: Sequence[Code], extent_slots: dict[int, int]) -> tuple[Dimension, ...] | None:
    """The affine form of each index; None where one uses two lane axes, or two use the same."""
    dimensions, used = [], set()
    for code in indices:
        affine = code.as_affine()
        if len(affine.steps) > 1:
            return None
        axis, step = affine.steps[0] if affine.steps else (-1, 0)
        if axis in used:
            return None
        if axis >= 0:
            used.add(axis)
        dimensions.append(Dimension(affine.base, affine.offset, axis, step, extent_slots.get(axis, -1)))
    return tuple(dimensions)


def _join(numbers: Sequence[int]) -> str:
    return ", ".join(str(number) for number in numbers)
