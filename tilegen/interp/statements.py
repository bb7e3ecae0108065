"""TIR statements other than loops: bindings, blocks, branches, stores, calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.findings import Site, UnsupportedError, render
from tilegen.interp.frame import Frame
from tilegen.interp.iteration_order import iteration_check
from tilegen.interp.lanes import Code, own
from tilegen.interp.layouts import compile_layout
from tilegen.interp.non_finite import store_check
from tilegen.interp.number_formats import is_float
from tilegen.interp.pointers import bind_pointer, is_pointer_binding
from tilegen.interp.reducers import plain_update
from tilegen.interp.roles import compile_body, compile_sequence
from tilegen.interp.steps import OPERATIONS, Signal, Step, branch, leave, nothing, operation, statement
from tilegen.interp.structure import depends_on_thread, is_slice, thread_axis_of

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler

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
        "warp_specialize",
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
        "pragma_import_c",
        "safe_value_map",
        "reducer_info",
        "reducer_info_v2",
    }
)

_REFUSED_ANNOTATIONS = {
    "cluster_dims": "clusters of blocks are not modelled: the kernel asks for one with cluster_dims",
    "code_block_source": "a kernel given as CUDA source (T.CUDASourceCodeKernel) is not modelled",
}


@statement("SeqStmt")
def _sequence(compiler: Compiler, node: Any) -> Step:
    return compile_sequence(compiler, list(node.seq))


@statement("Bind")
def _bind(compiler: Compiler, node: Any) -> Step:
    site = compiler.site(node)
    if is_pointer_binding(node):
        return bind_pointer(compiler, node)
    if compiler.uses_unknown_variable(node.value) or is_slice(node.value):
        # A name for a part of a tile (`part = tile[0:64, 0:32]`) is no value, and only tile operations use it.
        # So does T.Persistent, which binds its indices ahead of the loop that they depend on; TileLang inlines such bindings.
        compiler.inline(node.var, node.value)
        return nothing
    value = compiler.expression(node.value, site)
    slot = compiler.variable_slot(node.var)
    if depends_on_thread(compiler, node.value):
        compiler.note_thread_variable(node.var, thread_axis_of(node.value))

    def run(frame: Frame) -> Signal | None:
        frame.environment[slot] = own(value.run(frame))
        return None

    return run


@statement("SBlock", "SBlockRealize")
def _block(compiler: Compiler, node: Any) -> Step:
    block = node.block if type(node).__name__ == "SBlockRealize" else node
    site = compiler.site(f"the body of block {block.name_hint}")
    for name in block.annotations:
        if str(name) not in _LOWERING_ANNOTATIONS:
            what = _REFUSED_ANNOTATIONS.get(str(name), f"the block annotation {name} is not modelled")
            raise UnsupportedError(what)
    plans = [compiler.declare(buffer, site) for buffer in block.alloc_buffers]
    read_block_annotations(compiler, block)
    body = compile_body(compiler, block.body)
    allocate = compiler.allocation(plans)

    def run(frame: Frame) -> Signal | None:
        allocate(frame)
        return body(frame)

    return run


def read_block_annotations(compiler: Compiler, block: Any) -> None:
    """Take the safe values, reducers, layouts and arrive counts that a block declares for its buffers."""
    for data, value in dict(block.annotations.get("safe_value_map", {})).items():
        plan = compiler.root_of(data)
        if plan is not None:
            plan.safe_value = _constant(value)
    for key in ("reducer_info", "reducer_info_v2"):
        for data, info in dict(block.annotations.get(key, {})).items():
            plan = compiler.root_of(data)
            if plan is not None:
                compiler.reducer_kinds[plan.slot] = str(info["op"])
                if key == "reducer_info":
                    compiler.replicated_reducers.add(plan.slot)
    for data, layout in dict(block.annotations.get("layout_map", {})).items():
        plan = compiler.root_of(data)
        compiled = compile_layout(compiler, plan, layout) if plan is not None else None
        if compiled is not None:
            compiler.layouts.append(compiled)
    for data, counts in dict(block.annotations.get("barrier_init", {})).items():
        plan = compiler.root_of(data)
        if plan is not None:
            site = compiler.site(f"the arrive counts of {plan.name}")
            compiler.barrier_counts[plan.slot] = [compiler.expression(count, site) for count in counts]


def _constant(value: Any) -> Any:
    """A number that an annotation holds, as Python's or as TIR's."""
    return value if isinstance(value, (bool, int, float)) else value.value


@statement("AttrStmt")
def _attribute(compiler: Compiler, node: Any) -> Step:
    key = str(node.attr_key)
    if key == "reduce_scope":
        with compiler.reducer(node.node):
            return compile_body(compiler, node.body)
    if key not in _LOWERING_ATTRIBUTES and not key.startswith("pragma_"):
        raise UnsupportedError(f"the attribute {key} is not modelled")
    return compile_body(compiler, node.body)


@statement("IfThenElse")
def _if(compiler: Compiler, node: Any) -> Step:
    site = compiler.site(node.condition)
    condition = compiler.expression(node.condition, site)
    chosen = compile_body(compiler, node.then_case)
    other = compile_body(compiler, node.else_case) if node.else_case is not None else None
    return branch(condition, chosen, other)


@statement("BufferStore")
def _store(compiler: Compiler, node: Any) -> Step:
    if node.predicate is not None:
        raise UnsupportedError(f"predicated stores are not modelled: `{render(node)}`")
    site = compiler.site(node)
    plan = compiler.buffer(node.buffer, site)
    if plan.slot in compiler.reducer_kinds:
        return plain_update(compiler, node, plan, site)
    value = compiler.expression(node.value, site)
    access = compiler.element(node.buffer, node.indices, site, write=True)
    check = store_check(compiler, node, value, site) if is_float(str(node.buffer.dtype)) else None
    check_iterations = iteration_check(compiler, node, access, site)

    def run(frame: Frame) -> Signal | None:
        result = value.run(frame)
        if check is not None:
            check(frame, result)
        if check_iterations is not None:
            check_iterations(frame)
        access.store(frame, result)
        return None

    return run


@statement("Evaluate")
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


@statement("AssertStmt")
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
