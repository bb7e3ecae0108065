"""What each role of a kernel does, as a list of phases: the tile program unrolled for its first steps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tilegen.plan.model import Copy, Gemm, KernelPlan, Loop, LoopKind, Op, Reduce, Scope
from tilegen.review.page.program import Phase, flat, phases

if TYPE_CHECKING:
    from tilegen.review.page.sized import SizedPlan


@dataclass
class Item:
    """A phase of one step in a role's program. ``parts`` are the loads (role, step) that it reads or makes."""

    role: int
    phase: Phase
    step: int | None
    parts: tuple[tuple[int, int], ...] = ()
    needs: list[Item] = field(default_factory=list)
    asynchronous: bool = False
    start: float = -1.0
    end: float = -1.0

    @property
    def done(self) -> bool:
        return self.end >= 0


@dataclass(frozen=True)
class SimulatedRole:
    """A role as it is simulated. ``loads_block``: it does nothing else while it loads."""

    name: str
    note: str
    ops: tuple[Op, ...]
    loads_block: bool
    ahead: int = 0
    """Steps that its loads run ahead of its products, where one role does both."""


def simulated_roles(sized: SizedPlan, kernel: KernelPlan) -> list[SimulatedRole]:
    threads = sized.number(kernel.launch.threads)
    if kernel.roles:
        return [
            SimulatedRole(role.name, f"{sized.number(role.threads)} threads", ops, _only_loads(kernel, ops))
            for role, ops in kernel.programs()
        ]
    loop = main_loop(kernel, kernel.body)
    if loop is None or loop.kind is not LoopKind.PIPELINED:
        return [SimulatedRole("all threads", f"{threads} threads", kernel.body, True)]
    if kernel.launch.producer_threads == 0 and not sized.plan.target.copy.cp_async_bytes:
        # Nothing to pipeline with: the loop runs as written.
        return [SimulatedRole("all threads", f"{threads} threads", kernel.body, True)]
    if kernel.launch.producer_threads == 0:
        stages = sized.least(loop.stages)
        return [SimulatedRole("all threads", f"{threads} threads", kernel.body, False, max(1, stages - 1))]
    produce = Loop(loop.kind, loop.variable, loop.trips, tuple(op for op in loop.body if _is_load(kernel, op)))
    consume = Loop(loop.kind, loop.variable, loop.trips, tuple(op for op in loop.body if not _is_load(kernel, op)))
    rest = tuple(consume if op is loop else op for op in kernel.body)
    producers = sized.number(kernel.launch.producer_threads)
    return [
        SimulatedRole("consumers", f"{threads} threads", rest, True),
        SimulatedRole("producer", f"{producers} threads, TileLang's", (produce,), True),
    ]


def _is_load(kernel: KernelPlan, op: Op) -> bool:
    return (
        isinstance(op, Copy)
        and kernel.buffer(op.src).scope is Scope.GLOBAL
        and kernel.buffer(op.dst).scope is Scope.SHARED
    )


def _only_loads(kernel: KernelPlan, ops: tuple[Op, ...]) -> bool:
    return all(_is_load(kernel, op) for op, _ in flat(ops))


def main_loop(kernel: KernelPlan, ops: tuple[Op, ...]) -> Loop | None:
    """The innermost loop over tiles that loads into shared memory or multiplies; unrolled loops are no such loop."""
    for op in ops:
        if isinstance(op, Loop) and op.kind is not LoopKind.UNROLLED:
            inner = main_loop(kernel, op.body)
            if inner is not None:
                return inner
            if any(isinstance(found, Gemm) or _is_load(kernel, found) for found, _ in flat(op.body)):
                return op
    return None


def stages_of(sized: SizedPlan, kernel: KernelPlan, loop: Loop | None) -> int:
    """How many stages the tiles of the loop have; 0 where nothing is loaded in a loop."""
    rings = _rings(kernel)
    if not rings or loop is None:
        return 0
    ring = kernel.buffer(rings[0])
    return sized.least(ring.shape[0]) if len(ring.shape) > 2 else sized.least(ring.stages)


def _rings(kernel: KernelPlan) -> list[str]:
    """The shared buffers that a loop over tiles fills again and again."""
    return [
        op.dst
        for op, loops in kernel.find(Copy)
        if _is_load(kernel, op) and any(loop.kind is not LoopKind.UNROLLED for loop in loops)
    ]


