"""Per-thread memory: one copy of a buffer for each lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilegen.interp.findings import Site
from tilegen.interp.frame import Frame
from tilegen.interp.memory import same_values
from tilegen.interp.number_formats import Array, poison, storage_dtype
from tilegen.interp.watch import Watch


@dataclass
class LocalStorage:
    """Per-thread memory (``local`` and ``local.var``): one copy for each lane, as many as its values need.

    ``data`` has the lane axes first. While all lanes agree they are of size one.
    """

    name: str
    dtype: str
    scope: str
    shape: tuple[int, ...]
    axes: int
    data: Array = field(init=False)
    written: Array = field(init=False)
    watches: list[Watch] = field(default_factory=list)

    def __post_init__(self) -> None:
        shape = (1,) * self.axes + self.shape
        # The CUDA that TileLang prints gives a variable a value, 0, and an array none.
        start = 0 if self.scope == "local.var" else poison(self.dtype)
        self.data = np.full(shape, start, dtype=storage_dtype(self.dtype))
        self.written = np.zeros(shape, dtype=np.bool_)

    def attach(self, watches: Sequence[Watch]) -> None:
        """Watch those elements that belong to this buffer, in the copies of all lanes."""
        self.watches = [watch for watch in watches if watch.buffer == self.name]
        for watch in self.watches:
            watch.check(self.name, self.shape)

    def show(self, frame: Frame, site: Site) -> None:
        for watch in self.watches:
            place: Any = (Ellipsis, *watch.index)
            value = self.data[place]
            watch.show(frame, site, value.reshape(-1)[0] if value.size == 1 else value.reshape(-1))

    def clone(self) -> LocalStorage:
        copy = LocalStorage(self.name, self.dtype, self.scope, self.shape, self.axes)
        copy.data, copy.written, copy.watches = self.data.copy(), self.written.copy(), self.watches
        return copy

    def select_threads(self, chosen: Array) -> LocalStorage:
        """The copies of a part of the threads (positions on the thread axis)."""
        copy = self.clone()
        if copy.data.shape[0] > 1:
            copy.data, copy.written = copy.data[chosen], copy.written[chosen]
        return copy

    def view(self, name: str, dtype: str, shape: tuple[int, ...]) -> LocalView:
        """Another shape or dtype of this memory. Where the width of an element differs, unwritten elements are not tracked."""
        if storage_dtype(dtype).itemsize != self.data.itemsize:
            self.written[...] = True
        return LocalView(name, dtype, self.scope, shape, self)

    def widen(self, lanes: tuple[int, ...]) -> None:
        """Give every lane of the shape ``lanes`` its own copy."""
        have = self.data.shape[: self.axes]
        want = np.broadcast_shapes(have, lanes)
        if want != have:
            self.data = np.broadcast_to(self.data, want + self.shape).copy()
            self.written = np.broadcast_to(self.written, want + self.shape).copy()

    def collapse(self, axis: int) -> None:
        """Leave a parallel loop: which iteration a thread ran last is not defined, so values that differ are lost."""
        if self.data.shape[axis] == 1:
            return
        first = self.data.take([0], axis=axis)
        agree = same_values(np.broadcast_to(first, self.data.shape), self.data).all(axis=axis, keepdims=True)
        self.written = np.ascontiguousarray(self.written.all(axis=axis, keepdims=True) & agree)
        self.data = np.where(self.written, first, poison(self.dtype)).astype(first.dtype)


@dataclass
class LocalView:
    """Per-thread memory under another shape or dtype: everything is kept by its ``root``."""

    name: str
    dtype: str
    scope: str
    shape: tuple[int, ...]
    root: LocalStorage
    watches: Sequence[Watch] = ()

    @property
    def axes(self) -> int:
        return self.root.axes

    @property
    def data(self) -> Array:
        lanes = self.root.data.shape[: self.axes]
        flat = self.root.data.reshape(*lanes, -1).view(storage_dtype(self.dtype))
        return flat.reshape(lanes + self.shape)

    @property
    def written(self) -> Array:
        lanes = self.root.data.shape[: self.axes]
        if storage_dtype(self.dtype).itemsize != self.root.data.itemsize:
            return np.ones(lanes + self.shape, dtype=np.bool_)
        return self.root.written.reshape(lanes + self.shape)

    def widen(self, lanes: tuple[int, ...]) -> None:
        """Give every lane of the shape ``lanes`` its own copy."""
        self.root.widen(lanes)

    def collapse(self, axis: int) -> None:
        """The memory itself is collapsed by its root."""

    def show(self, frame: Frame, site: Site) -> None:
        """Elements are watched under the name that the memory was allocated with."""

    def of(self, root: LocalStorage) -> LocalView:
        """The same view of a copy of the memory."""
        return LocalView(self.name, self.dtype, self.scope, self.shape, root)
