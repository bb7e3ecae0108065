"""TIR statements compiled to Python closures over a frame.

A step returns None, or the signal that ends its loop or its thread. Where a condition differs between lanes, both branches run
under a mask, and a lane that breaks or returns leaves the mask.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.findings import Site, UnsupportedError, render
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Code, as_scalar, combine_masks, is_lane_array, lane_numbers, own
from tilegen.interp.non_finite import store_check
from tilegen.interp.number_formats import Array, is_float

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler


class Signal(Enum):
    """Why a sequence of statements ends early."""

    BREAK = 1
    CONTINUE = 2
    RETURN = 3


Step = Callable[[Frame], "Signal | None"]
#: Compiles a call that stands as a statement.
Operation = Callable[["Compiler", Any, Site], Step]
OPERATIONS: dict[str, Operation] = {}

#: Attributes that steer lowering and change no value.
_LOWERING_ATTRIBUTES = frozenset(
    {
        "threadblock_swizzle_pattern",
        "tl.min_blocks_per_sm",
        "tl.ws_op_id",
        "tl.ws_pipeline_depth",
        "tl.ws_schedule",
        "tl.layout_map",
        "tl.assume",
        "pragma_import_c",
        "pragma_unroll_explicit",
        "pragma_loop_partition_hint",
    }
)
_LOWERING_ANNOTATIONS = frozenset(
    {
        "layout_map",
        "l2_hit_ratio_map",
        "tl.non_restrict_params",
        "tl.launch_threads",
        "tl.ws_schedule",
        "barrier_init",
        "safe_value_map",
        "tl.local_var_init",
        "reducer_info_v2",
    }
)
#: ``tirx.ForKind`` of loops whose iterations run in lanes.
_PARALLEL, _VECTORIZED = 1, 2
#: Loops that never end stop after this many trips.
MAXIMUM_TRIPS = 10_000_000


def operation(*names: str) -> Callable[[Operation], Operation]:
    """Register the compiler of the operations ``names`` (in full, as ``tl.tileop.copy``)."""

    def register(function: Operation) -> Operation:
        for name in names:
            OPERATIONS[name] = function
        return function

    return register


def compile_statement(compiler: Compiler, node: Any) -> Step:
    """The step of a TIR statement; raises ``UnsupportedError`` for a node that the interpreter does not know."""
    kind = type(node).__name__
    handler = _NODES.get(kind)
    if handler is None:
        raise UnsupportedError(f"the interpreter does not know the statement {kind}: `{render(node)}`")
    return handler(compiler, node)


def sequence_of(steps: list[Step]) -> Step:
    """Steps one after the other, until one gives a signal."""
    if len(steps) == 1:
        return steps[0]

    def run(frame: Frame) -> Signal | None:
        for step in steps:
            signal = step(frame)
            if signal is not None:
                return signal
        return None

    return run


def nothing(frame: Frame) -> Signal | None:
    return None


def _sequence(compiler: Compiler, node: Any) -> Step:
    from tilegen.interp.roles import compile_sequence

    return compile_sequence(compiler, list(node.seq))


def _bind(compiler: Compiler, node: Any) -> Step:
    site = compiler.site(node)
    if compiler.uses_unknown_variable(node.value):
        # T.Persistent binds its indices ahead of the loop that they depend on; TileLang inlines such bindings.
        compiler.inline(node.var, node.value)
        return nothing
    value = compiler.expression(node.value, site)
    slot = compiler.variable_slot(node.var)
    from tilegen.interp.roles import depends_on_thread

    if depends_on_thread(compiler, node.value):
        compiler.note_thread_variable(node.var)

    def run(frame: Frame) -> Signal | None:
        frame.environment[slot] = own(value.run(frame))
        return None

    return run


def _block(compiler: Compiler, node: Any) -> Step:
    block = node.block if type(node).__name__ == "SBlockRealize" else node
    site = compiler.site(f"the body of block {block.name_hint}")
    for name in block.annotations:
        if str(name) not in _LOWERING_ANNOTATIONS:
            raise UnsupportedError(f"the block annotation {name} is not modelled")
    plans = [compiler.declare(buffer, site) for buffer in block.alloc_buffers]
    read_block_annotations(compiler, block)
    body = compile_body(compiler, block.body)
    allocate = compiler.allocation(plans)

    def run(frame: Frame) -> Signal | None:
        allocate(frame)
        return body(frame)

    return run


def read_block_annotations(compiler: Compiler, block: Any) -> None:
    """Take the safe values and the arrive counts that a block declares for its buffers."""
    for data, value in dict(block.annotations.get("safe_value_map", {})).items():
        plan = compiler.root_of(data)
        if plan is not None:
            plan.safe_value = _constant(value)
    for data, info in dict(block.annotations.get("reducer_info_v2", {})).items():
        plan = compiler.root_of(data)
        if plan is not None:
            compiler.reducer_kinds[plan.slot] = str(info["op"])
    for data, counts in dict(block.annotations.get("barrier_init", {})).items():
        plan = compiler.root_of(data)
        if plan is not None:
            site = compiler.site(f"the arrive counts of {plan.name}")
            compiler.barrier_counts[plan.slot] = [compiler.expression(count, site) for count in counts]


def _constant(value: Any) -> Any:
    """A number that an annotation holds, as Python's or as TIR's."""
    return value if isinstance(value, (bool, int, float)) else value.value


def _attribute(compiler: Compiler, node: Any) -> Step:
    key = str(node.attr_key)
    if key not in _LOWERING_ATTRIBUTES and not key.startswith("pragma_"):
        raise UnsupportedError(f"the attribute {key} is not modelled")
    return compile_body(compiler, node.body)


def compile_body(compiler: Compiler, node: Any) -> Step:
    """A statement that may itself be a branch between roles, or a sequence of statements."""
    from tilegen.interp.roles import compile_sequence

    return compile_sequence(compiler, list(node.seq) if type(node).__name__ == "SeqStmt" else [node])


def _if(compiler: Compiler, node: Any) -> Step:
    site = compiler.site(node.condition)
    condition = compiler.expression(node.condition, site)
    chosen = compile_body(compiler, node.then_case)
    other = compile_body(compiler, node.else_case) if node.else_case is not None else None
    return branch(condition, chosen, other)


def branch(condition: Code, chosen: Step, other: Step | None) -> Step:
    def run(frame: Frame) -> Signal | None:
        flag = agreed(as_scalar(condition.run(frame)), frame.mask)
        if not isinstance(flag, np.ndarray):
            if flag:
                return chosen(frame)
            return other(frame) if other is not None else None
        saved = frame.mask
        _under_mask(frame, combine_masks(saved, flag), chosen)
        if other is not None:
            _under_mask(frame, _without(combine_masks(saved, ~flag), frame), other)
        frame.mask = _without(saved, frame)
        return None

    return run


def agreed(flag: Any, mask: Array | None) -> Any:
    """The truth value that all active lanes agree on, as a bool; else the array."""
    if not isinstance(flag, np.ndarray):
        return flag
    if (flag if mask is None else flag | ~mask).all():
        return True
    if not (flag if mask is None else flag & mask).any():
        return False
    return flag


def _under_mask(frame: Frame, mask: Array | None, step: Step) -> None:
    if mask is not None and not mask.any():
        return
    frame.mask = mask
    signal = step(frame)
    if signal is not None:
        leave(frame, signal)


def leave(frame: Frame, signal: Signal) -> Signal | None:
    """End the loop or the thread for the active lanes; without a mask, for all, by handing the signal on."""
    if frame.mask is None:
        return signal
    gone = frame.mask
    if signal is Signal.BREAK:
        frame.broken = gone if frame.broken is None else frame.broken | gone
    elif signal is Signal.CONTINUE:
        frame.skipped = gone if frame.skipped is None else frame.skipped | gone
    else:
        frame.returned = gone if frame.returned is None else frame.returned | gone
    frame.mask = np.zeros_like(gone)
    return None


def _without(mask: Array | None, frame: Frame) -> Array | None:
    """The mask without the lanes that broke, continued or returned."""
    for gone in (frame.broken, frame.skipped, frame.returned):
        if gone is not None:
            mask = ~gone if mask is None else mask & ~gone
    return mask


def _loop(compiler: Compiler, node: Any) -> Step:
    kind = int(node.kind)
    if node.thread_binding is not None:
        raise UnsupportedError(f"a loop bound to {node.thread_binding.thread_tag} inside a kernel is not modelled")
    if kind == _PARALLEL or (kind == _VECTORIZED and not _touches_registers(node.body)):
        return _lane_loop(compiler, node)
    return _serial_loop(compiler, node)


def _touches_registers(node: Any) -> bool:
    """Whether code names per-thread memory: the lanes of a T.vectorized loop share it, so they take turns."""
    from tvm import tirx

    found = []

    def visit(part: Any) -> None:
        if type(part).__name__ in ("BufferLoad", "BufferStore") and str(part.buffer.scope()) in ("local", "local.var"):
            found.append(part)

    tirx.stmt_functor.post_order_visit(node, visit)
    return bool(found)


def _serial_loop(compiler: Compiler, node: Any) -> Step:
    site = compiler.site(f"for {node.loop_var.name} in range({render(node.min)}, {render(node.min + node.extent)})")
    start = compiler.index_expression(node.min, site)
    extent = compiler.index_expression(node.extent, site)
    stride = compiler.index_expression(node.step, site) if node.step is not None else None
    slot = compiler.variable_slot(node.loop_var)
    stages = int(node.annotations["num_stages"]) if "num_stages" in node.annotations else 0
    with compiler.serial_loop(str(node.loop_var.name), slot):
        body = compile_body(compiler, node.body)

    def run(frame: Frame) -> Signal | None:
        first, count = as_scalar(start.run(frame)), as_scalar(extent.run(frame))
        step = 1 if stride is None else stride.run(frame)
        if isinstance(first, np.ndarray) or isinstance(count, np.ndarray):
            return _lane_trips(frame, slot, np.asarray(first), np.asarray(count), body)
        if 0 < count < stages and stages > 1:
            _report_stages(frame, site, stages, count)
        return _trips(frame, slot, range(first, first + count, step), body)

    return run


def _report_stages(frame: Frame, site: Site, stages: int, count: int) -> None:
    frame.report(
        "stages",
        site,
        f"the loop has {stages} stages and {count} trips: the tiles of the other {stages - count} stages are never used",
    )


def _trips(frame: Frame, slot: int, numbers: range, body: Step) -> Signal | None:
    """A serial loop whose bounds all lanes agree on."""
    if frame.mask is None:
        for number in numbers:
            frame.environment[slot] = number
            signal = body(frame)
            if signal is not None and signal is not Signal.CONTINUE:
                return None if signal is Signal.BREAK else signal
            if frame.mask is not None or frame.returned is not None:
                # Lanes parted within the body: go on with the rest of the trips under a mask.
                return _masked_trips(frame, slot, numbers[numbers.index(number) + 1 :], body, None)
        return None
    return _masked_trips(frame, slot, numbers, body, frame.mask)


def _masked_trips(frame: Frame, slot: int, numbers: range, body: Step, entry: Array | None) -> Signal | None:
    outer, frame.skipped = (None if entry is None else frame.broken, frame.skipped), None
    if entry is not None:
        frame.broken = None
    for number in numbers:
        frame.skipped = None
        frame.mask = _without(entry, frame)
        if frame.mask is not None and not frame.mask.any():
            break
        frame.environment[slot] = number
        signal = body(frame)
        if signal is not None and leave(frame, signal) is not None:
            if signal is Signal.BREAK:
                break
            if signal is Signal.RETURN:
                return signal
    frame.broken, frame.skipped = outer
    frame.mask = _without(entry, frame)
    return None


def _lane_trips(frame: Frame, slot: int, first: Array, count: Array, body: Step) -> Signal | None:
    """A serial loop whose bounds differ between lanes: lanes drop out as they finish."""
    entry, outer = frame.mask, (frame.broken, frame.skipped)
    frame.broken = None
    for trip in range(int(count.max(initial=0))):
        frame.skipped = None
        frame.mask = _without(combine_masks(entry, count > trip), frame)
        if frame.mask is not None and not frame.mask.any():
            break
        frame.environment[slot] = as_scalar(first + trip)
        signal = body(frame)
        if signal is not None:
            leave(frame, signal)
    frame.broken, frame.skipped = outer
    frame.mask = _without(entry, frame)
    return None


def _while(compiler: Compiler, node: Any) -> Step:
    site = compiler.site(node.condition)
    condition = compiler.expression(node.condition, site)
    body = compile_body(compiler, node.body)

    def run(frame: Frame) -> Signal | None:
        entry, outer = frame.mask, (frame.broken, frame.skipped)
        frame.broken = None
        result = None
        for trip in range(MAXIMUM_TRIPS + 1):
            if trip == MAXIMUM_TRIPS:
                raise UnsupportedError(f"`while {site.operation}` has not ended after {MAXIMUM_TRIPS} trips")
            frame.skipped = None
            frame.mask = _without(entry, frame)
            flag = as_scalar(condition.run(frame))
            active = combine_masks(frame.mask, flag) if is_lane_array(flag) else frame.mask
            if not is_lane_array(flag) and not flag:
                break
            if active is not None and not active.any():
                break
            frame.mask = active
            signal = body(frame)
            if signal is not None and leave(frame, signal) is not None and signal is not Signal.CONTINUE:
                result = None if signal is Signal.BREAK else signal
                break
            if frame.task is not None:
                frame.task.breathe()
            if is_lane_array(flag):
                gone = ~flag if frame.broken is None else frame.broken | ~flag
                frame.broken = gone
        frame.broken, frame.skipped = outer
        frame.mask = _without(entry, frame)
        return result

    return run


def _lane_loop(compiler: Compiler, node: Any) -> Step:
    kind = int(node.kind)
    site = compiler.site(f"for {node.loop_var.name} in T.Parallel({render(node.extent)})")
    start = compiler.index_expression(node.min, site)
    extent = compiler.index_expression(node.extent, site)
    slot = compiler.variable_slot(node.loop_var)
    axes = compiler.axes
    with compiler.lane_loop(node.loop_var, start, kind == _PARALLEL) as axis, compiler.locals_written() as written:
        body = compile_body(compiler, node.body)
    extent_slot = compiler.extent_slots[axis]
    cache: dict[tuple[int, int], Array] = {}

    def run(frame: Frame) -> Signal | None:
        first, count = as_scalar(start.run(frame)), as_scalar(extent.run(frame))
        if not isinstance(first, int) or not isinstance(count, int):
            raise UnsupportedError(f"the bounds of `{site.operation}` differ between threads or iterations")
        if count <= 0:
            return None
        numbers = cache.get((first, count))
        if numbers is None:
            numbers = cache[first, count] = lane_numbers(count, axis, axes, first)
        frame.environment[slot] = numbers
        frame.environment[extent_slot] = count
        signal = body(frame)
        if signal is not None:
            raise UnsupportedError(f"break and return inside `{site.operation}` are not modelled")
        for local in written:
            frame.memory[local].collapse(axis)
        return None

    return run


def _store(compiler: Compiler, node: Any) -> Step:
    if node.predicate is not None:
        raise UnsupportedError(f"predicated stores are not modelled: `{render(node)}`")
    site = compiler.site(node)
    value = compiler.expression(node.value, site)
    access = compiler.element(node.buffer, node.indices, site, write=True)
    check = store_check(compiler, node, value, site) if is_float(str(node.buffer.dtype)) else None

    def run(frame: Frame) -> Signal | None:
        result = value.run(frame)
        if check is not None:
            check(frame, result)
        access.store(frame, result)
        return None

    return run


def _evaluate(compiler: Compiler, node: Any) -> Step:
    call = node.value
    site = compiler.site(node)
    if type(call).__name__ != "Call":
        if type(call).__name__ in ("IntImm", "FloatImm", "Var", "StringImm"):
            return nothing
        return _value_only(compiler.expression(call, site))
    name = str(getattr(call.op, "name", call.op))
    handler = OPERATIONS.get(name)
    if handler is not None:
        return handler(compiler, call, site)
    return _value_only(compiler.expression(call, site))


def _value_only(code: Code) -> Step:
    def run(frame: Frame) -> Signal | None:
        code.run(frame)
        return None

    return run


def _assert(compiler: Compiler, node: Any) -> Step:
    return assertion(compiler, node.condition, compiler.site(node.condition))


def assertion(compiler: Compiler, node: Any, site: Site) -> Step:
    condition = compiler.expression(node, site)

    def run(frame: Frame) -> Signal | None:
        failed = np.logical_not(condition.run(frame))
        if frame.mask is not None:
            failed = failed & frame.mask
        if np.any(failed):
            frame.report("failed-assert", site, lambda: f"`{site.operation}` is false")
        return None

    return run


@operation("tl.loop_break", "tirx.break_loop")
def _break(compiler: Compiler, call: Any, site: Site) -> Step:
    return lambda frame: leave(frame, Signal.BREAK)


@operation("tirx.continue_loop")
def _continue(compiler: Compiler, call: Any, site: Site) -> Step:
    return lambda frame: leave(frame, Signal.CONTINUE)


@operation("tirx.thread_return", "tirx.ret")
def _return(compiler: Compiler, call: Any, site: Site) -> Step:
    return lambda frame: leave(frame, Signal.RETURN)


@operation("tirx.assume")
def _assume(compiler: Compiler, call: Any, site: Site) -> Step:
    return assertion(compiler, call.args[0], site)


@operation("tl.device_assert", "tl.device_assert_with_msg")
def _device_assert(compiler: Compiler, call: Any, site: Site) -> Step:
    return assertion(compiler, call.args[0], site)


#: Operations with no effect on values: hints, fences, register counts, descriptors.
_HINTS = (
    "tl.fence_proxy_async",
    "tl.set_max_nreg",
    "tl.no_set_max_nreg",
    "tl.annotate_producer_reg_dealloc",
    "tl.annotate_consumer_reg_alloc",
    "tl.prefetch_tma_descriptor",
    "tl.ptx_fence_barrier_init",
    "tl.warpgroup_arrive",
    "tl.warpgroup_commit_batch",
    "tl.warpgroup_fence_operand",
    "tl.pdl_sync",
    "tl.pdl_trigger",
    "tl.conflict_hint",
    "tirx.prefetch",
    "tirx.ignore_loop_partition",
)


@operation(*_HINTS)
def _hint(compiler: Compiler, call: Any, site: Site) -> Step:
    return nothing


@operation("tirx.call_extern")
def _extern(compiler: Compiler, call: Any, site: Site) -> Step:
    """``T.print`` calls an external function; what it prints is evaluated, so that its reads are checked, and dropped."""
    if not str(call.args[0].value).startswith("debug_print"):
        raise UnsupportedError(f"the external function {call.args[0].value} is not modelled: `{site.operation}`")
    values = [compiler.expression(argument, site) for argument in call.args[1:]]

    def run(frame: Frame) -> Signal | None:
        for value in values:
            value.run(frame)
        return None

    return run


_NODES: dict[str, Callable[[Any, Any], Step]] = {
    "SeqStmt": _sequence,
    "Bind": _bind,
    "SBlock": _block,
    "SBlockRealize": _block,
    "AttrStmt": _attribute,
    "IfThenElse": _if,
    "For": _loop,
    "While": _while,
    "BufferStore": _store,
    "Evaluate": _evaluate,
    "AssertStmt": _assert,
}
