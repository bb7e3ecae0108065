"""A tile plan as indented text: launch, buffers, and the tile program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilegen.expr import to_text
from tilegen.plan.model import Copy, Elementwise, Fill, Gemm, Loop, LoopKind, Reduce

if TYPE_CHECKING:
    from tilegen.expr import Size
    from tilegen.plan.model import Buffer, KernelPlan, Op, TilePlan


def outline(plan: TilePlan) -> list[str]:
    """One line for each buffer and tile operation, each kernel of the plan under its own heading."""
    return [line for kernel in plan.kernels for line in _kernel(kernel)]


def _kernel(kernel: KernelPlan) -> Iterator[str]:
    launch = kernel.launch
    grid = " x ".join(to_text(extent) for extent in launch.grid)
    extra = f" + {to_text(launch.producer_threads)}" if launch.producer_threads != 0 else ""
    yield f"{kernel.name}: grid {grid}, {to_text(launch.threads)}{extra} threads"
    for buffer in kernel.buffers:
        yield f"    {_buffer(buffer)}"
    for op in kernel.body:
        yield from (f"    {line}" for line in _op(op))


def _shape(extents: tuple[Size, ...]) -> str:
    return "(" + ", ".join(to_text(extent) for extent in extents) + ")"


def _buffer(buffer: Buffer) -> str:
    times = f" x {to_text(buffer.stages)} stages" if buffer.stages != 1 else ""
    holds = f"  {buffer.holds}" if buffer.holds else ""
    return f"{buffer.scope.value:<8} {buffer.name} {_shape(buffer.shape)} {buffer.dtype}{times}{holds}"


def _op(op: Op) -> Iterator[str]:
    if isinstance(op, Loop):
        stages = f", {to_text(op.stages)} stages" if op.kind is LoopKind.PIPELINED else ""
        yield f"for {op.variable} in {to_text(op.trips)} trips, {op.kind.value}{stages}:"
        for inner in op.body:
            yield from (f"    {line}" for line in _op(inner))
    elif isinstance(op, Copy):
        yield f"copy {op.src} -> {op.dst} {_shape(op.extents)}" + (", the last may overrun" if op.may_overrun else "")
    elif isinstance(op, Gemm):
        a, b = f"{op.a}{'.T' if op.transpose_a else ''}", f"{op.b}{'.T' if op.transpose_b else ''}"
        yield f"gemm {op.acc} += {a} @ {b}, {_shape((op.m, op.n, op.k))}, {op.dtype} into {op.accum}, {op.policy}"
    elif isinstance(op, Reduce):
        yield f"{op.kind} of {op.src} over axis {op.axis} ({to_text(op.length)}) -> {op.dst}"
    elif isinstance(op, Elementwise):
        what = f" = {op.what}" if op.what else ""
        yield f"parallel {_shape(op.extents)}: {op.writes}{what} from {', '.join(op.reads)}"
    elif isinstance(op, Fill):
        yield f"fill {op.buffer} with {op.value:g}"
    else:
        yield type(op).__name__.lower()
