"""Where the elements of a shared-memory tile lie, and which accesses of it meet in one bank.

TileLang lays a gemm operand, and a tile that TMA stores from, in panels as wide as the swizzle span. Within a panel the
16-byte chunk of a row is exclusive-ored with the row: by row % 8 at a span of 128 bytes, row // 2 % 4 at 64, row // 4 %
2 at 32. Other tiles are row-major.

Two accesses are judged, each 128 bytes, which the banks can deliver at once: *8 rows x 16 bytes*, how `ldmatrix`,
`stmatrix`, an accumulator's stores and WGMMA's core matrices go over a tile; and *128 bytes along the rows*, how TMA,
`cp.async` and vector copies do.

Source: PTX ISA, tensor swizzling modes and ldmatrix; tilelang src/layout/gemm_layouts.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tilegen.lowering.instruction import GemmPath, GemmRefusal, operand_continuity
from tilegen.plan.instruction import asked_of_path
from tilegen.plan.model import Buffer, Copy, Gemm, KernelPlan, Scope

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan
    from tilegen.targets import Target

CHUNK = 16
BANK_BYTES = 4
SPANS = (128, 64, 32)
"""Spans of TileLang's layouts, and of the tensor map's swizzle modes."""

PHASE = 8
"""Chunks of one access: a phase of 8 lanes with 16 bytes each."""


class LayoutError(Exception):
    """A buffer that has no layout to show; the message says why."""


@dataclass(frozen=True)
class SharedLayout:
    """A tile of ``rows`` x ``columns`` elements, swizzled over ``span`` bytes (0: row-major)."""

    buffer: str
    rows: int
    columns: int
    dtype: str
    itemsize: int
    span: int
    banks: int

    @property
    def chunks(self) -> int:
        """16-byte chunks of a row."""
        return self.columns * self.itemsize // CHUNK

    def address(self, row: int, chunk: int) -> int:
        """Byte offset of a chunk in the buffer."""
        if not self.span:
            return (row * self.chunks + chunk) * CHUNK
        width = self.span // CHUNK
        panel, inside = divmod(chunk, width)
        # The hardware swaps address bits 4.. with bits 7..: at a span below 128 bytes several rows share a bit 7.
        turn = row * self.span // 128 % width
        return panel * self.rows * self.span + row * self.span + (inside ^ turn) * CHUNK

    def bank(self, row: int, chunk: int) -> int:
        """The first of the banks that a chunk lies in."""
        return self.address(row, chunk) // BANK_BYTES % self.banks

    def ways(self, cells: list[tuple[int, int]]) -> int:
        """Times that the busiest bank is asked in one access of these chunks; 1 is free of conflicts."""
        counts: dict[int, int] = {}
        for row, chunk in cells:
            first = self.bank(row, chunk)
            counts[first] = counts.get(first, 0) + 1
        return max(counts.values(), default=1)

    def down(self, row: int, chunk: int) -> list[tuple[int, int]]:
        """The access of 8 rows x 16 bytes that starts at a chunk."""
        return [(r, chunk) for r in range(row, min(row + PHASE, self.rows))]

    def along(self, row: int, chunk: int) -> list[tuple[int, int]]:
        """The access of 128 bytes in row order that starts at a chunk."""
        first = row * self.chunks + chunk
        return [divmod(i, self.chunks) for i in range(first, min(first + PHASE, self.rows * self.chunks))]

    @property
    def down_ways(self) -> int:
        return max(
            self.ways(self.down(row, chunk)) for row in range(0, self.rows, PHASE) for chunk in range(self.chunks)
        )

    @property
    def along_ways(self) -> int:
        starts = range(0, self.rows * self.chunks, PHASE)
        return max(self.ways(self.along(*divmod(start, self.chunks))) for start in starts)

    @property
    def title(self) -> str:
        swizzle = f"{self.span}-byte swizzle" if self.span else "row-major"
        return f"{self.buffer} ({self.rows}, {self.columns}) {self.dtype}, {swizzle}"

    @property
    def verdict(self) -> str:
        return f"8 rows x 16 bytes: {_ways(self.down_ways)}; 128 bytes along the rows: {_ways(self.along_ways)}"


def _ways(count: int) -> str:
    return "no bank conflict" if count == 1 else f"{count}-way bank conflict"


def layout_of(plan: TilePlan, name: str) -> SharedLayout:
    """The layout of a shared buffer of a plan. Raises :class:`LayoutError`."""
    shared = {buffer.name: (kernel, buffer) for kernel in plan.kernels for buffer in kernel.scope(Scope.SHARED)}
    if name not in shared:
        has = f"it has {', '.join(shared)}" if shared else "it has none"
        raise LayoutError(f"{plan.spec.kernel} has no shared buffer `{name}` on {plan.target.name}; {has}")
    return layout_in(plan.target, *shared[name])


def layout_in(target: Target, kernel: KernelPlan, buffer: Buffer) -> SharedLayout:
    """The layout of a shared buffer of a kernel. Raises :class:`LayoutError`."""
    name = buffer.name
    if not all(isinstance(extent, int) for extent in buffer.shape):
        raise LayoutError(f"the size of `{name}` depends on dims: choose a case in which it is a number")
    # A leading axis holds stages, each laid out for itself: one is shown.
    rows, columns = (1, *buffer.shape)[-2:]
    if columns * buffer.itemsize % CHUNK:
        raise LayoutError(f"a row of `{name}` is {columns * buffer.itemsize} bytes, no whole number of 16-byte chunks")
    span = _span(target, kernel, buffer, rows, columns)
    return SharedLayout(name, rows, columns, buffer.dtype, buffer.itemsize, span, target.shared_memory.banks)


def _span(target: Target, kernel: KernelPlan, buffer: Buffer, rows: int, columns: int) -> int:
    width = _continuity(target, kernel, buffer.name, columns)
    if width is None or rows % PHASE:
        return 0
    return next((span for span in SPANS if width * buffer.itemsize % span == 0), 0)


def _continuity(target: Target, kernel: KernelPlan, name: str, columns: int) -> int | None:
    """Elements that the swizzle span must divide; None for a tile that is neither a gemm operand nor stored by TMA."""
    for gemm, _ in kernel.find(Gemm):
        if name in (gemm.a, gemm.b):
            return _operand_width(target, kernel, gemm, name, columns)
    stored = any(copy.src == name and kernel.buffer(copy.dst).scope is Scope.GLOBAL for copy, _ in kernel.find(Copy))
    return columns if stored and target.tma is not None else None


def _operand_width(target: Target, kernel: KernelPlan, gemm: Gemm, name: str, columns: int) -> int:
    is_a = name == gemm.a
    transposed = gemm.transpose_a if is_a else gemm.transpose_b
    return asked_of_path(target, kernel, gemm, _continuous, "A" if is_a else "B", columns, transposed)


def _continuous(path: GemmPath | GemmRefusal | None, operand: Literal["A", "B"], columns: int, transposed: bool) -> int:
    return operand_continuity(path, operand, columns, transposed=transposed) if isinstance(path, GemmPath) else columns
