"""What a kernel of products needs in registers beside its accumulators: an estimate, term by term.

* The product itself: a WGMMA reads shared memory and needs little; mma.sync holds the operands of a K step.
* Addresses of tiles that the computing threads copy in the loop. Where the vectors of a row share out evenly among the
  threads, every access of a thread lies a constant apart from the first, and one address serves all. Where they do not,
  each access has a row and a column of its own, which do not change from step to step: ptxas keeps them all.
* What a workspace gives back: a kernel that adds partial tiles to its accumulators has their loads in flight together,
  and those of its epilogue with them.

Sizes that hang on dims are taken at their best: rows of whole vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import TYPE_CHECKING

from tilegen.expr import free_names
from tilegen.lowering.instruction import GemmPath
from tilegen.lowering.registers import (
    ADDRESS_REGISTERS,
    MMA_ADDRESSING,
    REGISTER_BYTES,
    WGMMA_OVERHEAD,
    mma_operand_registers,
)
from tilegen.lowering.vector import shared_vector_bytes
from tilegen.plan.instruction import path_of, whole
from tilegen.plan.model import Copy, Elementwise, Gemm, KernelPlan, LoopKind, Scope

if TYPE_CHECKING:
    from tilegen.expr import Size
    from tilegen.plan.model import Loop, TilePlan

Number = Callable[["Size"], int | None]


def beside_accumulators(plan: TilePlan, kernel: KernelPlan, number: Number = whole) -> int | None:
    """All of it; None where an instruction is not known. ``number`` gives the value of a size at one shape."""
    product = _product(plan, kernel, number)
    if product is None:
        return None
    return product + sum(_addresses(plan, kernel, number)) + sum(_in_flight(kernel, number))


def _product(plan: TilePlan, kernel: KernelPlan, number: Number) -> int | None:
    found = []
    for gemm, _ in kernel.find(Gemm):
        path = path_of(plan.target, kernel, gemm, number)
        m, n = number(gemm.m), number(gemm.n)
        if not isinstance(path, GemmPath) or m is None or n is None:
            return None
        if path.instruction == "wgmma":
            found.append(WGMMA_OVERHEAD)
        else:
            found.append(mma_operand_registers(m // path.partition.m, n // path.partition.n) + MMA_ADDRESSING)
    return max(found, default=None)


def _addresses(plan: TilePlan, kernel: KernelPlan, number: Number) -> Iterator[int]:
    """Of each tile that is copied in uneven shares: registers that its accesses keep through the loop."""
    threads = number(kernel.launch.threads)
    if not threads or number(kernel.launch.producer_threads) != 0:
        return  # producers copy, with registers of their own
    for copy, loops in kernel.find(Copy):
        if not loops or copy.explicit_tma or copy.only_where is False:
            continue
        source, destination = kernel.buffer(copy.src), kernel.buffer(copy.dst)
        rows, columns = (number(size) for size in (1, *copy.extents)[-2:])
        if (source.scope, destination.scope) != (Scope.GLOBAL, Scope.SHARED) or not rows or not columns:
            continue
        width = _vector_bytes(plan, copy, rows, columns, source.itemsize, threads, number)
        lanes = columns * source.itemsize // width
        if threads % lanes and lanes % threads:
            accesses = -(-rows * columns * source.itemsize // (width * threads))
            yield accesses * (ADDRESS_REGISTERS + _passing(plan, loops, width))


def _vector_bytes(
    plan: TilePlan, copy: Copy, rows: int, columns: int, itemsize: int, threads: int, number: Number
) -> int:
    if copy.row_pitch is None or free_names(copy.row_pitch) & plan.dynamic_dims:
        return itemsize  # no vector may start at a row that starts anywhere
    pitch = number(copy.row_pitch) or plan.target.copy.vector_bytes
    return shared_vector_bytes(rows, columns, pitch, itemsize, threads, plan.target)


def _passing(plan: TilePlan, loops: tuple[Loop, ...], width: int) -> int:
    """Registers that one access passes through on its way: none with cp.async."""
    pipelined = any(loop.kind is LoopKind.PIPELINED and loop.stages != 0 for loop in loops)
    asynchronous = pipelined and width in plan.target.copy.cp_async_bytes
    return 0 if asynchronous else max(width // REGISTER_BYTES, 1)


def _in_flight(kernel: KernelPlan, number: Number) -> Iterator[int]:
    """Of each tile that is loaded beside partial ones: its registers in a thread."""
    copies = (copy for copy, _ in kernel.find(Copy) if kernel.buffer(copy.src).scope is Scope.FRAGMENT)
    workspaces = {copy.dst for copy in copies if kernel.buffer(copy.dst).scope is Scope.GLOBAL}
    loops = [op for op, _ in kernel.find(Elementwise) if kernel.buffer(op.writes).scope is Scope.FRAGMENT]
    if not workspaces & {name for op in loops for name in op.reads}:
        return
    for op in loops:
        owners = kernel.buffer(op.writes).owners
        threads = number(kernel.launch.threads if owners is None else owners)
        extents = [number(extent) for extent in op.extents]
        known = [extent for extent in extents if extent is not None]
        if not threads or len(known) < len(extents):
            continue
        for name in op.reads:
            buffer = kernel.buffer(name)
            if buffer.scope is Scope.GLOBAL and len(buffer.shape) > 1:
                yield -(-prod(known) * buffer.itemsize // (threads * REGISTER_BYTES))
