"""What a kernel of products needs in registers beside its accumulators: an estimate, term by term.

* The product itself: a WGMMA reads shared memory and needs little; mma.sync holds the operands of a K step, and an address
  for each step.
* Addresses of tiles that the computing threads copy in the loop. Where the vectors of a row share out evenly among the
  threads, every access of a thread lies a constant apart from the first, and one address serves all. Where they do not,
  each access has a row and a column of its own, which do not change from step to step: ptxas keeps them all. What does not
  go by cp.async passes through registers, a batch of loads at a time.
* The epilogue, once the product is done. Accumulators of 16 bits are two a register for the product, and one a register
  for arithmetic with further tensors.
* Loads beside the accumulators: the partial tiles of a workspace, a batch at a time too. Where registers are reallocated
  upwards, ptxas has the loads of an epilogue in flight together, as if there were room. Not so where they lie in branches,
  which it moves no load across: a division has one for its rare cases, and the guard of a tile that a loop moves about is
  one.

Sizes that hang on dims are taken at their best: rows of whole vectors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from tilegen.expr import free_names
from tilegen.lowering.instruction import GemmPath, GemmRefusal
from tilegen.lowering.registers import (
    ADDRESS_REGISTERS,
    COPY_BATCH,
    LOAD_BATCH,
    REGISTER_BYTES,
    WGMMA_OVERHEAD,
    consumer_registers,
    launch_limit,
    mma_registers,
)
from tilegen.lowering.vector import shared_vector_bytes
from tilegen.plan.instruction import asked_of_path, whole
from tilegen.plan.model import ITEMSIZE, Copy, Elementwise, Gemm, KernelPlan, LoopKind, Scope
from tilegen.plan.pipeline import producer_threads
from tilegen.plan.resources import fragment_registers

if TYPE_CHECKING:
    from tilegen.expr import Size
    from tilegen.plan.model import TilePlan

Number = Callable[["Size"], int | None]

EPILOGUE_OVERHEAD = WGMMA_OVERHEAD
"""What an epilogue needs beside values and loads: addresses, and what the block keeps from tile to tile."""

DIVIDES = re.compile(r"/|\b(silu|sigmoid|quick_gelu)\b")
"""In the text of a formula: what divides."""

MOVING_TILES = ("persistent",)
"""Schedules whose epilogue guards rows and columns by branches. Stream-K clamps the rows instead."""


def beside_accumulators(plan: TilePlan, kernel: KernelPlan, number: Number = whole) -> int | None:
    """All of it; None where an instruction is not known. ``number`` gives the value of a size at one shape."""
    product = _product(plan, kernel, number)
    if product is None:
        return None
    epilogue = EPILOGUE_OVERHEAD + _unpacked(kernel, number) + _in_flight(plan, kernel, number)
    return max(product + _copies(plan, kernel, number), epilogue)


def _product(plan: TilePlan, kernel: KernelPlan, number: Number) -> int | None:
    found = []
    for gemm, _ in kernel.find(Gemm):
        product = gemm.dtype, number(gemm.m), number(gemm.n), number(gemm.k) or 0
        held = asked_of_path(plan.target, kernel, gemm, _beside, *product, number=number)
        if held is None:
            return None
        found.append(held)
    return max(found, default=None)


def _beside(path: GemmPath | GemmRefusal | None, dtype: str, m: int | None, n: int | None, k: int) -> int | None:
    return beside_product(path, dtype, m, n, k) if isinstance(path, GemmPath) and m and n else None


def beside_product(path: GemmPath, dtype: str, m: int, n: int, k: int) -> int:
    """Of one product of these sizes: what a WGMMA needs, or the operands of a K step and their addresses."""
    if path.instruction == "wgmma":
        return WGMMA_OVERHEAD
    return mma_registers(m // path.partition.m, n // path.partition.n, k * ITEMSIZE[dtype])


def _copies(plan: TilePlan, kernel: KernelPlan, number: Number) -> int:
    """Of the tiles that threads copy in a loop: addresses of uneven shares, and a batch of what passes through registers."""
    threads = number(kernel.launch.threads)
    if not threads or number(kernel.launch.producer_threads) != 0:
        return 0  # producers copy, with registers of their own
    addresses = passing = 0
    for copy, loops in kernel.find(Copy):
        if not loops or copy.explicit_tma or copy.only_where is False:
            continue
        pipelines = [loop for loop in loops if loop.kind is LoopKind.PIPELINED]
        if pipelines and all(number(loop.trips) == 1 for loop in pipelines):
            continue  # no loop: all is copied before the first product
        source, destination = kernel.buffer(copy.src), kernel.buffer(copy.dst)
        rows, columns = (number(size) for size in (1, *copy.extents)[-2:])
        if (source.scope, destination.scope) != (Scope.GLOBAL, Scope.SHARED) or not rows or not columns:
            continue
        width = _vector_bytes(plan, copy, rows, columns, source.itemsize, threads, number)
        lanes = columns * source.itemsize // width
        accesses = -(-rows * columns * source.itemsize // (width * threads))
        if threads % lanes and lanes % threads:
            addresses += accesses * ADDRESS_REGISTERS
        pipelined = any(loop.stages != 0 for loop in pipelines)
        if not (pipelined and width in plan.target.copy.cp_async_bytes):
            passing += accesses * max(width // REGISTER_BYTES, 1)
    return addresses + min(passing, COPY_BATCH)


def _vector_bytes(
    plan: TilePlan, copy: Copy, rows: int, columns: int, itemsize: int, threads: int, number: Number
) -> int:
    if copy.row_pitch is None or free_names(copy.row_pitch) & plan.dynamic_dims:
        return itemsize  # no vector may start at a row that starts anywhere
    pitch = number(copy.row_pitch) or plan.target.copy.vector_bytes
    return shared_vector_bytes(rows, columns, pitch, itemsize, threads, plan.target)


def _unpacked(kernel: KernelPlan, number: Number) -> int:
    """Registers of the values of 16-bit accumulators, each in one of its own, beside those that hold them in pairs."""
    products = {gemm.acc for gemm, _ in kernel.find(Gemm)}
    targets = (kernel.buffer(op.writes) for op, _ in kernel.find(Elementwise) if len(op.reads) > 1)
    pairs = (target for target in targets if target.name in products and target.itemsize < REGISTER_BYTES)
    return max(
        ((number(fragment_registers(kernel, pair)) or 0) * (REGISTER_BYTES // pair.itemsize) for pair in pairs),
        default=0,
    )


def _in_flight(plan: TilePlan, kernel: KernelPlan, number: Number) -> int:
    """Registers of tiles that are read into accumulators, while they are on their way."""
    copies = (copy for copy, _ in kernel.find(Copy) if kernel.buffer(copy.src).scope is Scope.FRAGMENT)
    workspaces = {copy.dst for copy in copies if kernel.buffer(copy.dst).scope is Scope.GLOBAL}
    partial = others = 0
    for op, _ in kernel.find(Elementwise):
        target = kernel.buffer(op.writes)
        threads = number(kernel.launch.threads if target.owners is None else target.owners)
        extents = [extent for extent in map(number, op.extents) if extent is not None]
        if target.scope is not Scope.FRAGMENT or not threads or len(extents) < len(op.extents):
            continue
        branches = plan.schedule in MOVING_TILES or DIVIDES.search(op.what)
        for name in op.reads:
            buffer = kernel.buffer(name)
            if buffer.scope is Scope.GLOBAL and len(buffer.shape) > 1 and not (branches and name not in workspaces):
                held = -(-prod(extents) * buffer.itemsize // (threads * REGISTER_BYTES))
                partial, others = (partial + held, others) if name in workspaces else (partial, others + held)
    return partial + others if _reallocated_upwards(plan, kernel, number) else min(partial, LOAD_BATCH)


def _reallocated_upwards(plan: TilePlan, kernel: KernelPlan, number: Number) -> bool:
    """Whether the computing threads are given more registers than the launch gives every thread."""
    threads, producers = number(kernel.launch.threads), number(kernel.launch.producer_threads)
    if not threads or not producers or producers > producer_threads(plan.target):
        return False
    given = consumer_registers(plan.target, threads // (plan.target.launch.warp_group_size or threads))
    return given is not None and given > launch_limit(plan.target, threads + producers)
