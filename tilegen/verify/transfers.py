"""How each tile of a plan goes between global and shared memory: by TMA, by `cp.async`, or in plain vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.expr import evaluate, free_names
from tilegen.lowering.instruction import GemmPath, operand_continuity
from tilegen.lowering.tma import tma_copy
from tilegen.lowering.vector import shared_vector_bytes
from tilegen.plan.instruction import path_of
from tilegen.plan.model import Copy, Gemm, KernelPlan, Loop, LoopKind, Scope

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan

TMA, CP_ASYNC, PLAIN = "tma", "cp_async", "plain"


@dataclass(frozen=True)
class Transfer:
    """One copy. ``vector_bytes``: of one access by one thread; None where TMA carries the tile."""

    tensor: str
    is_load: bool
    path: str
    vector_bytes: int | None


def transfers(plan: TilePlan, kernel: KernelPlan, dims: Mapping[str, int]) -> Iterator[Transfer]:
    """Every copy between global and shared memory of one kernel, at the dims of an instance."""
    for copy, loops in kernel.find(Copy):
        if not evaluate(copy.only_where, dims):
            continue
        source, destination = kernel.buffer(copy.src).scope, kernel.buffer(copy.dst).scope
        if (source, destination) == (Scope.GLOBAL, Scope.SHARED):
            yield _load(plan, kernel, copy, loops, dims)
        elif (source, destination) == (Scope.SHARED, Scope.GLOBAL):
            yield _store(plan, kernel, copy, dims)


def _load(plan: TilePlan, kernel: KernelPlan, copy: Copy, loops: tuple[Loop, ...], dims: Mapping[str, int]) -> Transfer:
    pipelined = any(loop.kind is LoopKind.PIPELINED and loop.stages != 0 for loop in loops)
    if copy.explicit_tma or (plan.target.tma is not None and pipelined and _carried(plan, kernel, copy, dims)):
        return Transfer(copy.src, True, TMA, None)
    width = _vector_bytes(plan, kernel, copy, copy.src, dims)
    # Where TMA feeds the loop, its producers copy the other tiles themselves.
    specialised = int(evaluate(kernel.launch.producer_threads, dims)) != 0
    asynchronous = pipelined and not specialised and width in plan.target.copy.cp_async_bytes
    return Transfer(copy.src, True, CP_ASYNC if asynchronous else PLAIN, width)


def _store(plan: TilePlan, kernel: KernelPlan, copy: Copy, dims: Mapping[str, int]) -> Transfer:
    if copy.explicit_tma or (plan.target.tma is not None and _carried(plan, kernel, copy, dims)):
        return Transfer(copy.dst, False, TMA, None)
    return Transfer(copy.dst, False, PLAIN, _vector_bytes(plan, kernel, copy, copy.dst, dims))


def _carried(plan: TilePlan, kernel: KernelPlan, copy: Copy, dims: Mapping[str, int]) -> bool:
    """Whether TMA can: a pitch that only a call knows counts as fit, as TileLang has it."""
    rows, columns = _tile(copy, dims)
    is_load = kernel.buffer(copy.src).scope is Scope.GLOBAL
    found = tma_copy(
        rows,
        columns,
        kernel.buffer(copy.src).itemsize,
        plan.target.tma,
        "pipelined_load" if is_load else "store",
        row_stride=_pitch(plan, copy, dims),
        continuity=_continuity(plan, kernel, copy, columns, dims) if is_load else None,
    )
    return found.outcome != "falls_back"


def _tile(copy: Copy, dims: Mapping[str, int]) -> tuple[int, int]:
    rows, columns = (1, *copy.extents)[-2:]
    return int(evaluate(rows, dims)), int(evaluate(columns, dims))


def _pitch(plan: TilePlan, copy: Copy, dims: Mapping[str, int]) -> int | None:
    """Elements from row to row of the global tensor; None where only a call knows."""
    if copy.row_pitch is None or free_names(copy.row_pitch) & plan.dynamic_dims:
        return None
    return int(evaluate(copy.row_pitch, dims))


def _continuity(plan: TilePlan, kernel: KernelPlan, copy: Copy, columns: int, dims: Mapping[str, int]) -> int | None:
    for gemm, _ in kernel.find(Gemm):
        if copy.dst not in (gemm.a, gemm.b):
            continue
        path = path_of(plan.target, kernel, gemm, lambda size: int(evaluate(size, dims)))
        if isinstance(path, GemmPath):
            is_a = copy.dst == gemm.a
            transposed = gemm.transpose_a if is_a else gemm.transpose_b
            return operand_continuity(path, "A" if is_a else "B", columns, transposed=transposed)
    return None


def _vector_bytes(plan: TilePlan, kernel: KernelPlan, copy: Copy, tensor: str, dims: Mapping[str, int]) -> int:
    rows, columns = _tile(copy, dims)
    itemsize = kernel.buffer(tensor).itemsize
    pitch = _pitch(plan, copy, dims)
    if pitch is None:
        return itemsize  # no vector may start at a row that starts anywhere
    threads = int(evaluate(kernel.launch.threads, dims))
    return shared_vector_bytes(rows, columns, pitch, itemsize, threads, plan.target)
