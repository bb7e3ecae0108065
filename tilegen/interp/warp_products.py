"""Warp-level products in terms of registers: ``ldmatrix`` and ``mma.sync``.

Each thread holds a few elements of each matrix, in the places that the PTX manual draws. With ``e`` elements in a 32-bit
register, thread ``4 g + t`` holds in element ``i`` of register ``r``:

* of A: row ``g + 8 (r mod 2)``, column ``e t + i + 4 e (r div 2)`` (where A has 8 rows: row ``g``, column ``e t + i + 4 e r``);
* of B: row ``e t + i + 4 e r``, column ``g``;
* of the accumulator, in its element ``j``: row ``g + 8 (j div 2)``, column ``2 t + j mod 2``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.access import ElementAccess
from tilegen.interp.expressions import flat_elements, neighbours, pointed_load
from tilegen.interp.findings import Site, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import as_scalar, combine_masks
from tilegen.interp.matmul import accumulate, multiply
from tilegen.interp.number_formats import Array, is_packed, storage_dtype
from tilegen.interp.steps import Signal, Step, operation
from tilegen.interp.threads import WARP, per_thread, thread_column

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler

_LANES = np.arange(WARP)
_GROUP, _MEMBER = _LANES // 4, _LANES % 4


@dataclass(frozen=True)
class Shape:
    """The shape of one product: ``m16n8k16`` and the like."""

    m: int
    n: int
    k: int

    def a_places(self, bits: int) -> tuple[Array, Array]:
        """Rows and columns of the elements of A, by thread and element."""
        number, per = np.arange(self.m * self.k // WARP), max(32 // bits, 1)
        register = number // per
        halves = self.m // 8
        rows = _GROUP[:, None] + 8 * (register % halves)
        columns = per * _MEMBER[:, None] + number % per + 4 * per * (register // halves)
        return rows, columns

    def b_places(self, bits: int) -> tuple[Array, Array]:
        """Rows and columns of the elements of B, by thread and element."""
        number, per = np.arange(self.k * self.n // WARP), max(32 // bits, 1)
        rows = per * _MEMBER[:, None] + number % per + 4 * per * (number // per)
        return rows, np.broadcast_to(_GROUP[:, None], rows.shape)

    def c_places(self) -> tuple[Array, Array]:
        """Rows and columns of the elements of the accumulator, by thread and element."""
        number = np.arange(self.m * self.n // WARP)
        return _GROUP[:, None] + 8 * (number // 2), 2 * _MEMBER[:, None] + number % 2


@operation("tirx.ptx_mma", "tl.ptx_mma")
def _product(compiler: Compiler, call: Any, site: Site) -> Step:
    """``C += A @ B`` by each warp, the operands in the registers of its threads."""
    shape = _shape(str(call.args[0].value), site)
    if [str(part.value) for part in call.args[1:3]] != ["row", "col"]:
        raise UnsupportedError(f"the layouts of the operands of `{site.operation}` are not modelled")
    a_plan, b_plan, c_plan = (compiler.root_of(call.args[place]) for place in (6, 8, 10))
    if a_plan is None or b_plan is None or c_plan is None:
        raise UnsupportedError(f"an operand of `{site.operation}` is not allocated")
    a_bits, b_bits = (_bits(plan.dtype) for plan in (a_plan, b_plan))
    a_places, b_places, c_places = shape.a_places(a_bits), shape.b_places(b_bits), shape.c_places()
    a = flat_elements(compiler, call.args[6], call.args[7], a_places[0].shape[1], site)
    b = flat_elements(compiler, call.args[8], call.args[9], b_places[0].shape[1], site)
    c = flat_elements(compiler, call.args[10], call.args[11], c_places[0].shape[1], site)
    into = flat_elements(compiler, call.args[10], call.args[11], c_places[0].shape[1], site, write=True)
    axes = compiler.axes

    def run(frame: Frame) -> Signal | None:
        _check_whole_warps(frame, site)
        left = _matrices(frame, a, a_places, (shape.m, shape.k), a_plan.dtype, axes)
        right = _matrices(frame, b, b_places, (shape.k, shape.n), b_plan.dtype, axes)
        before = _matrices(frame, c, c_places, (shape.m, shape.n), c_plan.dtype, axes)
        result = accumulate(before, multiply(left, right, a_plan.dtype, b_plan.dtype, c_plan.dtype), c_plan.dtype)
        for number, access in enumerate(into):
            values = result[:, c_places[0][:, number], c_places[1][:, number]].reshape(-1)
            access.store(frame, as_scalar(values.reshape((-1,) + (1,) * (axes - 1))))
        return None

    return run


def _shape(name: str, site: Site) -> Shape:
    match = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", name)
    if match is None or int(match[1]) not in (8, 16) or int(match[2]) != 8:
        raise UnsupportedError(f"a product of the shape {name} is not modelled: `{site.operation}`")
    return Shape(*(int(part) for part in match.groups()))


def _bits(dtype: str) -> int:
    return 4 if is_packed(dtype) else 8 * storage_dtype(dtype).itemsize


def _check_whole_warps(frame: Frame, site: Site) -> None:
    whole = frame.threads.size % WARP == 0 and (frame.threads[::WARP] % WARP == 0).all()
    if frame.mask is not None:
        active = np.broadcast_to(frame.mask, (frame.threads.size, *frame.mask.shape[1:]))
        whole = whole and bool(active.all())
    if not whole:
        raise UnsupportedError(f"`{site.operation}` is reached by a part of the threads of a warp only")


def _matrices(
    frame: Frame,
    elements: Sequence[ElementAccess],
    places: tuple[Array, Array],
    shape: tuple[int, int],
    dtype: str,
    axes: int,
) -> Array:
    """The matrix that the threads of each warp hold together."""
    warps = frame.threads.size // WARP
    matrices = np.zeros((warps, *shape), dtype=storage_dtype(dtype))
    for number, access in enumerate(elements):
        values = per_thread(frame, access.load(frame), axes).reshape(warps, WARP)
        matrices[:, places[0][:, number], places[1][:, number]] = values
    return matrices


@operation("tl.ptx_ldmatrix")
def _load_matrices(compiler: Compiler, call: Any, site: Site) -> Step:
    """8 x 8 matrices of 16 bits: thread ``8 m + r`` names row ``r`` of matrix ``m``; every thread gets a part of each."""
    transposed, count = bool(int(call.args[0].value)), int(call.args[1].value)
    dtype = str(pointed_load(compiler, call.args[2], site).buffer.dtype)
    width = storage_dtype(dtype).itemsize
    rows = neighbours(compiler, call.args[2], 16 // width, site)
    targets = neighbours(compiler, call.args[3], 4 * count // width, site, write=True)
    axes = compiler.axes

    def run(frame: Frame) -> Signal | None:
        _check_whole_warps(frame, site)
        outer, named = frame.mask, thread_column(frame, frame.threads % WARP < 8 * count, axes).astype(np.bool_)
        frame.mask = combine_masks(outer, named)
        loaded = [per_thread(frame, access.load(frame), axes).reshape(-1) for access in rows]
        frame.mask = outer
        pairs = np.ascontiguousarray(np.stack(loaded, axis=-1).astype(storage_dtype(dtype))).view(np.uint16)
        pairs = pairs.reshape(-1, WARP, 8)[:, : 8 * count].reshape(-1, count, 8, 8)
        pairs = pairs.swapaxes(2, 3) if transposed else pairs
        # By warp, thread, matrix and half of the register.
        parts = np.stack([pairs[:, :, _GROUP, 2 * _MEMBER + half] for half in (0, 1)], axis=-1).swapaxes(1, 2)
        values = np.ascontiguousarray(parts).reshape(-1, 2 * count).view(storage_dtype(dtype))
        for number, access in enumerate(targets):
            access.store(frame, as_scalar(values[:, number].reshape((-1,) + (1,) * (axes - 1))))
        return None

    return run
