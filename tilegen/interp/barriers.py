"""Barriers of one thread block: mbarriers, named barriers and whole-block synchronisation.

Arrivals are counted, and bytes that a kernel announces itself. Bytes that a bulk copy announces have landed when the copy has
been executed, which is at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.coroutines import wait_until
from tilegen.interp.findings import Site, UnsupportedError, render
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Code, as_scalar
from tilegen.interp.number_formats import Array
from tilegen.interp.steps import Signal, Step, operation
from tilegen.interp.thread_order import new_epoch

if TYPE_CHECKING:
    from tilegen.interp.buffer_plan import BufferPlan
    from tilegen.interp.compiler import Compiler
    from tilegen.interp.races import AccessLog


@dataclass
class BarrierArray:
    """The mbarriers of one ``T.alloc_barrier``: each completes a phase when its arrivals and its bytes have come."""

    name: str
    counts: list[int]
    pending: list[int] = field(init=False)
    phases: list[int] = field(init=False)
    clocks: list[Any] = field(init=False)
    arriving: list[Any] = field(init=False)
    copies: list[int] = field(init=False)
    missing_bytes: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.pending = list(self.counts)
        self.phases = [0] * len(self.counts)
        self.clocks = [None] * len(self.counts)
        self.arriving = [None] * len(self.counts)
        self.copies = [0] * len(self.counts)
        self.missing_bytes = [0] * len(self.counts)

    def arrive(self, frame: Frame, site: Site, number: int, arrivals: int) -> None:
        """Count arrivals; a completed phase releases what its arrivers did before to those who wait for it."""
        log = frame.block.access_log
        if log is not None:
            self.arriving[number] = log.joined(self.arriving[number], frame, elected=arrivals == 1)
        if arrivals > self.pending[number]:
            frame.report(
                "barrier-misuse",
                site,
                lambda: (
                    f"{self.name}[{number}] is arrived at by {arrivals} threads while it waits for "
                    f"{self.pending[number]} (arrive count {self.counts[number]})"
                ),
                self.name,
                (number,),
            )
        self.pending[number] -= arrivals
        while self.pending[number] <= 0 and not self.missing_bytes[number]:
            self.pending[number] += self.counts[number]
            self.phases[number] += 1
            if log is not None:
                self.clocks[number] = log.merged(self.clocks[number], self.arriving[number])
                self.arriving[number] = None
        if log is not None:
            log.advance(frame)

    def expect(self, number: int, count: int) -> None:
        """Announce bytes for the present phase, beyond those that bulk copies announce themselves."""
        self.missing_bytes[number] += count

    def bytes_text(self, number: int) -> str:
        """For a deadlock: what is missing beside arrivals."""
        count = self.missing_bytes[number]
        if not count:
            return ")"
        return (
            f", and {count} bytes that were expected by hand: T.tma_copy expects its own bytes, no copy brings these)"
        )

    def has_passed(self, number: int, parity: int) -> bool:
        """What ``mbarrier.try_wait.parity`` tests: the phase of this parity is complete."""
        return (self.phases[number] & 1) != (parity & 1)


@dataclass
class NamedBarrier:
    """One ``bar.sync`` / ``bar.arrive`` id: it opens when its thread count has come, and starts anew."""

    arrived: int = 0
    generation: int = 0
    count: int = 0
    threads: list[Array] = field(default_factory=list)
    arriving: Any = None
    clock: Any = None


class Barriers:
    """The named barriers of a thread block, and its ``__syncthreads``."""

    def __init__(self) -> None:
        self._named: dict[Any, NamedBarrier] = {}

    def arrive(self, frame: Frame, site: Site, number: Any, count: int) -> tuple[NamedBarrier, int]:
        """Arrive with the active threads; gives the barrier and the generation to wait for."""
        barrier = self._named.setdefault(number, NamedBarrier())
        generation = barrier.generation
        log = frame.block.access_log
        if log is not None:
            barrier.arriving = log.joined(barrier.arriving, frame)
            log.advance(frame)
        if barrier.arrived and barrier.count != count:
            frame.report(
                "barrier-misuse",
                site,
                lambda: (
                    f"named barrier {number} is used with a count of {count} while others wait with {barrier.count}"
                ),
            )
        for others in barrier.threads:
            if np.intersect1d(others, frame.threads).size:
                frame.report(
                    "barrier-misuse",
                    site,
                    lambda: (
                        f"threads {int(frame.threads[0])} to {int(frame.threads[-1])} arrive at named barrier {number} "
                        "a second time before it opens"
                    ),
                )
        barrier.threads.append(frame.threads)
        barrier.count = count
        barrier.arrived += frame.active_threads()
        if barrier.arrived > count:
            frame.report(
                "barrier-misuse",
                site,
                lambda: (
                    f"{barrier.arrived} threads arrive at named barrier {number} before it opens, its count is {count}"
                ),
            )
        if barrier.arrived >= count:
            barrier.arrived = 0
            barrier.threads = []
            barrier.generation += 1
            barrier.clock, barrier.arriving = barrier.arriving, None
        return barrier, generation

    def sync(self, frame: Frame, site: Site, number: Any, count: int, what: Callable[[], str] | None = None) -> None:
        """Arrive and wait until the barrier opens; ``what`` describes it in a deadlock."""
        barrier, generation = self.arrive(frame, site, number, count)
        wait_until(frame, site, lambda: barrier.generation != generation, what or (lambda: f"named barrier {number}"))
        log = frame.block.access_log
        if log is not None:
            log.acquire(frame, barrier.clock)
            if frame.mask is None:
                log.synchronise_role(frame)
        if frame.mask is None:
            new_epoch(frame)
            frame.unpublished = False


@dataclass
class GridBarrier:
    """``T.sync_grid``: opens when every block of the grid has come. All blocks run side by side then."""

    blocks: int
    arrived: int = 0
    generation: int = 0

    def sync(self, frame: Frame, site: Site) -> None:
        generation = self.generation
        self.arrived += 1
        if self.arrived == self.blocks:
            self.arrived = 0
            self.generation += 1
        wait_until(frame, site, lambda: self.generation != generation, lambda: "all blocks of the grid")
        frame.block.met = (1 << self.blocks) - 1
        frame.unpublished = False


def compile_barrier(compiler: Compiler, node: Any, site: Site) -> Callable[[Frame], tuple[BarrierArray, int]]:
    """The barrier that an argument names: ``bars[i]``, in a region or an access pointer or plain."""
    place = node
    plan: BufferPlan | None = None
    number_of: Any = None
    while type(place).__name__ == "Call" and place.args and place.op.name != "tirx.tvm_access_ptr":
        place = place.args[0]
    if type(place).__name__ == "BufferLoad":
        plan, number_of = compiler.buffer(place.buffer, site), place.indices[0]
    elif type(place).__name__ == "Call" and len(place.args) > 2:
        plan, number_of = compiler.root_of(place.args[1]), place.args[2]
    if plan is None or plan.scope not in compiler.barrier_scopes:
        raise UnsupportedError(f"`{render(node)}` in `{site.operation}` names no barrier")
    index = compiler.index_expression(number_of, site)

    def run(frame: Frame) -> tuple[BarrierArray, int]:
        barrier = frame.memory[plan.slot]
        assert isinstance(barrier, BarrierArray)
        number = uniform(frame, index, site)
        if not 0 <= number < len(barrier.counts):
            count = len(barrier.counts)
            message = f"{barrier.name}[{number}] does not exist: there {'is' if count == 1 else 'are'} {count} of them"
            frame.stop("out-of-bounds", site, message, barrier.name, (number,))
        return barrier, number

    return run


def uniform(frame: Frame, code: Code, site: Site) -> int:
    """An integer that all active threads must agree on."""
    value = as_scalar(code.run(frame))
    if isinstance(value, np.ndarray):
        chosen = value if frame.mask is None else np.broadcast_to(value, frame.mask.shape)[frame.mask]
        first = chosen.reshape(-1)[0]
        if (chosen != first).any():
            frame.report("divergent-value", site, "a barrier operand differs between threads")
        return int(first)
    return int(value)


@operation("tl.mbarrier_wait_parity")
def _wait(compiler: Compiler, call: Any, site: Site) -> Step:
    barrier_of = compile_barrier(compiler, call.args[0], site)
    parity = compiler.expression(call.args[1], site)

    def run(frame: Frame) -> Signal | None:
        barrier, number = barrier_of(frame)
        wanted = uniform(frame, parity, site)
        if wanted not in (0, 1):
            frame.report(
                "barrier-misuse",
                site,
                f"{barrier.name}[{number}] is waited for with the parity {wanted}, which is neither 0 nor 1: "
                "a phase counted on has to be taken modulo 2",
                barrier.name,
                (number,),
            )
        wait_until(
            frame,
            site,
            lambda: barrier.has_passed(number, wanted),
            lambda: (
                f"{barrier.name}[{number}] to pass parity {wanted} (phase {barrier.phases[number]}, "
                f"{max(0, barrier.pending[number])} of {barrier.counts[number]} arrivals missing"
                + barrier.bytes_text(number)
            ),
        )
        log = frame.block.access_log
        if log is not None:
            log.acquire(frame, barrier.clocks[number])
        frame.unpublished = False
        return None

    return run


def compile_arrival(
    compiler: Compiler,
    node: Any,
    site: Site,
    arrivals: int | None = None,
    learn: Callable[[AccessLog, Frame, Any], Any] | None = None,
) -> Step:
    """An arrival at the barrier that ``node`` names, of every active thread or of so many ``arrivals``.

    ``learn(log, frame, clock)`` is what the barrier hears of asynchronous work, beyond what the threads themselves did.
    """
    barrier_of = compile_barrier(compiler, node, site)

    def run(frame: Frame) -> Signal | None:
        barrier, number = barrier_of(frame)
        log = frame.block.access_log
        if log is not None and learn is not None:
            barrier.arriving[number] = learn(log, frame, barrier.arriving[number])
        barrier.arrive(frame, site, number, frame.active_threads() if arrivals is None else arrivals)
        return None

    return run


@operation("tirx.ptx_arrive_barrier", "tirx.ptx_cp_async_barrier")
def _arrive(compiler: Compiler, call: Any, site: Site) -> Step:
    return compile_arrival(compiler, call.args[0], site)


@operation("tl.mbarrier_expect_tx", "tirx.ptx_arrive_barrier_expect_tx")
def _expect(compiler: Compiler, call: Any, site: Site) -> Step:
    """``mbarrier.expect_tx``, of each active thread; with an arrival in the second form."""
    barrier_of = compile_barrier(compiler, call.args[0], site)
    count = compiler.expression(call.args[1], site)
    arrives = str(call.op.name).startswith("tirx.ptx_arrive")

    def run(frame: Frame) -> Signal | None:
        barrier, number = barrier_of(frame)
        barrier.expect(number, uniform(frame, count, site) * frame.active_threads())
        if arrives:
            barrier.arrive(frame, site, number, frame.active_threads())
        return None

    return run


@operation("tirx.tvm_storage_sync")
def _storage_sync(compiler: Compiler, call: Any, site: Site) -> Step:
    """``T.sync_threads()``, or ``T.sync_threads(id, count)`` as a named barrier."""
    if len(call.args) == 1:

        def sync_role(frame: Frame) -> Signal | None:
            # Within a role TileLang turns this into a barrier of the role's own threads.
            frame.block.barriers.sync(frame, site, ("role", frame.threads.tobytes()), frame.active_threads())
            return None

        return sync_role
    number = compiler.expression(call.args[1], site)
    count = compiler.expression(call.args[2], site) if len(call.args) > 2 else None

    def run(frame: Frame) -> Signal | None:
        threads = uniform(frame, count, site) if count is not None else frame.block.threads
        frame.block.barriers.sync(frame, site, uniform(frame, number, site), threads)
        return None

    return run


@operation("tl.named_barrier_arrive")
def _named_arrive(compiler: Compiler, call: Any, site: Site) -> Step:
    number, count = (compiler.expression(argument, site) for argument in call.args)

    def run(frame: Frame) -> Signal | None:
        frame.block.barriers.arrive(frame, site, uniform(frame, number, site), uniform(frame, count, site))
        return None

    return run


@operation("tl.sync_grid")
def _sync_grid(compiler: Compiler, call: Any, site: Site) -> Step:
    def run(frame: Frame) -> Signal | None:
        assert frame.block.grid is not None
        frame.block.grid.sync(frame, site)
        return None

    return run
