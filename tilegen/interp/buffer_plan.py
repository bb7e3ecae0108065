"""How a buffer is stored: its plan, and the views that are another shape, dtype or strides of its memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilegen.interp.findings import InvalidKernelError, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Code
from tilegen.interp.local_memory import LocalStorage, LocalView
from tilegen.interp.memory import Storage
from tilegen.interp.number_formats import is_packed, storage_dtype
from tilegen.interp.places import Place


@dataclass
class BufferPlan:
    """How one TIR buffer is stored: on its own, or as another shape or dtype of the memory of ``root``."""

    name: str
    dtype: str
    scope: str
    shape: list[Code]
    strides: list[Code]
    slot: int
    root: BufferPlan | None = None
    views: list[BufferPlan] = field(default_factory=list)
    safe_value: Any = 0
    written_in: set[int] = field(default_factory=set)
    read_in: set[int] = field(default_factory=set)
    #: The lines of source that write it; None stands for a statement whose line is not known.
    write_places: list[Place | None] = field(default_factory=list)
    #: The TIR buffer.
    declared: Any = None

    def extents(self, frame: Frame) -> tuple[int, ...]:
        return tuple(int(code.run(frame)) for code in self.shape)

    @property
    def origin(self) -> BufferPlan:
        return self if self.root is None else self.root


def make_view(storage: Storage, plan: BufferPlan, frame: Frame) -> Storage:
    """Another shape, dtype or strides of the memory of ``storage``.

    A view of another element width cannot share the flags of written elements, so neither side is tracked then.
    """
    target = storage_dtype(plan.dtype)
    _check_packing(storage.name, storage.dtype, plan)
    shape = plan.extents(frame)
    strides = tuple(int(code.run(frame)) for code in plan.strides)
    assert plan.root is not None
    if not storage.data.flags.c_contiguous or not _is_dense(plan.root, frame):
        raise UnsupportedError(f"{plan.name} is a view of {storage.name}, which is not contiguous")
    flat = storage.data.reshape(-1).view(target)
    reach = 1 + sum(
        (extent - 1) * stride for extent, stride in zip(shape, strides or _dense_strides(shape), strict=True)
    )
    if 0 not in shape and not 0 < reach <= flat.size:
        raise InvalidKernelError(
            f"{plan.name}, {shape} of {plan.dtype}, reaches past {storage.name}, which holds {flat.size} such elements"
        )
    same_width = target.itemsize == storage.data.itemsize
    written = storage.written.reshape(-1) if storage.written is not None and same_width else None
    writer = storage.writer.reshape(-1) if storage.writer is not None and same_width else None
    dense = not strides or strides == _dense_strides(shape)

    def shaped(array: Any) -> Any:
        if array is None:
            return None
        if dense:
            return array.reshape(shape)
        return np.lib.stride_tricks.as_strided(array, shape, tuple(stride * array.itemsize for stride in strides))

    return Storage(
        plan.name,
        plan.dtype,
        plan.scope,
        shaped(flat),
        shaped(written),
        shaped(writer),
        storage.check_readers,
        storage.shared_between_roles,
        safe_value=storage.safe_value,
        unwritten=storage.unwritten,
        memory_id=storage.memory_id,
        write_places=storage.write_places,
    )


def _check_packing(name: str, dtype: str, plan: BufferPlan) -> None:
    if is_packed(dtype) != is_packed(plan.dtype):
        raise UnsupportedError(
            f"{plan.name} is a view of {name} as {plan.dtype}: {dtype} memory is not modelled as bytes that hold two elements"
        )


def view_of_local(storage: LocalStorage, plan: BufferPlan, frame: Frame) -> LocalView:
    """Another shape or dtype of per-thread memory."""
    shape = plan.extents(frame)
    strides = tuple(int(code.run(frame)) for code in plan.strides)
    if strides and strides != _dense_strides(shape):
        raise UnsupportedError(f"{plan.name} is a view of the per-thread memory {storage.name} with strides {strides}")
    have, want = (
        int(np.prod(extents)) * storage_dtype(dtype).itemsize
        for extents, dtype in ((storage.shape, storage.dtype), (shape, plan.dtype))
    )
    if have != want:
        raise InvalidKernelError(
            f"{plan.name}, {shape} of {plan.dtype}, is {want} bytes, and {storage.name} holds {have}"
        )
    _check_packing(storage.name, storage.dtype, plan)
    return storage.view(plan.name, plan.dtype, shape)


def _is_dense(plan: BufferPlan, frame: Frame) -> bool:
    """Whether a buffer is declared with the strides of row-major order, or with none."""
    strides = tuple(code.run(frame) for code in plan.strides)
    return not strides or strides == _dense_strides(plan.extents(frame))


def _dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, stride = [], 1
    for extent in reversed(shape):
        strides.append(stride)
        stride *= extent
    return tuple(reversed(strides))
