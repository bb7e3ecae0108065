"""The tile picture: which tile of each tensor lives in global memory, shared memory and registers, drawn to scale.

A box has the tile's rows and columns at one scale for the whole kernel. Its colour says what data it holds: a copy takes
the colour of what it was copied from, an accumulator has its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilegen.expr import to_text
from tilegen.plan.model import Buffer, Copy, Elementwise, Fill, Gemm, KernelPlan, Loop, LoopKind, Reduce, Scope
from tilegen.plan.resources import fragment_registers
from tilegen.review.page.paths import copy_path, instruction_text, product_path

if TYPE_CHECKING:
    from tilegen.expr import Size
    from tilegen.plan.model import Op
    from tilegen.review.page.sized import SizedPlan

WIDE, NARROW, TALL = 620.0, 290.0, 160.0
"""Pixels of the widest box on a desk and on a phone, and of the tallest on either."""

MOST_SCALE = 1.5
LEAST_HEIGHT = 26.0
MOST_STRETCH = 40.0
STAGES_DRAWN = 8

NEUTRAL, OUTPUT = 0, 4
INPUTS = (1, 2, 3, 5, 6)
"""Tones of the page's style sheet: inputs in their order, then the accumulator's."""


@dataclass(frozen=True)
class Box:
    """``width`` and ``height`` in elements; ``copies`` is how many stages lie behind one another."""

    name: str
    width: int
    height: int
    copies: int
    stages: int
    tone: int
    shape: str
    dtype: str
    cost: str
    holds: str
    is_open: bool = False
    """A tensor of global memory goes on beyond the tile."""


@dataclass(frozen=True)
class Step:
    """One line between two levels: a copy or a product."""

    arrow: str
    text: str
    detail: str
    how: str


@dataclass(frozen=True)
class Level:
    title: str
    note: str
    boxes: tuple[Box, ...]
    steps: tuple[Step, ...]
    """What happens between this level and the next one down."""


@dataclass(frozen=True)
class TilePicture:
    """``scale`` and ``narrow`` are pixels a column on a desk and on a phone; a row is ``stretch`` times as tall."""

    levels: tuple[Level, ...]
    scale: float
    narrow: float
    stretch: int
    bar: int
    """Columns of the scale bar."""


def tile_picture(sized: SizedPlan, kernel: KernelPlan) -> TilePicture:
    """The boxes of every buffer of a kernel, and what moves between them."""
    tones = tones_of(kernel)
    levels = (
        Level(
            "Global memory",
            "the tile of each tensor that one block takes at a time",
            tuple(_global(sized, kernel, buffer, tones) for buffer in kernel.scope(Scope.GLOBAL)),
            tuple(_moves(sized, kernel, touching=Scope.GLOBAL)),
        ),
        Level(
            "Shared memory",
            "of one block",
            tuple(_shared(sized, buffer, tones) for buffer in kernel.scope(Scope.SHARED)),
            (*_products(sized, kernel), *_moves(sized, kernel, touching=Scope.SHARED)),
        ),
        Level(
            "Registers",
            "over the threads that hold each fragment",
            tuple(_fragments(sized, kernel, tones)),
            (),
        ),
    )
    boxes = [box for level in levels for box in level.boxes]
    widest = max((box.width for box in boxes), default=1)
    tallest = max((box.height for box in boxes), default=1)
    scale = min(MOST_SCALE, WIDE / widest, TALL / tallest)
    stretch = min(MOST_STRETCH, max(1.0, LEAST_HEIGHT / (tallest * scale)))
    return TilePicture(
        tuple(level for level in levels if level.boxes),
        round(scale, 4),
        round(min(scale, NARROW / widest), 4),
        int(stretch) if stretch >= 2 else 1,
        _bar(widest),
    )


def _bar(widest: int) -> int:
    """A power of two of about a quarter of the widest box."""
    return int(2 ** max(0, (widest // 4).bit_length() - 1))


def tones_of(kernel: KernelPlan) -> dict[str, int]:
    """A tone for each buffer: that of the tensor whose data it holds first, or of the output that it is on its way to."""
    copies = [copy for copy, _ in kernel.find(Copy)]
    formulas = [op for op, _ in kernel.find(Elementwise)]
    read = {copy.src for copy in copies} | {name for op in formulas for name in op.reads}
    written = {copy.dst for copy in copies} | {op.writes for op in formulas}
    inputs = [buffer.name for buffer in kernel.scope(Scope.GLOBAL) if buffer.name in read - written]
    tones = {name: INPUTS[index] for index, name in enumerate(inputs) if index < len(INPUTS)}
    tones |= {buffer.name: OUTPUT for buffer in kernel.scope(Scope.GLOBAL) if buffer.name in written}
    tones |= {gemm.acc: OUTPUT for gemm, _ in kernel.find(Gemm)}
    flows = [(copy.src, copy.dst) for copy in copies]
    flows += [(name, op.writes) for op in formulas for name in op.reads if kernel.buffer(name).scope is Scope.FRAGMENT]
    # Loads first: a tile that is filled from a tensor keeps its colour, whatever takes its place later.
    for source, destination in sorted(flows, key=lambda flow: kernel.buffer(flow[0]).scope is not Scope.GLOBAL):
        if source in tones and kernel.buffer(destination).scope is not Scope.GLOBAL:
            tones.setdefault(destination, tones[source])
    return tones


def _global(sized: SizedPlan, kernel: KernelPlan, buffer: Buffer, tones: dict[str, int]) -> Box:
    extents = next(
        (copy.extents for copy, _ in kernel.find(Copy) if buffer.name in (copy.src, copy.dst)),
        next((op.extents for op, _ in kernel.find(Elementwise) if op.writes == buffer.name), ()),
    )
    shape = ", ".join(to_text(extent) for extent in buffer.shape)
    by_element = any(buffer.name in op.reads for op, _ in kernel.find(Elementwise))
    tile = f"tile {sized.extents(extents)}" if extents else "read by element" if by_element else ""
    rows, columns = _plane(sized, extents or (1,))
    return Box(
        buffer.name,
        columns,
        rows,
        1,
        1,
        tones.get(buffer.name, NEUTRAL),
        f"({shape})",
        buffer.dtype,
        tile,
        buffer.holds,
        is_open=True,
    )


def _shared(sized: SizedPlan, buffer: Buffer, tones: dict[str, int]) -> Box:
    stages = sized.least(buffer.stages)
    shape = buffer.shape
    if len(shape) > 2 or (len(shape) == 2 and stages == 1 and "tile.stages" in buffer.decided_by[:1]):
        stages, shape = sized.least(shape[0]), shape[1:]
    rows, columns = _plane(sized, shape)
    size = sized.number(buffer.nbytes)
    return Box(
        buffer.name,
        columns,
        rows,
        min(stages, STAGES_DRAWN),
        stages,
        tones.get(buffer.name, NEUTRAL),
        sized.extents(shape),
        buffer.dtype,
        f"{size:,} B" if size is not None else to_text(buffer.nbytes),
        ", ".join(filter(None, ("added by TileLang" if buffer.by_compiler else "", buffer.holds))),
    )


def _fragments(sized: SizedPlan, kernel: KernelPlan, tones: dict[str, int]) -> Iterator[Box]:
    """The fragments; row vectors that are alike are one box."""
    vectors: dict[tuple[object, ...], list[Buffer]] = {}
    for buffer in kernel.scope(Scope.FRAGMENT):
        if len(buffer.shape) > 1:
            yield _fragment(sized, kernel, buffer, tones)
        else:
            vectors.setdefault((buffer.shape, buffer.dtype, buffer.warp_group), []).append(buffer)
    for alike in vectors.values():
        first = _fragment(sized, kernel, alike[0], tones)
        if len(alike) == 1:
            yield first
            continue
        group = "" if alike[0].warp_group is None else f"warp group {alike[0].warp_group}"
        names = ", ".join(buffer.name for buffer in alike)
        yield replace(first, name=names, tone=NEUTRAL, cost=f"{first.cost}, each", holds=group)


def _fragment(sized: SizedPlan, kernel: KernelPlan, buffer: Buffer, tones: dict[str, int]) -> Box:
    rows, columns = _plane(sized, buffer.shape)
    count = sized.number(fragment_registers(kernel, buffer))
    group = "" if buffer.warp_group is None else f"warp group {buffer.warp_group}: "
    registers = "" if count is None else f"{count} register{'s' if count != 1 else ''} a thread"
    return Box(
        buffer.name,
        columns,
        rows,
        1,
        1,
        tones.get(buffer.name, NEUTRAL),
        sized.extents(buffer.shape),
        buffer.dtype,
        registers,
        group + buffer.holds,
    )


def _plane(sized: SizedPlan, shape: tuple[Size, ...]) -> tuple[int, int]:
    """Rows and columns of a tile; a vector is one row."""
    sizes = [sized.least(extent) for extent in shape]
    return (sizes[-2], sizes[-1]) if len(sizes) > 1 else (1, sizes[0])


def _moves(sized: SizedPlan, kernel: KernelPlan, *, touching: Scope) -> Iterator[Step]:
    """The copies between global memory and the chip, or those between shared memory and registers; those down first."""
    found: list[tuple[Step, tuple[Loop, ...]]] = []
    for copy, loops in kernel.find(Copy):
        scopes = kernel.buffer(copy.src).scope, kernel.buffer(copy.dst).scope
        if touching not in scopes or (touching is Scope.SHARED and Scope.GLOBAL in scopes):
            continue
        down = scopes[0] is Scope.GLOBAL or scopes == (Scope.SHARED, Scope.FRAGMENT)
        arrow, how = "down" if down else "up", copy_path(sized, kernel, copy, loops)
        found.append((Step(arrow, f"{copy.src} → {copy.dst}", sized.extents(copy.extents), how), loops))
    if touching is Scope.GLOBAL:
        for op, loops in kernel.find(Elementwise):
            if kernel.buffer(op.writes).scope is Scope.GLOBAL:
                inside = ", ".join(name for name in op.reads if kernel.buffer(name).scope is not Scope.GLOBAL)
                text = f"{inside or 'values'} → {op.writes}"
                found.append((Step("up", text, sized.extents(op.extents), "vector stores"), loops))
    yield from sorted(_each_once(found), key=lambda step: step.arrow != "down")


def _products(sized: SizedPlan, kernel: KernelPlan) -> Iterator[Step]:
    found: list[tuple[Step, tuple[Loop, ...]]] = []
    for gemm, loops in kernel.find(Gemm):
        a, b = f"{gemm.a}{'ᵀ' if gemm.transpose_a else ''}", f"{gemm.b}{'ᵀ' if gemm.transpose_b else ''}"
        how = instruction_text(product_path(sized, kernel, gemm))
        found.append((Step("product", f"{gemm.acc} += {a} · {b}", sized.extents((gemm.m, gemm.n, gemm.k)), how), loops))
    return _each_once(found)


def _each_once(found: list[tuple[Step, tuple[Loop, ...]]]) -> Iterator[Step]:
    """Equal steps are one, of the innermost loop that one of them stands in; its variable says how often."""
    inner: dict[Step, list[str]] = {}
    for step, loops in found:
        variables = [loop.variable for loop in loops if loop.kind is not LoopKind.UNROLLED]
        if len(variables) >= len(inner.setdefault(step, variables)):
            inner[step] = variables
    for step, variables in inner.items():
        yield replace(step, detail=f"{step.detail} each {variables[-1]}") if variables else step


def written(op: Op) -> str | None:
    """The buffer that an operation writes; None for a loop."""
    match op:
        case Copy():
            return op.dst
        case Gemm():
            return op.acc
        case Reduce():
            return op.dst
        case Elementwise():
            return op.writes
        case Fill():
            return op.buffer
    return None


def read(op: Op) -> tuple[str, ...]:
    """The buffers that an operation reads, but for an accumulator."""
    match op:
        case Copy() | Reduce():
            return (op.src,)
        case Gemm():
            return (op.a, op.b)
        case Elementwise():
            return op.reads
    return ()
