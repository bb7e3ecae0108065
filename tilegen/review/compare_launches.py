"""One launch of a kernel before and after: occupancy, instructions, copies, memory, registers, grid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from tilegen.review.budget import BufferBudget, LaunchBudget
from tilegen.review.change import Change, Level
from tilegen.review.words import joined


def launch_changes(old: LaunchBudget, new: LaunchBudget, of: str) -> Iterator[Change]:
    """What differs between two launches of one role; ``of`` names the role where there are several."""
    if new.blocks_per_sm != old.blocks_per_sm:
        level = Level.WARNING if new.blocks_per_sm < old.blocks_per_sm else Level.NOTE
        factor = _factor(old.blocks_per_sm, new.blocks_per_sm)
        text = f"blocks an SM{of}: {old.blocks_per_sm} → {new.blocks_per_sm}{factor}, limited by {new.limiter}"
        yield Change(level, "occupancy", text, before=old.blocks_per_sm, after=new.blocks_per_sm)
    if new.instructions != old.instructions or set(new.slower_because) != set(old.slower_because):
        yield _instructions(old, new, of)
    if new.copies != old.copies:
        level = Level.WARNING if "TMA" in old.copies and "TMA" not in new.copies else Level.NOTE
        text = f"copies into shared memory{of}: {old.copies or 'none'} → {new.copies or 'none'}"
        yield Change(level, "instructions", text, before=old.copies, after=new.copies)
    yield from _shared(old, new, of)
    yield from _registers(old, new, of)
    if new.threads != old.threads:
        text = f"threads of a block{of}: {old.threads:,} → {new.threads:,}"
        yield Change(Level.NOTE, "threads", text, before=old.threads, after=new.threads)
    if new.grid != old.grid:
        blocks = [prod(side.grid) for side in (old, new)]
        text = f"grid{of}: {_grid(old)} → {_grid(new)} ({blocks[0]:,} → {blocks[1]:,} blocks)"
        yield Change(Level.NOTE, "grid", text, before=list(old.grid), after=list(new.grid))
    if new.stages != old.stages:
        text = f"stages{of}: {_stages(old)} → {_stages(new)}"
        yield Change(Level.NOTE, "stages", text, before=list(old.stages), after=list(new.stages))


def _factor(old: int, new: int) -> str:
    return " (halved)" if old and new * 2 == old else " (doubled)" if new and old * 2 == new else ""


def _instructions(old: LaunchBudget, new: LaunchBudget, of: str) -> Change:
    lost = "wgmma" in " ".join(old.instructions) and "wgmma" not in " ".join(new.instructions)
    reasons = [reason for reason in new.slower_because if reason not in old.slower_because]
    level = Level.WARNING if lost or reasons else Level.NOTE
    before, after = (joined(side.instructions) or "none" for side in (old, new))
    text = f"matrix instruction{of}: {before} → {after}"
    return Change(
        level, "instructions", text, before=list(old.instructions), after=list(new.instructions), details=tuple(reasons)
    )


def _shared(old: LaunchBudget, new: LaunchBudget, of: str) -> Iterator[Change]:
    totals = [side.shared_bytes + side.static_bytes for side in (old, new)]
    lines = tuple(_buffers({b.name: b for b in old.shared}, {b.name: b for b in new.shared}))
    if totals[0] == totals[1] and not lines:
        return
    share = f" of {new.shared_limit:,} B" if totals[1] else ""
    sums = (
        f"{totals[0]:,} B → {totals[1]:,} B"
        if totals[0] != totals[1]
        else f"the same {totals[1]:,} B, laid out otherwise,"
    )
    text = f"shared memory{of}: {sums}{share}"
    yield Change(Level.NOTE, "shared memory", text, before=totals[0], after=totals[1], details=lines)


def _buffers(old: Mapping[str, BufferBudget], new: Mapping[str, BufferBudget]) -> Iterator[str]:
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if before is None and after is not None:
            yield f"{name}: new, {_buffer(after)}"
        elif before is not None and after is None:
            yield f"{name}: gone, {_buffer(before)}"
        elif before is not None and after is not None and _buffer(before) != _buffer(after):
            yield f"{name}: {_buffer(before)} → {_buffer(after)}"


def _buffer(buffer: BufferBudget) -> str:
    stages = f"{buffer.stages} x " if buffer.stages != 1 else ""
    return f"{stages}{' x '.join(map(str, buffer.shape))} {buffer.dtype}, {buffer.bytes:,} B"


def _registers(old: LaunchBudget, new: LaunchBudget, of: str) -> Iterator[Change]:
    if old.registers == new.registers and old.register_limit == new.register_limit:
        return
    over = new.registers is not None and new.registers > new.register_limit
    was_over = old.registers is not None and old.registers > old.register_limit
    text = (
        f"registers a thread{of}, estimated: {_count(old.registers)} → {_count(new.registers)}; "
        f"available {old.register_limit} → {new.register_limit}"
        if old.register_limit != new.register_limit
        else f"registers a thread{of}, estimated: {_count(old.registers)} → {_count(new.registers)} "
        f"of {new.register_limit}"
    )
    spills = (f"{new.registers} do not fit {new.register_limit}: ptxas is expected to spill",) if over else ()
    level = Level.WARNING if over and not was_over else Level.NOTE
    yield Change(level, "registers", text, before=old.registers, after=new.registers, details=spills)


def _count(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def _grid(launch: LaunchBudget) -> str:
    return " x ".join(f"{extent:,}" for extent in launch.grid)


def _stages(launch: LaunchBudget) -> str:
    return joined(map(str, launch.stages)) or "no pipeline"
