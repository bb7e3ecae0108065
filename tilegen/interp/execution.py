"""Runs a compiled prim_func: grids of blocks, one after another or spread over processes."""

from __future__ import annotations

import math
import mmap
import multiprocessing
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tilegen.interp.arguments import Bound, bind
from tilegen.interp.barriers import Barriers, GridBarrier
from tilegen.interp.coroutines import run_together
from tilegen.interp.findings import Finding, Findings, InvalidKernelError, StoppedBlockError, check_kinds
from tilegen.interp.frame import Block, Event, Frame
from tilegen.interp.grid import Blocks, Coordinates, blocks_of
from tilegen.interp.inferred_layouts import partial_layout_findings
from tilegen.interp.lanes import as_scalar
from tilegen.interp.layouts import layout_findings
from tilegen.interp.linear_algebra import one_thread
from tilegen.interp.loading import to_prim_func
from tilegen.interp.memory import Storage
from tilegen.interp.number_formats import Array, is_float
from tilegen.interp.program import Kernel, Program, compile_program
from tilegen.interp.races import AccessLog
from tilegen.interp.thread_order import ThreadOrder, new_epoch
from tilegen.interp.watch import Watch


@dataclass(frozen=True)
class Result:
    """What a run gave: every buffer that the function writes, by name, and what was found wrong.

    ``outputs`` are numpy arrays in the storage of their dtype (``ml_dtypes`` for bfloat16 and fp8). ``dims`` are the values
    that the dynamic dimensions and scalar arguments took; ``inputs`` the buffers that were only read; ``given`` what every
    buffer that is read held before the run, in the order of the parameters. ``written`` says which elements of an output
    were written, where not all were.
    """

    outputs: dict[str, Array]
    findings: list[Finding]
    dims: dict[str, int] = field(default_factory=dict)
    inputs: dict[str, Array] = field(default_factory=dict)
    given: dict[str, Array] = field(default_factory=dict)
    written: dict[str, Array] = field(default_factory=dict)

    @property
    def errors(self) -> list[Finding]:
        """The findings that make a kernel wrong (all but notes)."""
        return [finding for finding in self.findings if finding.severity == "error"]


@dataclass(frozen=True)
class Options:
    """How to run: processes, diagnostics, the seed of random inputs, a single block, watched elements."""

    jobs: int = 1
    diagnostics: bool = True
    seed: int = 0
    block: Coordinates | None = None
    watches: Sequence[tuple[str, tuple[int, ...]]] = ()
    print_line: Callable[[str], None] = print
    allow: Collection[str] = ()


def run(
    function: Any,
    inputs: Mapping[str, Any] | None = None,
    *,
    jobs: int = 1,
    diagnostics: bool = True,
    seed: int = 0,
    block: Coordinates | None = None,
    watches: Sequence[tuple[str, tuple[int, ...]]] = (),
    print_line: Callable[[str], None] = print,
    allow: Collection[str] = (),
) -> Result:
    """Run a TileLang prim_func (or a ``tilelang.jit`` function whose arguments follow from ``inputs``) on the CPU.

    ``inputs`` gives for each argument an array (numpy, or a torch tensor), or a shape (a tuple: filled from ``seed`` if the
    function reads it), or a number for a scalar argument or a dynamic dimension. Buffers that are only written may be left out
    where their shape follows from the rest. Arrays are never modified.

    ``jobs`` processes share the blocks of each grid, unless it prints or its blocks depend on each other. ``block`` runs one
    block (x, y, z) only. ``watches`` lists elements, ``("acc", (5, 7))``, whose writes are printed in order. ``print_line``
    takes these lines, and those of ``T.print``. Findings of the kinds in ``allow`` (of ``KINDS``) are not reported.

    Raises ``InvalidKernelError`` for arguments that do not fit, ``UnsupportedError`` for an operation that is not modelled.
    """
    if seed < 0:
        raise InvalidKernelError(f"the seed is {seed}; it may not be negative")
    check_kinds(allow)
    options = Options(jobs, diagnostics, seed, block, watches, print_line, allow)
    with one_thread(), np.errstate(all="ignore"):
        return execute(compile_program(to_prim_func(function, inputs)), inputs or {}, options)


def execute(program: Program, inputs: Mapping[str, Any], options: Options) -> Result:
    """Run a compiled program."""
    findings = Findings()
    host = _host_frame(program, findings, options)
    bound, dims = bind(program, inputs, host, options.seed, options.diagnostics)
    for plan in program.workspaces:
        program.compiler.allocate(plan, host, options.diagnostics)
    if options.diagnostics:
        explicit = layout_findings(program.compiler.layouts, program.compiler.axes, host)
        for finding in (*explicit, *partial_layout_findings(program.function)):
            findings.keep((finding.kind, finding.buffer), finding)
    read = _contents(bound)
    events: dict[str, Event] = {}
    launch = Launch(program, host, findings, events, options)
    for step in program.steps:
        if isinstance(step, Kernel):
            launch.run(step)
        else:
            step(host)
    outputs = [argument for argument in bound if argument.parameter.plan and argument.parameter.plan.written_in]
    if options.diagnostics and options.block is None and not findings.has("deadlock"):
        _check_outputs(outputs, findings, events)
    return Result(
        {
            argument.parameter.name: host.memory[argument.parameter.slot].data
            for argument in outputs
            if not argument.in_place
        },
        [finding for finding in findings.collected() if finding.kind not in options.allow],
        dims,
        {argument.parameter.name: argument.storage.data for argument in bound if argument not in outputs},
        read,
        {
            argument.parameter.name: written
            for argument in outputs
            if (written := argument.storage.written) is not None and not written.all()
        },
    )


