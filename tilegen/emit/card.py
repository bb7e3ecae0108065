"""The budget card: what a kernel spends on its chip, in the header of the generated file and in ``tilegen show``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilegen.emit import format as layout
from tilegen.expr import to_text
from tilegen.lowering.occupancy import occupancy
from tilegen.plan.model import Scope
from tilegen.plan.resources import fragment_registers, shared_bytes, static_shared_bytes
from tilegen.plan.roofline import roofline

if TYPE_CHECKING:
    from tilegen.expr import Size
    from tilegen.plan.model import KernelPlan, TilePlan


def budget_card(plan: TilePlan) -> list[str]:
    """Lines of plain text, at most 110 columns, one block for each kernel of the plan."""
    lines = []
    for kernel in plan.kernels:
        lines += list(_launch(kernel)) + list(_shared(plan, kernel)) + list(_registers(kernel))
    return [part for line in lines for part in wrapped(line)]


WIDTH = 110


def wrapped(line: str) -> list[str]:
    """A line of a card in pieces of at most 110 columns, the later ones indented."""
    indent = " " * (len(line) - len(line.lstrip()) + 8)
    return layout.wrapped(line, WIDTH, indent)


def size_text(size: Size) -> str:
    """A number with thousands separated, or the expression."""
    return f"{size:,}" if isinstance(size, int) else to_text(size)


def _launch(kernel: KernelPlan) -> Iterator[str]:
    launch = kernel.launch
    grid = ", ".join(launch.names or [to_text(extent) for extent in launch.grid])
    extra = f" + {to_text(launch.producer_threads)} of the producer" if launch.producer_threads else ""
    yield f"{kernel.name}: grid ({grid}), {to_text(launch.threads)} threads{extra}"


def _shared(plan: TilePlan, kernel: KernelPlan) -> Iterator[str]:
    for buffer in kernel.scope(Scope.SHARED):
        shape = " x ".join(to_text(extent) for extent in buffer.shape)
        stages = f"{to_text(buffer.stages)} stages of " if buffer.stages != 1 else ""
        yield f"    shared    {buffer.name:<12} {stages}{shape} {buffer.dtype}: {size_text(buffer.nbytes)} B"
    dynamic, static = shared_bytes(kernel, plan.target), static_shared_bytes(kernel)
    if dynamic == 0:
        return
    limit = plan.target.shared_memory.per_block
    static_text = f" and {size_text(static)} B for the barriers" if static else ""
    line = f"    shared    total        {size_text(dynamic)} B{static_text} of {limit:,} B"
    if isinstance(dynamic, int) and isinstance(static, int) and isinstance(kernel.launch.block_threads, int):
        blocks = occupancy(
            plan.target, threads=kernel.launch.block_threads, shared_bytes=dynamic + static, registers=0
        ).blocks_per_sm
        line += f": {blocks} block{'s' if blocks != 1 else ''} an SM"
    yield line


def _registers(kernel: KernelPlan) -> Iterator[str]:
    for buffer in kernel.scope(Scope.FRAGMENT):
        if len(buffer.shape) < 2:
            continue
        shape = " x ".join(to_text(extent) for extent in buffer.shape)
        count = fragment_registers(kernel, buffer)
        yield f"    registers {buffer.name:<12} {shape} {buffer.dtype}: {size_text(count)} a thread"


def roofline_line(plan: TilePlan, shape: dict[str, int]) -> str:
    """Flops, bytes and the time that the chip needs at least, for one shape."""
    roof = roofline(plan).at(shape, plan.target.part)
    where = ", ".join(f"{name} = {value}" for name, value in shape.items())
    return (
        f"{where}: {roof.flops / 1e9:.4g} GFLOP, {roof.bytes_moved / 1e6:.4g} MB; "
        f"at least {roof.seconds * 1e6:.3g} us on {plan.target.part.name} ({roof.bound})"
    )
