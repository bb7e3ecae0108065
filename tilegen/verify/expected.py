"""What a tile plan says that TileLang and the compiler must show: the side of the comparison that tilegen predicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilegen.expr import evaluate
from tilegen.lowering.instruction import GemmPath
from tilegen.plan.instruction import path_of
from tilegen.plan.model import Gemm, KernelPlan, Loop, LoopKind, Scope
from tilegen.plan.registers import demands
from tilegen.plan.resources import shared_bytes, static_shared_bytes
from tilegen.verify.transfers import PLAIN, TMA, transfers

if TYPE_CHECKING:
    from tilegen.expr import Size
    from tilegen.plan.instances import Instance
    from tilegen.plan.model import TilePlan


def expected(instance: Instance) -> list[dict[str, Any]]:
    """One entry for each kernel of the instance, in plain numbers and words.

    ``dims``: the instance's. ``grid``: at those dims. ``threads``: of the launched block. ``dynamic_bytes`` and
    ``static_bytes``: shared memory. ``buffers``: name to scope, shape (one stage) and dtype. ``gemms``: operands, sizes,
    transposes and policy in program order. ``pipelines``: stages of each pipelined loop. ``swizzle``: order and panel of
    the blocks, or None. ``instructions``: the matrix instructions that must appear, and none other. ``loads``: how tiles
    come, of "tma" and "cp_async"; ``tma_stores``: whether any goes so. ``registers`` of a thread, about, and whether it
    ``spills``. ``vector_bytes``: of one access by one thread, by tensor, where TMA does not carry its tiles.
    """
    plan = instance.plan()
    return [_kernel(plan, kernel, instance.dims) for kernel in plan.kernels]


def _kernel(plan: TilePlan, kernel: KernelPlan, dims: Mapping[str, int]) -> dict[str, Any]:
    known = {**dims, "sm_count": plan.target.part.sm_count}
    moved = list(transfers(plan, kernel, dims))

    def at(size: Any) -> int:
        return int(evaluate(size, known))

    return {
        "name": kernel.name,
        "dims": dict(dims),
        "grid": [at(extent) for extent in kernel.launch.grid],
        "threads": at(kernel.launch.block_threads),
        "dynamic_bytes": at(shared_bytes(kernel, plan.target)),
        "static_bytes": at(static_shared_bytes(kernel)),
        "buffers": {
            buffer.name: {
                "scope": buffer.scope.value,
                "shape": [at(extent) for extent in buffer.shape],
                "dtype": buffer.dtype,
            }
            for buffer in kernel.buffers
            if buffer.scope is not Scope.GLOBAL and buffer.count == 1 and not buffer.by_compiler
        },
        "gemms": [
            {
                "a": gemm.a,
                "b": gemm.b,
                "acc": gemm.acc,
                "m": at(gemm.m),
                "n": at(gemm.n),
                "k": at(gemm.k),
                "transpose_a": gemm.transpose_a,
                "transpose_b": gemm.transpose_b,
                "policy": gemm.policy,
            }
            for gemm, _ in kernel.find(Gemm)
        ],
        "swizzle": list(kernel.launch.swizzle) if kernel.launch.swizzle else None,
        "pipelines": [at(loop.stages) for loop, _ in kernel.find(Loop) if loop.kind is LoopKind.PIPELINED],
        "instructions": sorted(_instructions(plan, kernel, dims)),
        "loads": sorted({transfer.path for transfer in moved if transfer.is_load and transfer.path != PLAIN}),
        "tma_stores": any(transfer.path == TMA for transfer in moved if not transfer.is_load),
        **_registers(plan, kernel, dims),
        "vector_bytes": {
            name: max(transfer.vector_bytes or 0 for transfer in moved if transfer.tensor == name)
            for name in sorted({transfer.tensor for transfer in moved if transfer.path != TMA})
        },
    }


def _registers(plan: TilePlan, kernel: KernelPlan, dims: Mapping[str, int]) -> dict[str, Any]:
    """``registers`` of a thread, about, and whether it ``spills``: needs more than there are; None where not known."""

    def at(size: Size) -> int:
        return int(evaluate(size, dims))

    known = [(at(demand.needed), demand.available) for demand in demands(plan, kernel, at)]
    return {
        "registers": max((min(needed, available) for needed, available in known), default=None),
        "spills": any(needed > available for needed, available in known) if known else None,
    }


SPELLING = {"mma.sync": "mma"}


def _instructions(plan: TilePlan, kernel: KernelPlan, dims: Mapping[str, int]) -> set[str]:
    found = set()
    for gemm, _ in kernel.find(Gemm):
        path = path_of(plan.target, kernel, gemm, lambda size: int(evaluate(size, dims)))
        if isinstance(path, GemmPath):
            found.add(SPELLING.get(path.instruction, path.instruction))
    return found
