"""Atomic operations on elements and on regions.

Blocks run one after the other, so an atomic sum is exact in its order; on a device the order, and so the rounding, varies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.access import ElementAccess
from tilegen.interp.expressions import element_access, intrinsic
from tilegen.interp.findings import Site, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Code, as_scalar
from tilegen.interp.memory import Storage, same_values
from tilegen.interp.number_formats import Array, convert, is_float, round_to, to_float32, wrap_integer
from tilegen.interp.regions import Region, compile_region
from tilegen.interp.steps import Signal, Step, operation

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler

LOCAL_SCOPES = ("local", "local.var")
Combine = Callable[[Any, Any], Any]


def add_in(dtype: str) -> Combine:
    """Addition in a dtype: narrow floats round each sum, integers wrap."""
    if not is_float(dtype):
        return lambda x, y: wrap_integer(np.asarray(x, dtype=np.int64) + np.asarray(y, dtype=np.int64), dtype)
    return lambda x, y: round_to(np.asarray(to_float32(x, dtype) if x.itemsize < 4 else x) + y, dtype)


def _combine(name: str, dtype: str) -> Combine:
    if "add" in name:
        return add_in(dtype)
    if "max" in name:
        return np.fmax if is_float(dtype) else np.maximum
    if "min" in name:
        return np.fmin if is_float(dtype) else np.minimum
    return np.bitwise_or


def compile_update(compiler: Compiler, target: Any, value: Any, site: Site) -> Callable[[Frame, Combine], Any]:
    """``target = join(target, value)``, once for each active lane; gives the values before, by lane."""
    access = element_access(compiler, target, site)
    plan = compiler.plans[access.slot]
    compiler.note_write(plan)
    code = compiler.expression(value, site)
    lanes = compiler.active_lanes()

    def update(frame: Frame, join: Combine) -> Any:
        contribution = convert(code.run(frame), code.dtype, plan.dtype)
        return update_elements(frame, access, contribution, join, lanes(frame))

    return update


def update_elements(frame: Frame, access: ElementAccess, value: Any, join: Combine, lanes: tuple[int, ...]) -> Any:
    """Join ``value`` into the elements of ``access`` for each active lane of the shape ``lanes``.

    Lanes that meet in one element are joined in lane order. Gives what each lane found there.
    """
    storage = frame.memory[access.slot]
    if not isinstance(storage, Storage):
        raise UnsupportedError(f"an atomic operation on per-thread memory: `{access.site.operation}`")
    indices, inside = access.locate(frame, storage)
    active = inside if frame.mask is None else inside & frame.mask
    shape = np.broadcast_shapes(active.shape, np.shape(value), lanes, *(index.shape for index in indices))
    chosen = np.broadcast_to(active, shape).reshape(-1)
    found = np.zeros(shape, dtype=storage.data.dtype)
    if not chosen.any():
        return as_scalar(found)
    picked = tuple(np.broadcast_to(index, shape).reshape(-1)[chosen] for index in indices)
    values = np.broadcast_to(np.asarray(value, dtype=storage.data.dtype), shape).reshape(-1)[chosen]
    order, ranks = _ranks(np.ravel_multi_index(picked, storage.data.shape))
    before = np.empty(values.shape, dtype=storage.data.dtype)
    for rank in range(int(ranks.max()) + 1):
        now = order[ranks == rank]
        places = tuple(part[now] for part in picked)
        storage.touch_atomically(frame, places)
        before[now] = storage.gather(frame, access.site, places, None)
        storage.scatter(frame, access.site, places, np.asarray(join(before[now], values[now])))
        storage.touch_atomically(frame, places)
    found.reshape(-1)[chosen] = before
    return as_scalar(found)


def _ranks(flat: Array) -> tuple[Array, Array]:
    """Lanes sorted by element, and for each the number of earlier lanes of the same element."""
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    first = np.append(True, ordered[1:] != ordered[:-1])
    start = np.maximum.accumulate(np.where(first, np.arange(flat.size), 0))
    return order, np.arange(flat.size) - start


_UPDATES = tuple(f"tl.atomic_{kind}_elem_op" for kind in ("add", "max", "min", "or", "add_ret", "max_ret", "min_ret"))


@intrinsic(*_UPDATES)
def _element_update(compiler: Compiler, node: Any, site: Site) -> Code:
    name = node.op.name
    plan_dtype = compiler.plans[element_access(compiler, node.args[0], site).slot].dtype
    join = _combine(name, plan_dtype)
    update = compile_update(compiler, node.args[0], node.args[1], site)
    return Code(lambda frame: update(frame, join), plan_dtype)


@intrinsic("tl.atomic_load_elem_op")
def _element_load(compiler: Compiler, node: Any, site: Site) -> Code:
    access = element_access(compiler, node.args[0], site)

    def run(frame: Frame) -> Any:
        storage = frame.memory[access.slot]
        indices, _ = access.locate(frame, storage)
        storage.touch_atomically(frame, tuple(np.atleast_1d(index).reshape(-1) for index in indices))
        return access.load(frame)

    return Code(run, str(node.dtype))


@operation("tl.atomic_store_elem_op")
def _element_store(compiler: Compiler, call: Any, site: Site) -> Step:
    access = element_access(compiler, call.args[0], site)
    plan = compiler.plans[access.slot]
    compiler.note_write(plan)
    value = compiler.expression(call.args[1], site)

    def run(frame: Frame) -> Signal | None:
        storage = frame.memory[access.slot]
        places = tuple(np.atleast_1d(index).reshape(-1) for index in access.locate(frame, storage)[0])
        storage.touch_atomically(frame, places)
        access.store(frame, convert(value.run(frame), value.dtype, plan.dtype))
        storage.touch_atomically(frame, places)
        return None

    return run


@operation("tl.atomic_addx2_elem_op", "tl.atomic_addx4_elem_op")
def _vector_add(compiler: Compiler, call: Any, site: Site) -> Step:
    """Two or four neighbouring elements of the last axis, each added atomically."""
    width = 2 if "x2" in call.op.name else 4
    target, source = (_first_load(argument) for argument in call.args[:2])
    plan = compiler.buffer(target.buffer, site)
    updates = []
    for offset in range(width):
        from tvm import tirx

        place = tirx.BufferLoad(target.buffer, [*target.indices[:-1], target.indices[-1] + offset])
        value = tirx.BufferLoad(source.buffer, [*source.indices[:-1], source.indices[-1] + offset])
        updates.append(compile_update(compiler, place, value, site))
    join = add_in(plan.dtype)

    def run(frame: Frame) -> Signal | None:
        for update in updates:
            update(frame, join)
        return None

    return run


def _first_load(node: Any) -> Any:
    while type(node).__name__ == "Call":
        node = node.args[0]
    return node


def agreed_registers(frame: Frame, region: Region, site: Site) -> Array:
    """A region of per-thread memory where all threads hold the same: TileLang takes each element from some thread."""
    storage = frame.memory[region.plan.slot]
    axes = storage.axes
    key = tuple(
        slice(start, start + extent) for start, extent in zip(region.starts(frame), region.shape(frame), strict=True)
    )
    data, written = (part[(slice(None),) * axes + key] for part in (storage.data, storage.written))
    first: Array = data[(0,) * axes]
    if not written.all() or not same_values(np.broadcast_to(first, data.shape), data).all():
        raise UnsupportedError(
            f"the threads hold different values of {region.plan.name} in `{site.operation}`: which it takes is not modelled"
        )
    return first


@operation("tl.tileop.atomicadd", "tl.tileop.atomicmax", "tl.tileop.atomicmin")
def _region_update(compiler: Compiler, call: Any, site: Site) -> Step:
    target = compile_region(compiler, call.args[1], site)
    compiler.note_write(target.plan)
    join = _combine(call.op.name, target.dtype)
    if type(call.args[0]).__name__ == "Call" and call.args[0].op.name == "tl.region":
        source = compile_region(compiler, call.args[0], site)
        value = None
    else:
        source, value = None, compiler.expression(call.args[0], site)

    def run(frame: Frame) -> Signal | None:
        shape = target.shape(frame)
        if source is not None:
            tile = (
                source.read(frame) if source.plan.scope not in LOCAL_SCOPES else agreed_registers(frame, source, site)
            )
            contribution = convert(tile, source.dtype, target.dtype).reshape(shape)
        else:
            assert value is not None
            contribution = np.broadcast_to(convert(value.run(frame), value.dtype, target.dtype), shape)
        target.update(frame, contribution, join)
        return None

    return run
