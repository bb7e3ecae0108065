"""Reducers: buffers that the iterations of a loop add to, each thread to its own part, until they are finalised.

Three forms are in use: ``reducer_init``, ``reducer_update`` and ``finalize_reducer(reducer, result)``; a fill, plain
``total[i] += x`` and ``finalize_reducer(total)`` in place; and the same with ``replication=``, which is older.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilegen.interp.atomics import compile_update
from tilegen.interp.findings import Site, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.reductions import combiner, identity_of
from tilegen.interp.regions import compile_region
from tilegen.interp.steps import Signal, Step, operation

if TYPE_CHECKING:
    from tilegen.interp.buffer_plan import BufferPlan
    from tilegen.interp.compiler import Compiler

#: The TIR operation that a plain update of each kind of reducer is.
_UPDATES = {
    "sum": ("Add",),
    "max": ("Max",),
    "min": ("Min",),
    "bitand": ("tirx.bitwise_and",),
    "bitor": ("tirx.bitwise_or",),
    "bitxor": ("tirx.bitwise_xor",),
}


@operation("tl.tileop.reducer_init")
def _reducer_init(compiler: Compiler, call: Any, site: Site) -> Step:
    target = compile_region(compiler, call.args[0], site)
    start = compiler.expression(call.args[1], site) if len(call.args) > 1 else None

    def run(frame: Frame) -> Signal | None:
        value = identity_of(compiler.reducer_kind(target.plan), target.dtype) if start is None else start.run(frame)
        target.write(frame, value)
        return None

    return run


@operation("tl.reducer_update")
def _reducer_update(compiler: Compiler, call: Any, site: Site) -> Step:
    plan = compiler.buffer(call.args[0].buffer, site)
    update = compile_update(compiler, call.args[0], call.args[1], site)

    def run(frame: Frame) -> Signal | None:
        update(frame, combiner(compiler.reducer_kind(plan), plan.dtype))
        return None

    return run


@operation("tl.tileop.finalize_reducer_v2")
def _finalize(compiler: Compiler, call: Any, site: Site) -> Step:
    source, target = compile_region(compiler, call.args[0], site), compile_region(compiler, call.args[1], site)

    def run(frame: Frame) -> Signal | None:
        target.write(frame, source.read(frame))
        return None

    return run


@operation("tl.tileop.finalize_reducer")
def _finalize_in_place(compiler: Compiler, call: Any, site: Site) -> Step:
    target = compile_region(compiler, call.args[0], site)

    def run(frame: Frame) -> Signal | None:
        target.read(frame)
        return None

    return run


def plain_update(compiler: Compiler, node: Any, plan: BufferPlan, site: Site) -> Step:
    """``total[i] = total[i] + x`` of a reducer: every iteration counts, also where many meet in one element."""
    kind = compiler.reducer_kind(plan)
    contribution = _contribution(node, kind)
    if contribution is None:
        raise UnsupportedError(
            f"`{site.operation}` stores to the reducer {plan.name} what is no {kind} of its element and another value"
        )
    from tvm import tirx

    update = compile_update(compiler, tirx.BufferLoad(node.buffer, node.indices), contribution, site)
    join = combiner(kind, plan.dtype)

    def run(frame: Frame) -> Signal | None:
        update(frame, join)
        return None

    return run


def _contribution(node: Any, kind: str) -> Any:
    """What a plain update joins to the element that it stores; None for any other store."""
    value = node.value
    name = value.op.name if type(value).__name__ == "Call" else type(value).__name__
    if name not in _UPDATES[kind]:
        return None
    left, right = (value.a, value.b) if type(value).__name__ != "Call" else value.args
    if _is_same_element(left, node):
        return right
    return left if _is_same_element(right, node) else None


def _is_same_element(part: Any, node: Any) -> bool:
    from tvm.ir import structural_equal

    if type(part).__name__ != "BufferLoad" or not part.buffer.same_as(node.buffer):
        return False
    return all(structural_equal(a, b) for a, b in zip(part.indices, node.indices, strict=True))
