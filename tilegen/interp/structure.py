"""Questions about the structure of TIR code, answered before it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilegen.interp.number_formats import lanes

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler

#: Operations after which a thread may have to wait for others.
_WAITS = ("tl.mbarrier_wait_parity", "tirx.tvm_storage_sync", "tl.sync_grid", "tl.cluster_wait", "tl.cluster_sync")
_REGISTERS = ("local", "local.var")
#: Operations whose value differs from thread to thread.
THREAD_VALUES = (
    "tl.launch_thread_idx",
    "tl.get_lane_idx",
    "tl.get_warp_idx",
    "tl.get_warp_idx_sync",
    "tl.get_warp_group_idx",
    "tl.tl_shuffle_elect",
    "tl.any_sync",
    "tl.all_sync",
    "tl.ballot",
    "tl.ballot_sync",
    "tl.shfl_sync",
    "tl.shfl_xor_sync",
    "tl.shfl_up_sync",
    "tl.shfl_down_sync",
    "tirx.tvm_warp_shuffle",
    "tirx.tvm_warp_shuffle_up",
    "tirx.tvm_warp_shuffle_down",
    "tl.match_any_sync",
    "tl.match_all_sync",
)


def walk(node: Any, visit: Callable[[Any], None]) -> None:
    """Call ``visit`` on every part of a TIR statement or expression, inner parts first."""
    from tvm import tirx

    tirx.stmt_functor.post_order_visit(node, visit)


def variables_of(node: Any) -> list[Any]:
    """The variables that an expression names."""
    found: list[Any] = []
    walk(node, lambda part: found.append(part) if type(part).__name__ in ("Var", "SizeVar") else None)
    return found


def is_slice(node: Any) -> bool:
    """Whether an expression is a part of a buffer, written as a load with several ranges."""
    return type(node).__name__ == "BufferLoad" and sum(lanes(str(index.dtype)) > 1 for index in node.indices) > 1


def thread_axis_of(node: Any) -> int | None:
    """The axis of a thread index (``launch_thread_idx``); None for any other expression."""
    if type(node).__name__ == "Call" and node.op.name == "tl.launch_thread_idx":
        return int(node.args[0].value)
    return None


def has_vectors(node: Any) -> bool:
    """Whether code has a value of a vector type."""
    found = []

    def visit(part: Any) -> None:
        if lanes(str(getattr(part, "dtype", ""))) > 1:
            found.append(part)

    walk(node, visit)
    return bool(found)


def is_role_branch(compiler: Compiler, node: Any) -> bool:
    """Whether a statement is a branch on the thread whose body holds tile operations or waits."""
    if type(node).__name__ != "IfThenElse" or not depends_on_thread(compiler, node.condition):
        return False
    return is_cooperative(node.then_case) or (node.else_case is not None and is_cooperative(node.else_case))


def depends_on_thread(compiler: Compiler, node: Any) -> bool:
    """Whether an expression may differ between threads."""
    found = False

    def visit(part: Any) -> None:
        nonlocal found
        kind = type(part).__name__
        if (kind == "Var" and compiler.is_thread_variable(part)) or (kind == "Call" and part.op.name in THREAD_VALUES):
            found = True
        elif kind == "BufferLoad" and compiler.scope_of(part.buffer) in _REGISTERS:
            found = found or compiler.has_threads

    walk(node, visit)
    return found


def only_thread_indices(compiler: Compiler, node: Any) -> bool:
    """Whether a condition is made of variables and constants only, so that it can be decided ahead of its statement."""
    pure = True

    def visit(part: Any) -> None:
        nonlocal pure
        if type(part).__name__ == "BufferLoad" or (type(part).__name__ == "Call" and part.op.name.startswith("tl.")):
            pure = pure and type(part).__name__ == "Call" and part.op.name in THREAD_VALUES[:6]
        elif type(part).__name__ == "Var":
            pure = pure and compiler.knows_variable(part)

    walk(node, visit)
    return pure


def is_cooperative(node: Any, waits: bool = True) -> bool:
    """Whether a statement holds an operation that a set of threads carries out together (or, with ``waits``, waits in)."""
    found = False

    def visit(part: Any) -> None:
        nonlocal found
        kind = type(part).__name__
        if kind == "For" and int(part.kind) == 1:
            found = True
        elif kind == "Call":
            name = str(getattr(part.op, "name", ""))
            found = found or name.startswith("tl.tileop.") or (waits and name in _WAITS)

    walk(node, visit)
    return found


def touches_registers(compiler: Compiler, node: Any) -> bool:
    """Whether code names per-thread memory: the lanes of a T.vectorized loop share it, so they take turns."""
    found = []

    def visit(part: Any) -> None:
        if type(part).__name__ in ("BufferLoad", "BufferStore") and compiler.scope_of(part.buffer) in _REGISTERS:
            found.append(part)

    walk(node, visit)
    return bool(found)


def private_fragments(body: Any, identity: Callable[[Any], int]) -> set[int]:
    """The data of fragments that every thread has whole, for itself: none is named in a tile operation or a T.Parallel.

    TileLang lays out a fragment by the tile operations and parallel loops that name it. Without any, an access
    ``tile[i]`` is one of the thread's own array, as it is with ``alloc_local``.
    """
    fragments: set[int] = set()
    spread: set[int] = set()
    buffers: dict[int, set[int]] = {}

    def named(part: Any, into: set[int]) -> None:
        if type(part).__name__ in ("BufferLoad", "BufferStore"):
            into.add(identity(part.buffer.data))

    def visit(part: Any) -> None:
        kind = type(part).__name__
        if kind == "SBlock":
            fragments.update(
                identity(buffer.data) for buffer in part.alloc_buffers if str(buffer.scope()) == "local.fragment"
            )
        elif kind in ("BufferLoad", "BufferStore"):
            buffers.setdefault(identity(part.buffer.data), set()).add(identity(part.buffer))
        elif (kind == "For" and int(part.kind) == 1) or (kind == "Call" and _takes_memory(part)):
            walk(part, lambda inner: named(inner, spread))

    walk(body, visit)
    return {data for data in fragments - spread if len(buffers.get(data, ())) == 1}


def _takes_memory(call: Any) -> bool:
    name = str(getattr(call.op, "name", ""))
    return name.startswith("tl.tileop.") or name in ("tl.region", "tl.access_ptr", "tirx.address_of")
