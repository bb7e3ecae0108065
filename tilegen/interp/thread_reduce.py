"""Reductions between the threads of a block: ``tvm_thread_allreduce`` with the reducer of the attribute round it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.expressions import pointed_load
from tilegen.interp.findings import Site, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Code, as_scalar
from tilegen.interp.number_formats import Array
from tilegen.interp.steps import Signal, Step, operation
from tilegen.interp.threads import per_thread

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler


@operation("tirx.tvm_thread_allreduce")
def _all_reduce(compiler: Compiler, call: Any, site: Site) -> Step:
    """``results = reduce(values)`` over the threads that differ only in the given indices; every thread gets them."""
    count = int(call.args[0].value)
    values = [compiler.expression(part, site) for part in call.args[1 : 1 + count]]
    condition = compiler.expression(call.args[1 + count], site)
    loads = [pointed_load(compiler, part, site) for part in call.args[2 + count : 2 + 2 * count]]
    results = [compiler.element(load.buffer, load.indices, site, write=True) for load in loads]
    reduced = [_thread_axis(compiler, part, site) for part in call.args[2 + 2 * count :]]
    join, identities = _joiner(compiler, site)
    x, y, z = compiler.threads
    axes = compiler.axes

    def run(frame: Frame) -> Signal | None:
        if frame.threads.size != x * y * z:
            raise UnsupportedError(f"only a part of the threads of the block carry out `{site.operation}`")
        flags = per_thread(frame, condition.run(frame), axes) != 0
        given = []
        for value, identity in zip(values, identities, strict=True):
            array = per_thread(frame, value.run(frame), axes)
            given.append(np.where(flags, array, np.asarray(identity.run(frame), dtype=array.dtype)))
        joined = _reduce(frame, given, (z, y, x), [2 - axis for axis in reduced], join)
        for access, result in zip(results, joined, strict=True):
            access.store(frame, as_scalar(result))
        return None

    return run


def _thread_axis(compiler: Compiler, node: Any, site: Site) -> int:
    axis = compiler.thread_axis(node) if type(node).__name__ == "Var" else None
    if axis is None:
        raise UnsupportedError(f"`{site.operation}` reduces over {node}, which is no thread index")
    return axis


def _joiner(
    compiler: Compiler, site: Site
) -> tuple[Callable[[Frame, Sequence[Any], Sequence[Any]], list[Any]], list[Code]]:
    """What joins two partial results, and what a reduction starts from."""
    reducer = compiler.thread_reducer
    if reducer is None:
        raise UnsupportedError(f"`{site.operation}` stands in no attribute that says how values are joined")
    left = [compiler.variable_slot(variable) for variable in reducer.lhs]
    right = [compiler.variable_slot(variable) for variable in reducer.rhs]
    codes = [compiler.expression(part, site) for part in reducer.result]

    def join(frame: Frame, mine: Sequence[Any], theirs: Sequence[Any]) -> list[Any]:
        for slot, value in zip((*left, *right), (*mine, *theirs), strict=True):
            frame.environment[slot] = value
        return [code.run(frame) for code in codes]

    return join, [compiler.expression(part, site) for part in reducer.identity_element]


def _reduce(
    frame: Frame,
    values: Sequence[Array],
    block: tuple[int, int, int],
    reduced: Sequence[int],
    join: Callable[[Frame, Sequence[Any], Sequence[Any]], list[Any]],
) -> list[Array]:
    """Join values (threads first) along some axes of the block (z, y, x), in thread order; the same shape comes back."""
    shaped = [value.reshape(block + value.shape[1:]) for value in values]
    fronts = [np.moveaxis(value, reduced, range(len(reduced))) for value in shaped]
    parts = [front.reshape(-1, *front.shape[len(reduced) :]) for front in fronts]
    total: list[Any] = [part[0] for part in parts]
    for number in range(1, parts[0].shape[0]):
        total = join(frame, total, [part[number] for part in parts])
    spread = []
    for value, front, whole in zip(total, fronts, shaped, strict=True):
        back = np.moveaxis(np.broadcast_to(value, front.shape), range(len(reduced)), reduced)
        spread.append(back.reshape(-1, *whole.shape[3:]))
    return spread