def _host_frame(program: Program, findings: Findings, options: Options) -> Frame:
    block = Block((), 0, 1, findings, options.diagnostics, Barriers())
    compiler = program.compiler
    return Frame(block, compiler.initial_environment(), [None] * len(compiler.plans), np.zeros(1, dtype=np.int64))


def _contents(bound: Sequence[Bound]) -> dict[str, Array]:
    """What the buffers that are read hold before the run."""
    contents = {}
    for argument in bound:
        plan = argument.parameter.plan
        if plan is not None and (plan.read_in or not plan.written_in):
            contents[argument.parameter.name] = (
                argument.storage.data.copy() if plan.written_in else argument.storage.data
            )
    return contents


def _check_outputs(outputs: Iterable[Bound], findings: Findings, events: Mapping[str, Event]) -> None:
    for argument in outputs:
        storage = argument.storage
        if storage.written is not None and not storage.written.all():
            _report_unwritten(storage, findings)
        if is_float(storage.dtype):
            _report_non_finite(storage, findings, events)


def _report_unwritten(storage: Storage, findings: Findings) -> None:
    assert storage.written is not None
    missing = ~storage.written
    if missing.all():
        unused = Finding("unused-output", f"nothing of {storage.name} is written in this run", buffer=storage.name)
        findings.keep(("unused", storage.name), unused)
        return
    index = tuple(int(part) for part in np.unravel_index(int(np.argmax(missing)), missing.shape))
    count = int(np.count_nonzero(missing))
    place = ", ".join(str(part) for part in index)
    message = f"{storage.name}[{place}] is never written"
    if count > 1:
        message += f", nor are {count - 1} other elements of {missing.size}, all in {storage.name}[{_box(missing)}]"
    message += storage.writers(None)
    findings.add(
        ("unwritten", storage.name), lambda: Finding("unwritten-output", message, buffer=storage.name, index=index)
    )


def _box(flags: Array) -> str:
    """The bounds of the flags that are set, as a slice."""
    bounds = []
    for axis in range(flags.ndim):
        others = tuple(other for other in range(flags.ndim) if other != axis)
        found = np.flatnonzero(flags.any(axis=others))
        bounds.append(f"{found[0]}:{found[-1] + 1}")
    return ", ".join(bounds)


def _report_non_finite(storage: Storage, findings: Findings, events: Mapping[str, Event]) -> None:
    for kind, test in (("NaN", np.isnan), ("Inf", np.isinf)):
        if kind in events and not events[kind].reported:
            bad = test(storage.data)
            if storage.written is not None:
                bad &= storage.written
            if bad.any():
                findings.keep(("non-finite", kind), events[kind].finding)