def steps_drawn(sized: SizedPlan, loop: Loop | None, stages: int) -> int:
    """How many steps are drawn: enough for each stage to be used twice, fewer where a step has several products."""
    if loop is None:
        return 1
    several = len({op.acc for op, _ in flat(loop.body) if isinstance(op, Gemm)}) > 1
    wanted = max(3, stages + 1) if several else max(4, stages + 2)
    trips = sized.number(loop.trips)
    return wanted if trips is None else max(1, min(wanted, trips))


def script(
    sized: SizedPlan, kernel: KernelPlan, role: int, simulated: SimulatedRole, drawn: int, stages: int
) -> list[Item]:
    """The phases of a role in order, with the steps that they belong to."""
    items: list[Item] = []
    straight: list[Op] = []

    def flush(step: int) -> None:
        items.extend(_beside(sized, kernel, role, simulated, tuple(straight), step, stages))
        straight.clear()

    def walk(ops: tuple[Op, ...], first: int) -> int:
        step = first
        for op in ops:
            main = main_loop(kernel, (op,)) if isinstance(op, Loop) else None
            if main is None:
                straight.append(op)
                continue
            flush(step)
            assert isinstance(op, Loop)
            if main is op:
                for turn in range(drawn):
                    items.extend(_step(sized, kernel, role, simulated, op.body, step + turn, stages))
                step += drawn
            else:
                turns = 2 if is_drawn_twice(sized, kernel, op) else 1
                for _ in range(turns):
                    step = walk(op.body, step)
        flush(step)
        return step

    walk(simulated.ops, 0)
    return items


def _beside(
    sized: SizedPlan,
    kernel: KernelPlan,
    role: int,
    simulated: SimulatedRole,
    ops: tuple[Op, ...],
    step: int,
    stages: int,
) -> list[Item]:
    """The phases of operations beside the loop. Where there are products among them they are one step written out: what
    comes before its last product belongs to the step, and the loads of later steps are left out.
    """
    found = _step(sized, kernel, role, simulated, ops, step, stages)
    rings = set(_rings(kernel))
    found = [item for item in found if item.phase.kind != "load" or not rings.intersection(item.phase.tiles)]
    last = max((at for at, item in enumerate(found) if item.phase.kind == "product"), default=-1)
    kept = []
    for at, item in enumerate(found):
        item.asynchronous = False
        if at > last:
            item.step = None
            if item.phase.label == "rescale":
                item.phase = replace(item.phase, label="epilogue")
        elif item.phase.kind not in ("product", "compute") or item.phase.copies:
            item.step = None
        if item.step in (None, step):
            kept.append(item)
    return kept


def is_drawn_twice(sized: SizedPlan, kernel: KernelPlan, loop: Loop) -> bool:
    """Whether two turns of a loop around the main one are drawn: where they overlap because one role only loads."""
    if main_loop(kernel, (loop,)) in (None, loop):
        return False
    trips = sized.number(loop.trips)
    return any(_only_loads(kernel, ops) for _, ops in kernel.programs()) and (trips is None or trips > 1)


def _step(
    sized: SizedPlan,
    kernel: KernelPlan,
    role: int,
    simulated: SimulatedRole,
    ops: tuple[Op, ...],
    step: int,
    stages: int,
) -> list[Item]:
    """One turn of the main loop, or what stands beside it. A product whose accumulator an earlier phase of the turn has used
    up is of the next step; a load that follows the products of its stage fills that stage again.
    """
    found = []
    used: set[str] = set()
    multiplied = False
    reduced = {op.src for op, _ in flat(ops) if isinstance(op, Reduce)}
    ordered = phases(sized, kernel, ops, _word(kernel, ops))
    if simulated.ahead and stages == 1:
        # One buffer: `cp.async` fills it again after its last reader.
        ordered.sort(key=lambda phase: phase.kind == "load")
    for phase in ordered:
        at = step
        if phase.kind == "product":
            at = step + 1 if used.intersection(phase.writes) else step
            multiplied = True
        elif phase.kind == "compute":
            used |= reduced
        elif phase.kind == "load":
            at = step + stages if multiplied else step + simulated.ahead
        found.append(Item(role, phase, at, asynchronous=phase.kind == "load" and not simulated.loads_block))
    return found


def _word(kernel: KernelPlan, ops: tuple[Op, ...]) -> str:
    """What work in registers is called: it scales accumulators before a product, or comes after all products."""
    if any(isinstance(op, Gemm) for op, _ in flat(ops)):
        return "rescale"
    return "epilogue" if any(kernel.find(Gemm)) else "formula"
