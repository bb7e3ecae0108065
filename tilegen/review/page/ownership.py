"""Who holds what of an accumulator, and what warp groups hand to each other.

WGMMA gives a warp group whole rows of 64, of which each of its four warps has 16; the groups go down the rows first, then
along the columns. `mma.sync` and MFMA give each warp one tile, in the same order. A row norm shares a row between
neighbouring lanes, 16 bytes each in turn.

Source: tilelang cuda/intrinsics/macro/wgmma_macro_generator.py, make_mma_store_layout; mma_macro_generator.py,
extract_thread_binding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilegen.lowering.instruction import GemmPath
from tilegen.plan.model import Copy, Gemm, KernelPlan, Op, RowPass, Scope
from tilegen.review.page.paths import instruction_text, product_path
from tilegen.review.page.program import flat
from tilegen.review.page.tiles import read, written

if TYPE_CHECKING:
    from tilegen.review.page.sized import SizedPlan

WARPS_PER_GROUP = 4
OWNERS = {"wgmma": "warp group", "mfma": "wave"}


@dataclass(frozen=True)
class Share:
    """A rectangle of an accumulator, in elements, and who holds it."""

    accumulator: str
    x: int
    y: int
    width: int
    height: int
    owner: str
    tone: int
    stripes: tuple[tuple[int, int], ...] = ()
    """Rows within it (from, how many) that single warps have."""


@dataclass(frozen=True)
class Accumulator:
    names: tuple[str, ...]
    rows: int
    columns: int
    shares: tuple[Share, ...]
    instruction: str


@dataclass(frozen=True)
class Exchange:
    """A buffer of shared memory through which warp groups, or the warps of one, hand each other data."""

    giver: str
    buffer: str
    what: str
    taker: str
    barrier: str


@dataclass(frozen=True)
class RowShare:
    """``lanes`` threads share a row of ``length`` elements, ``vector`` at a time, in ``sweeps`` of ``block`` columns."""

    length: int
    lanes: int
    vector: int
    sweeps: int
    block: int
    rows: int

    @property
    def covered(self) -> int:
        """Columns that the sweeps cover, those past the end of the row included."""
        return self.sweeps * self.block


def accumulators(sized: SizedPlan, kernel: KernelPlan) -> list[Accumulator]:
    """Each accumulator of a kernel with its owners. Those that are parts of one output, by columns or by rows, are one."""
    groups: dict[tuple[str, bool], dict[str, tuple[Gemm, str, int]]] = {}
    for index, (role, ops) in enumerate(kernel.programs()):
        for op, _ in flat(ops):
            if isinstance(op, Gemm):
                label = role.name if kernel.roles else ""
                groups.setdefault((op.b, op.transpose_b), {}).setdefault(op.acc, (op, label, index))
    found: dict[tuple[str, ...], Accumulator] = {}
    for members in groups.values():
        for accumulator in _grouped(sized, kernel, list(members.values())):
            found.setdefault(accumulator.names, accumulator)
    return list(found.values())


def _grouped(sized: SizedPlan, kernel: KernelPlan, members: list[tuple[Gemm, str, int]]) -> list[Accumulator]:
    single = [_accumulator(sized, kernel, *member) for member in members]
    first = members[0][0]
    if len(single) > 1 and len({entry.rows for entry in single}) == 1:
        columns = sized.least(kernel.buffer(first.b).shape[-2 if first.transpose_b else -1])
        rows = sized.least(kernel.buffer(first.a).shape[-1 if first.transpose_a else -2])
        if sum(entry.columns for entry in single) == columns:
            return [_side_by_side(single, down=False)]
        if sum(entry.rows for entry in single) == rows:
            return [_side_by_side(single, down=True)]
    return single


def _side_by_side(parts: list[Accumulator], *, down: bool) -> Accumulator:
    shares, x, y = [], 0, 0
    for part in parts:
        shares += [replace(share, x=share.x + x, y=share.y + y) for share in part.shares]
        x, y = (x, y + part.rows) if down else (x + part.columns, y)
    return Accumulator(
        tuple(name for part in parts for name in part.names),
        y if down else parts[0].rows,
        parts[0].columns if down else x,
        tuple(shares),
        ", ".join(dict.fromkeys(part.instruction for part in parts)),
    )


def _accumulator(sized: SizedPlan, kernel: KernelPlan, gemm: Gemm, label: str, index: int) -> Accumulator:
    rows, columns = sized.least(gemm.m), sized.least(gemm.n)
    path = product_path(sized, kernel, gemm)
    shares = tuple(_shares(path, gemm.acc, rows, columns, label, index)) if isinstance(path, GemmPath) else ()
    return Accumulator((gemm.acc,), rows, columns, shares, instruction_text(path))


def _shares(path: GemmPath, acc: str, rows: int, columns: int, label: str, index: int) -> Iterator[Share]:
    grouped = path.instruction == "wgmma"
    down = path.partition.m // WARPS_PER_GROUP if grouped else path.partition.m
    along = path.partition.n
    height, width = rows // down, columns // along
    for column in range(along):
        for row in range(down):
            number = column * down + row
            owner = label if label and down * along == 1 else f"{OWNERS.get(path.instruction, 'warp')} {number}"
            if label and down * along > 1:
                owner = f"{label}, {owner}"
            stripes = tuple((start, 16) for start in range(0, height, 16)) if grouped else ()
            tone = 1 + (index + number) % 6
            yield Share(acc, column * width, row * height, width, height, owner, tone, stripes)


def exchanges(kernel: KernelPlan) -> list[Exchange]:
    """What goes through shared memory between roles; or, in a block without roles, between the warps of a product."""
    programs = [(role, [op for op, _ in flat(ops)]) for role, ops in kernel.programs()]
    shared = {buffer.name: buffer for buffer in kernel.scope(Scope.SHARED)}
    found = []
    for giver_at, (giver, gives) in enumerate(programs):
        for taker_at, (taker, takes) in enumerate(programs):
            if giver is taker and kernel.roles:
                continue
            for name in _handed_over(kernel, gives, takes, shared, within=giver is taker):
                barrier = ", ".join(
                    entry.name
                    for entry in kernel.handshakes
                    if (entry.arrives, entry.waits) == (giver_at, taker_at) and name == entry.after
                )
                what = shared[name].holds or "values"
                found.append(Exchange(giver.name, name, what, taker.name, barrier))
    return found


def _handed_over(
    kernel: KernelPlan, gives: list[Op], takes: list[Op], shared: Mapping[str, object], *, within: bool
) -> Iterator[str]:
    """Shared buffers that one program fills from registers and the other reads."""
    filled = {
        written(op)
        for op in gives
        if isinstance(op, Copy) and kernel.buffer(op.src).scope is Scope.FRAGMENT and op.dst in shared
    }
    wanted = {name for op in takes if not within or isinstance(op, Gemm) for name in read(op)}
    yield from (name for name in shared if name in filled and name in wanted)


def row_share(sized: SizedPlan, kernel: KernelPlan) -> RowShare | None:
    """How the lanes of a row norm share a row; None for other kernels, and where TileLang lays the rows out."""
    if not kernel.row_passes:
        return None
    walk: RowPass = kernel.row_passes[0]
    length, lanes = sized.least(walk.length), sized.least(walk.lanes)
    vector = 16 // walk.itemsize
    block = lanes * vector
    return RowShare(length, lanes, vector, -(-length // block), block, sized.least(walk.block_rows))
