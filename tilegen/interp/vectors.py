"""Vector values (``float16x8``): their elements lie along the last lane axis, so every elementwise operation covers them.

An index that is a ramp is affine along that axis, so a vector load or store of shared or global memory is a slice. Per-thread
memory has a copy for each lane but not for each element of a vector: there the elements are accessed one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.access import ElementAccess
from tilegen.interp.findings import Site, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Affine, Code, as_scalar, constant, lane_numbers
from tilegen.interp.number_formats import Array, lanes, storage_dtype

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler


def ramp(compiler: Compiler, node: Any, site: Site) -> Code:
    """``base, base + stride, ...``."""
    base, stride = compiler.expression(node.base, site), compiler.expression(node.stride, site)
    axis, axes, count = compiler.vector_axis, compiler.axes, int(node.lanes)
    numbers = lane_numbers(count, axis, axes)
    affine = None
    if isinstance(stride.const, int):
        affine = base.as_affine().plus(Affine(None, 0, ((axis, stride.const),)))
    return Code(lambda frame: base.run(frame) + stride.run(frame) * numbers, str(node.dtype), affine=affine)


def broadcast(compiler: Compiler, node: Any, site: Site) -> Code:
    """One value in every element."""
    value = compiler.expression(node.value, site)
    dtype = str(node.dtype)
    return constant(value.const, dtype) if value.const is not None else Code(value.run, dtype, affine=value.affine)


def shuffle(compiler: Compiler, node: Any, site: Site) -> Code:
    """Chosen elements of several vectors (or numbers) side by side."""
    parts = [compiler.expression(part, site) for part in node.vectors]
    elements = [element_of(compiler, part, number) for part in parts for number in range(lanes(part.dtype))]
    chosen = [elements[int(index.value)] for index in node.indices]
    return side_by_side(compiler, chosen, str(node.dtype))


def element_of(compiler: Compiler, code: Code, number: int) -> Code:
    """One element of a vector."""
    axis = compiler.vector_axis

    def run(frame: Frame) -> Any:
        return _element(code.run(frame), number, axis)

    return Code(run, code.dtype.rpartition("x")[0] if lanes(code.dtype) > 1 else code.dtype, const=code.const)


def _element(value: Any, number: int, axis: int) -> Any:
    if isinstance(value, np.ndarray) and value.ndim > axis and value.shape[axis] > 1:
        return as_scalar(value.take([number], axis=axis))
    return value


def side_by_side(compiler: Compiler, elements: Sequence[Code], dtype: str) -> Code:
    """A vector of the given elements."""
    if len(elements) == 1:
        return elements[0]
    axis, axes = compiler.vector_axis, compiler.axes

    def run(frame: Frame) -> Any:
        return join_elements([element.run(frame) for element in elements], dtype, axis, axes)

    return Code(run, dtype)


def join_elements(values: Sequence[Any], dtype: str, axis: int, axes: int) -> Array:
    storage = storage_dtype(dtype) if "float" in dtype else None
    arrays = [np.asarray(value, dtype=storage) for value in values]
    arrays = [array if array.ndim == axes else array.reshape((1,) * axes) for array in arrays]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    return np.concatenate([np.broadcast_to(array, shape) for array in arrays], axis=axis)


class VectorOfLocals(ElementAccess):
    """The access ``buffer[ramp]`` of per-thread memory: one element after the other."""

    def __init__(self, compiler: Compiler, slot: int, dtype: str, indices: Sequence[Code], site: Site) -> None:
        super().__init__(slot, indices, site, compiler.axes, {}, compiler.guarded)
        width = max(lanes(code.dtype) for code in indices)
        places = [[element_of(compiler, code, number) for code in indices] for number in range(width)]
        self.elements = [ElementAccess(slot, place, site, compiler.axes, {}, compiler.guarded) for place in places]
        self._dtype = dtype
        self._axis = compiler.vector_axis

    def load(self, frame: Frame) -> Any:
        return join_elements([element.load(frame) for element in self.elements], self._dtype, self._axis, self.axes)

    def store(self, frame: Frame, value: Any) -> None:
        for number, element in enumerate(self.elements):
            element.store(frame, _element(value, number, self._axis))


def reinterpret_vector(compiler: Compiler, operand: Code, target: str, site: Site) -> Code:
    """The bits of a number or a vector as another number or vector of as many bits."""
    source = operand.dtype
    have, want = (storage_dtype(dtype).itemsize * lanes(dtype) for dtype in (source, target))
    if have != want:
        raise UnsupportedError(
            f"a reinterpretation of {source} ({have} bytes) as {target} ({want} bytes) is not modelled: `{site.operation}`"
        )
    axis, axes, count = compiler.vector_axis, compiler.axes, lanes(source)

    def run(frame: Frame) -> Any:
        value = np.asarray(operand.run(frame)).astype(storage_dtype(source))
        if value.ndim != axes:
            value = value.reshape((1,) * axes)
        shape = (*value.shape[:axis], count)
        bits = np.ascontiguousarray(np.broadcast_to(value, shape)).view(storage_dtype(target))
        return as_scalar(bits if lanes(target) > 1 or "float" in target else bits.astype(np.int64))

    return Code(run, target)
