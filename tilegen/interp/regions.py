"""Rectangular regions of buffers, the operands of tile operations.

A region that leaves global memory reads the safe value outside and writes nothing there: TileLang's tail semantics. A region
that leaves a shared or fragment tile is a finding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.buffer_plan import BufferPlan
from tilegen.interp.findings import Site, UnsupportedError, render
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Code, as_scalar, constant
from tilegen.interp.memory import Key, Storage
from tilegen.interp.number_formats import Array

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler


@dataclass(frozen=True)
class Region:
    """``buffer[min : min + extent, ...]``."""

    plan: BufferPlan
    minima: tuple[Code, ...]
    extents: tuple[Code, ...]
    site: Site

    @property
    def dtype(self) -> str:
        return self.plan.dtype

    def storage(self, frame: Frame) -> Storage:
        storage = frame.memory[self.plan.slot]
        if not isinstance(storage, Storage):
            raise UnsupportedError(f"the per-thread buffer {self.plan.name} is no operand of `{self.site.operation}`")
        return storage

    @cached_property
    def fixed_shape(self) -> tuple[int, ...] | None:
        """The extents where all of them are constants, as they are for nearly every tile."""
        if all(isinstance(code.const, int) for code in self.extents):
            return tuple(int(code.const) for code in self.extents)
        return None

    def starts(self, frame: Frame) -> list[int]:
        return [self._number(code, frame) for code in self.minima]

    def shape(self, frame: Frame) -> tuple[int, ...]:
        return self.fixed_shape or tuple(self._number(code, frame) for code in self.extents)

    def dense_shape(self, frame: Frame) -> tuple[int, ...]:
        """The extents other than one: what TileLang matches between the operands of a copy."""
        return tuple(extent for extent in self.shape(frame) if extent != 1)

    def _number(self, code: Code, frame: Frame) -> int:
        if code.const is not None:
            return code.const  # type: ignore[no-any-return]
        value = code.run(frame)
        if type(value) is not int:
            value = as_scalar(value)
            if not isinstance(value, int):
                message = f"a bound of the region of {self.plan.name} differs between threads"
                frame.report("divergent-value", self.site, message)
                return int(np.asarray(value).reshape(-1)[0])
        return value

    @cached_property
    def is_fixed(self) -> bool:
        """Whether the region is the same at every execution."""
        return self.fixed_shape is not None and all(isinstance(code.const, int) for code in self.minima)

    @cached_property
    def known_keys(self) -> dict[Any, Key]:
        """The indices of a fixed region that lies within its buffer, by the shapes of buffer and region."""
        return {}

    def key(self, frame: Frame, shape: tuple[int, ...] | None = None) -> tuple[Key, bool]:
        """The numpy index of the part inside the buffer, and whether that is all of the region."""
        storage = self.storage(frame)
        if self.is_fixed:
            known = self.known_keys.get((storage.data.shape, shape))
            if known is not None:
                return known, True
        key, whole = self._compute_key(frame, storage, shape)
        if self.is_fixed and whole:
            self.known_keys[storage.data.shape, shape] = key
        return key, whole

    def _compute_key(self, frame: Frame, storage: Storage, shape: tuple[int, ...] | None) -> tuple[Key, bool]:
        extents = self.shape(frame) if shape is None else shape
        key, whole = [], True
        for code, extent, limit in zip(self.minima, extents, storage.data.shape, strict=True):
            start = self._number(code, frame)
            stop = start + extent
            if start < 0 or stop > limit:
                whole = False
                low = min(max(start, 0), limit)
                start, stop = low, max(min(stop, limit), low)
            key.append(slice(start, stop))
        if not whole:
            self._check_inside(frame, storage, extents)
        return (*key, Ellipsis), whole

    def _check_inside(self, frame: Frame, storage: Storage, extents: Sequence[int]) -> None:
        if storage.is_global:
            return  # a tile operation checks its bounds itself, whatever the pass configuration says
        starts = self.starts(frame)
        ranges = ", ".join(f"{start}:{start + extent}" for start, extent in zip(starts, extents, strict=True))
        shape = ", ".join(str(extent) for extent in storage.data.shape)
        frame.report(
            "out-of-bounds",
            self.site,
            lambda: (
                f"the region {storage.name}[{ranges}] leaves the buffer, whose shape is ({shape}), {storage.scope} memory"
            ),
            storage.name,
            starts,
        )

    def _check_all_active(self, frame: Frame) -> None:
        """A tile operation is carried out by all threads of a role; which part some of them would do is not known."""
        if frame.mask is not None and not frame.mask.all():
            raise UnsupportedError(
                f"`{self.site.operation}` is reached by some threads of a role only, after a return or in a loop whose "
                "trip count differs between threads"
            )

    def read(self, frame: Frame, shape: tuple[int, ...] | None = None) -> Array:
        """The elements in the region's shape; where it leaves the buffer, the safe value."""
        storage = self.storage(frame)
        if frame.mask is not None:
            self._check_all_active(frame)
        key, whole = self.key(frame, shape)
        view = storage.read(frame, self.site, key)
        if whole:
            return view
        extents = self.shape(frame) if shape is None else tuple(shape)
        padded = np.full(extents, storage.safe_value, dtype=storage.data.dtype)
        padded[self._inner(frame, key, extents)] = view
        return padded

    def write(self, frame: Frame, value: Any, shape: tuple[int, ...] | None = None) -> None:
        """Store ``value`` (of the region's shape, or a scalar); what lies outside the buffer is dropped."""
        storage = self.storage(frame)
        if frame.mask is not None:
            self._check_all_active(frame)
        key, whole = self.key(frame, shape)
        if not whole and isinstance(value, np.ndarray) and value.ndim:
            extents = self.shape(frame) if shape is None else tuple(shape)
            value = value[self._inner(frame, key, extents)]
        storage.write(frame, self.site, key, value)

    def update(self, frame: Frame, value: Array, join: Callable[[Any, Any], Any]) -> None:
        """Atomically join ``value`` into the region; what lies outside the buffer is dropped."""
        storage = self.storage(frame)
        key, whole = self.key(frame)
        if not whole:
            value = value[self._inner(frame, key, self.shape(frame))]
        if storage.writer is not None:
            storage.writer[key] = 0
        before = storage.read(frame, self.site, key)
        storage.write(frame, self.site, key, np.asarray(join(before, value)))
        if storage.writer is not None:
            storage.writer[key] = 0

    def element(self, frame: Frame) -> Callable[[tuple[int, ...], tuple[int, ...]], list[int]]:
        """Which element of the buffer a lane of an array of the region's size is."""
        starts, extents = self.starts(frame), self.shape(frame)

        def find(lane: tuple[int, ...], shape: tuple[int, ...]) -> list[int]:
            if math.prod(shape) != math.prod(extents):
                return [int(part) for part in lane]
            inside = np.unravel_index(int(np.ravel_multi_index(lane, shape)), extents)
            return [start + int(part) for start, part in zip(starts, inside, strict=True)]

        return find

    def _inner(self, frame: Frame, key: Key, extents: Sequence[int]) -> tuple[slice, ...]:
        """Where the part inside the buffer lies within the region."""
        inner = []
        for start, part, extent in zip(self.starts(frame), key[:-1], extents, strict=True):
            low = min(max(part.start - start, 0), extent)
            inner.append(slice(low, low + (part.stop - part.start)))
        return tuple(inner)


def compile_region(compiler: Compiler, node: Any, site: Site) -> Region:
    """A ``tl.region(buffer[min...], access, extent...)`` argument, or a plain element as a region of one."""
    if type(node).__name__ == "BufferLoad":
        load, extents, access = node, [1] * len(node.indices), 1
    elif type(node).__name__ == "Call" and node.op.name == "tl.region":
        load, extents, access = node.args[0], list(node.args[2:]), int(node.args[1].value)
    else:
        raise UnsupportedError(f"the operand `{render(node)}` of `{site.operation}` is no region of a buffer")
    plan = compiler.buffer(load.buffer, site)
    if access & 1:
        plan.origin.read_in.add(compiler.kernel)
    if access & 2:
        compiler.note_write(plan)
    minima = tuple(compiler.index_expression(index, site) for index in load.indices)
    sizes = tuple(
        constant(extent, "int32") if isinstance(extent, int) else compiler.index_expression(extent, site)
        for extent in extents
    )
    if len(sizes) < len(minima):
        one = constant(1, "int32")
        sizes = (one,) * (len(minima) - len(sizes)) + sizes
    return Region(plan, minima, sizes, site)
