"""A prim_func compiled: its parameters, its kernels and their grids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# Imported for their effect: each registers the operations that it compiles.
from tilegen.interp import (  # noqa: F401
    asynchronous,
    atomics,
    barriers,
    copies,
    externals,
    functions,
    group_copies,
    im2col,
    loops,
    matmul,
    random_numbers,
    reducers,
    reductions,
    thread_reduce,
    threads,
    warp_products,
    wide_accesses,
)
from tilegen.interp.buffer_plan import BufferPlan
from tilegen.interp.compiler import Compiler, identity
from tilegen.interp.findings import InvalidKernelError, UnsupportedError
from tilegen.interp.lanes import Code
from tilegen.interp.loops import THREAD_AXES
from tilegen.interp.roles import compile_body
from tilegen.interp.statements import read_block_annotations
from tilegen.interp.steps import Step, compile_statement
from tilegen.interp.structure import has_vectors, private_fragments, walk

VARIABLES = ("Var", "SizeVar")
_GRID_AXES = {"blockIdx.x": 0, "blockIdx.y": 1, "blockIdx.z": 2}
#: What TileLang gives a block of a kernel that does not say ``threads=``.
DEFAULT_THREADS = (128, 1, 1)


@dataclass(frozen=True)
class Parameter:
    """One argument: a buffer (with its handle variable) or a scalar (``plan`` is None)."""

    name: str
    dtype: str
    variable: Any
    slot: int
    plan: BufferPlan | None
    buffer: Any


@dataclass(frozen=True)
class Kernel:
    """One ``T.Kernel``: its grid extents with the slots of their variables, and the body of one block."""

    number: int
    grid: tuple[tuple[int, Code], ...]
    threads: tuple[int, int, int]
    body: Step
    synchronises_grid: bool
    is_concurrent: bool

    @property
    def thread_count(self) -> int:
        return int(np.prod(self.threads))


@dataclass(frozen=True)
class Program:
    """The steps of a prim_func in order: a ``Kernel``, or a step that the host carries out.

    ``dimensions`` are the slots of the variables in the shapes and strides of the parameters, by name;
    ``used_dimensions`` those that the code names too.
    """

    name: str
    function: Any
    compiler: Compiler
    parameters: tuple[Parameter, ...]
    dimensions: dict[str, int]
    used_dimensions: tuple[str, ...]
    workspaces: tuple[BufferPlan, ...]
    steps: tuple[Kernel | Step, ...]


def compile_program(function: Any) -> Program:
    """Compile a ``tirx.PrimFunc``; raises ``UnsupportedError`` at the first operation that is not modelled."""
    if not hasattr(function, "buffer_map"):
        raise InvalidKernelError(f"this is no prim_func but a {type(function).__name__}")
    configuration = dict((function.attrs or {}).get("tilelang_pass_configs", {}))
    guarded = not bool(configuration.get("tl.disable_safe_memory_legalize", False))
    synchronises = not bool(configuration.get("tl.disable_thread_storage_sync", False))
    private = frozenset(private_fragments(function.body, identity))
    compiler = Compiler(_lane_axes(function.body) + has_vectors(function.body), guarded, synchronises, private)
    parameters = tuple(_parameter(compiler, function, variable) for variable in function.params)
    dimensions = _dimensions(compiler, parameters)
    compiler.fixed_variables = len(compiler.variable_names)
    used = tuple(name for name, slot in dimensions.items() if slot in _slots(compiler, function.body))
    workspaces: list[BufferPlan] = []
    steps = _host_steps(compiler, function.body, workspaces)
    name = str((function.attrs or {}).get("global_symbol", "main"))
    return Program(name, function, compiler, parameters, dimensions, used, tuple(workspaces), tuple(steps))


def _parameter(compiler: Compiler, function: Any, variable: Any) -> Parameter:
    if variable in function.buffer_map:
        buffer = function.buffer_map[variable]
        plan = compiler.declare(buffer, compiler.site(f"the parameter {buffer.name}"))
        return Parameter(str(buffer.name), str(buffer.dtype), variable, plan.slot, plan, buffer)
    slot = compiler.variable_slot(variable)
    return Parameter(str(variable.name), str(variable.dtype), variable, slot, None, None)


def _dimensions(compiler: Compiler, parameters: tuple[Parameter, ...]) -> dict[str, int]:
    found: dict[str, int] = {}

    def visit(part: Any) -> None:
        if type(part).__name__ in VARIABLES:
            found[str(part.name)] = compiler.variable_slot(part)

    for parameter in parameters:
        if parameter.buffer is not None:
            for extent in (*parameter.buffer.shape, *parameter.buffer.strides):
                walk(extent, visit)
    return found


def _slots(compiler: Compiler, node: Any) -> set[int]:
    """The slots of those variables in ``node`` that are known already."""
    found: set[int] = set()

    def visit(part: Any) -> None:
        if type(part).__name__ in VARIABLES and compiler.knows_variable(part):
            found.add(compiler.variable_slot(part))

    walk(node, visit)
    return found


def _lane_axes(node: Any) -> int:
    """One axis for the threads and as many as T.Parallel and T.vectorized loops nest."""
    depths: dict[int, int] = {}

    def visit(part: Any) -> None:
        if type(part).__name__ == "For":
            inner = _deepest(part.body, depths)
            depths[identity(part)] = inner + (1 if int(part.kind) in (1, 2) else 0)

    walk(node, visit)
    return 1 + max(depths.values(), default=0)


def _deepest(node: Any, depths: dict[int, int]) -> int:
    found = [0]
    walk(node, lambda part: found.append(depths.get(identity(part), 0)))
    return max(found)


def _host_steps(compiler: Compiler, node: Any, workspaces: list[BufferPlan]) -> list[Kernel | Step]:
    kind = type(node).__name__
    if kind == "SeqStmt":
        return [step for part in node.seq for step in _host_steps(compiler, part, workspaces)]
    if kind in ("SBlockRealize", "SBlock"):
        block = node.block if kind == "SBlockRealize" else node
        site = compiler.site("the host code")
        workspaces.extend(compiler.declare(buffer, site) for buffer in block.alloc_buffers)
        read_block_annotations(compiler, block)
        return _host_steps(compiler, block.body, workspaces)
    if kind == "AttrStmt" and str(node.attr_key) != "thread_extent":
        return _host_steps(compiler, node.body, workspaces)
    if kind == "For" and node.thread_binding is not None:
        return [_kernel(compiler, node)]
    return [compile_statement(compiler, node)]


def _kernel(compiler: Compiler, node: Any) -> Kernel:
    grid: list[tuple[int, Code]] = []
    site = compiler.site("the grid")
    while type(node).__name__ == "For" and node.thread_binding is not None:
        tag = str(node.thread_binding.thread_tag)
        if tag in THREAD_AXES:
            break
        if _GRID_AXES.get(tag) != len(grid):
            raise UnsupportedError(f"a loop bound to {tag} here is not modelled")
        grid.append((compiler.variable_slot(node.loop_var), compiler.index_expression(node.extent, site)))
        node = node.body
    compiler.threads = _launch_threads(node)
    compiler.is_concurrent = False
    body = compile_body(compiler, node)
    concurrent = compiler.is_concurrent
    kernel = Kernel(compiler.kernel, tuple(grid), compiler.threads, body, _calls(node, "tl.sync_grid"), concurrent)
    compiler.kernel += 1
    return kernel


def _launch_threads(node: Any) -> tuple[int, int, int]:
    found: list[tuple[int, int, int]] = []
    bound: dict[str, int] = {}

    def visit(part: Any) -> None:
        if type(part).__name__ == "SBlock" and "tl.launch_threads" in part.annotations:
            x, y, z = (int(extent) for extent in part.annotations["tl.launch_threads"])
            found.append((x, y, z))
        elif type(part).__name__ == "For" and part.thread_binding is not None:
            bound[str(part.thread_binding.thread_tag)] = int(part.extent)

    walk(node, visit)
    if found:
        return found[0]
    if bound:
        return (bound.get("threadIdx.x", 1), bound.get("threadIdx.y", 1), bound.get("threadIdx.z", 1))
    return DEFAULT_THREADS


def _calls(node: Any, name: str) -> bool:
    found = []
    walk(node, lambda part: found.append(1) if type(part).__name__ == "Call" and part.op.name == name else None)
    return bool(found)