@dataclass
class Launch:
    """Runs kernels: every block of a grid, or its share of them in each process."""

    program: Program
    host: Frame
    findings: Findings
    events: dict[str, Event]
    options: Options
    #: The extents of the grid that now runs.
    extents: Coordinates = ()

    def run(self, kernel: Kernel) -> None:
        extents = [as_scalar(code.run(self.host)) for _, code in kernel.grid]
        blocks = blocks_of(self.program.name, extents, self.options.block)
        self.extents = blocks.extents
        self._prepare_memory(kernel, math.prod(extents))
        in_order = self.program.compiler.prints or not self._is_independent(kernel)
        jobs = 1 if in_order else min(self.options.jobs, len(blocks))
        if jobs > 1:
            self._run_in_processes(kernel, blocks, jobs)
        else:
            self._run_blocks(kernel, blocks)

    def _prepare_memory(self, kernel: Kernel, blocks: int) -> None:
        """Decide which global buffers need an owner for each element, and let their views share it."""
        for plan in self.program.compiler.plans:
            storage = self.host.memory[plan.slot]
            if plan.root is not None or not isinstance(storage, Storage):
                continue
            written = kernel.number in plan.written_in
            track = self.options.diagnostics and blocks > 1 and written
            storage.writer = np.zeros(storage.data.shape, dtype=np.int32) if track else None
            storage.check_readers = track and kernel.number in plan.read_in
            storage.atomic_history = {}
            storage.attach(self._watches())
            self.program.compiler.attach_views(plan, self.host)

    def _watches(self) -> tuple[Watch, ...]:
        names = {plan.name for plan in self.program.compiler.plans}
        for name, _ in self.options.watches:
            if name not in names:
                raise InvalidKernelError(f"there is no buffer {name!r}; there are {', '.join(sorted(names))}")
        return tuple(Watch(name, index, self.options.print_line) for name, index in self.options.watches)

    def _is_independent(self, kernel: Kernel) -> bool:
        """Whether blocks may run in any order in several processes: none reads what another may write."""
        if kernel.synchronises_grid or self.program.compiler.follows_pointers:
            return False
        plans = (plan for plan in self.program.compiler.plans if plan.scope == "global" and plan.root is None)
        return not any(kernel.number in plan.written_in and kernel.number in plan.read_in for plan in plans)

    def _run_blocks(self, kernel: Kernel, blocks: Blocks) -> None:
        threads = np.arange(kernel.thread_count, dtype=np.int64)
        if kernel.synchronises_grid:
            self._run_side_by_side(kernel, [self._frame(kernel, number, place, threads) for number, place in blocks])
            return
        for number, place in blocks:
            frame = self._frame(kernel, number, place, threads)
            with suppress(StoppedBlockError):
                kernel.body(frame)
                _check_end(frame)
            self._collect(frame.block)

    def _run_side_by_side(self, kernel: Kernel, frames: Sequence[Frame]) -> None:
        """Blocks that wait for each other: each is a coroutine, as roles are."""
        grid = GridBarrier(len(frames))
        parts = []
        for frame in frames:
            frame.block.grid = grid
            parts.append((frame, partial(kernel.body, frame)))
        with suppress(StoppedBlockError):
            run_together(self.host, parts)
            for frame in frames:
                _check_end(frame)
        for frame in frames:
            self._collect(frame.block)

    def _frame(self, kernel: Kernel, number: int, place: Coordinates, threads: Array) -> Frame:
        """The frame of all threads of one block."""
        block = Block(place, number, kernel.thread_count, self.findings, self.options.diagnostics, Barriers())
        block.grid_extents = self.extents
        block.watches = self._watches() if self.options.watches else ()
        block.print_line = self.options.print_line
        frame = Frame(block, list(self.host.environment), list(self.host.memory), threads)
        if kernel.is_concurrent and self.options.diagnostics:
            block.access_log = AccessLog(self.program.compiler.synchronises)
            block.access_log.start(frame)
        if not self.program.compiler.synchronises and self.options.diagnostics:
            block.thread_order = ThreadOrder()
            new_epoch(frame)
        for (slot, _), coordinate in zip(kernel.grid, place, strict=True):
            frame.environment[slot] = coordinate
        return frame

    def _collect(self, block: Block) -> None:
        for kind, event in block.non_finite.items():
            self.events.setdefault(kind, event)

    def _run_in_processes(self, kernel: Kernel, blocks: Blocks, jobs: int) -> None:
        """Fork ``jobs`` processes that write outputs into shared memory and send their findings back."""
        shared = [
            plan for plan in self.program.compiler.plans if plan.root is None and kernel.number in plan.written_in
        ]
        shared = [plan for plan in shared if plan.scope == "global"]
        for plan in shared:
            storage = self.host.memory[plan.slot]
            storage.data = _shared_copy(storage.data)
            storage.written = None if storage.written is None else _shared_copy(storage.written)
            storage.writer = None if storage.writer is None else _shared_copy(storage.writer)
            self.program.compiler.attach_views(plan, self.host)
        flags = {plan.slot: self.host.memory[plan.slot].written for plan in shared}
        context = multiprocessing.get_context("fork")
        processes = []
        for job in range(jobs):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=self._work, args=(kernel, blocks.share(job, jobs), sender))
            process.start()
            sender.close()
            processes.append((process, receiver))
        for process, receiver in processes:
            answer = receiver.recv()
            process.join()
            if isinstance(answer, BaseException):
                raise answer
            found, events = answer
            self.findings.extend(found)
            for kind, event in events.items():
                self.events.setdefault(kind, event)
        for slot, written in flags.items():
            self.host.memory[slot].written = written if written is not None and not written.all() else None

    def _work(self, kernel: Kernel, blocks: Blocks, sender: Any) -> None:
        try:
            if "torch" in sys.modules:
                # A forked process must not use the threads of its parent.
                sys.modules["torch"].set_num_threads(1)
            self.findings = Findings()
            self.events = {}
            self._run_blocks(kernel, blocks)
            sender.send((self.findings.collected(), self.events))
        except BaseException as error:  # sent to the parent, which raises it
            sender.send(error)


def _check_end(frame: Frame) -> None:
    """What a block may not leave behind: copies that still read or write its shared memory."""
    if frame.block.access_log is not None:
        frame.block.access_log.end(frame)


def _shared_copy(array: Array) -> Array:
    """A copy of an array in memory that forked processes share."""
    if array.size == 0:
        return array
    memory = mmap.mmap(-1, array.nbytes)
    copy = np.frombuffer(memory, dtype=array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
