"""Roles: sets of threads that run different code at the same time, as in a warp-specialised kernel.

A branch on the thread index whose body holds tile operations or waits splits the threads. Each part runs as a coroutine
that hands over when it has to wait at a barrier. Neighbouring branches form one group, with a meeting point between them only
where TileLang places a barrier; the parts meet again at the next operation that all threads carry out together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.compiler_barriers import barriers_between
from tilegen.interp.coroutines import run_together
from tilegen.interp.findings import Site
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Code
from tilegen.interp.local_memory import LocalStorage, LocalView
from tilegen.interp.memory import Storage
from tilegen.interp.number_formats import Array
from tilegen.interp.places import Place, place_of
from tilegen.interp.steps import Signal, Step, compile_statement, leave, sequence_of
from tilegen.interp.structure import is_cooperative, is_role_branch, only_thread_indices

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler


@dataclass
class Part:
    """One statement of a group: its step, and the condition on the threads where it is a branch between roles."""

    step: Step
    condition: Code | None


@dataclass(frozen=True)
class Meeting:
    """A barrier that TileLang places in front of a statement of a group, for all threads that run the group."""

    site: Site
    reason: str

    def describe(self) -> str:
        return (
            f"the barrier that TileLang places before this branch, because {self.reason} "
            "(join the branches with `else`, or set tl.disable_thread_storage_sync)"
        )


@dataclass(frozen=True)
class Group:
    """One run of neighbouring branches: its number, and the threads that take part."""

    number: int
    threads: int


def compile_body(compiler: Compiler, node: Any) -> Step:
    """A statement that may itself be a branch between roles, or a sequence of statements."""
    return compile_sequence(compiler, list(node.seq) if type(node).__name__ == "SeqStmt" else [node])


def compile_sequence(compiler: Compiler, nodes: list[Any]) -> Step:
    """The steps of a sequence, with the branches between roles gathered into groups."""
    steps: list[Step] = []
    places: list[Place | None] = []
    position = 0
    while position < len(nodes):
        places.append(place_of(nodes[position], None))
        if not is_role_branch(compiler, nodes[position]):
            steps.append(compile_statement(compiler, nodes[position]))
            position += 1
            continue
        end = _group_end(compiler, nodes, position)
        steps.append(compile_group(compiler, nodes[position:end]))
        position = end
    return sequence_of(steps, places)


def _group_end(compiler: Compiler, nodes: list[Any], start: int) -> int:
    """Where the group that begins at ``start`` ends: before the next statement that all threads carry out together."""
    if not only_thread_indices(compiler, nodes[start].condition):
        return start + 1
    end = position = start + 1
    while position < len(nodes):
        node = nodes[position]
        if is_role_branch(compiler, node) and only_thread_indices(compiler, node.condition):
            end = position + 1
        elif is_cooperative(node, waits=False) or type(node).__name__ not in ("Evaluate", "IfThenElse"):
            break
        elif type(node).__name__ == "Evaluate":
            end = position + 1
        position += 1
    return end


def compile_group(compiler: Compiler, nodes: list[Any]) -> Step:
    """Neighbouring statements of which some are branches between roles."""
    parts = []
    with compiler.buffers_written() as written:
        for node in nodes:
            branch = is_role_branch(compiler, node)
            with compiler.at(node):
                condition = compiler.expression(node.condition, compiler.site(node.condition)) if branch else None
            parts.append(Part(compile_statement(compiler, node), condition))
    compiler.is_concurrent = True
    together = sequence_of([part.step for part in parts], [place_of(node, None) for node in nodes])
    reasons = barriers_between(nodes) if compiler.synchronises else [None] * len(nodes)
    meetings = [
        None if reason is None else Meeting(compiler.site(getattr(node, "condition", node)), reason)
        for node, reason in zip(nodes, reasons, strict=True)
    ]
    apart = _staged([part.step for part in parts], meetings)
    # Threads parted by a value (a vote) are still one role, and meet again after the statement.
    by_value = not all(
        only_thread_indices(compiler, node.condition) for node in nodes if type(node).__name__ == "IfThenElse"
    )
    conditions = [part.condition for part in parts if part.condition is not None]
    axes = compiler.axes

    def run(frame: Frame) -> Signal | None:
        classes = _classes(frame, conditions)
        if len(classes) < 2:
            return together(frame)
        _run_classes(frame, classes, apart, written, axes, by_value)
        return None

    return run


_group_runs = itertools.count(1)


def _staged(steps: list[Step], meetings: list[Meeting | None]) -> Callable[[Frame, Group], Signal | None]:
    """The steps of a group as a role runs them: between two of them it lets roles that are behind catch up."""

    def run(frame: Frame, group: Group) -> Signal | None:
        outer = frame.stage
        for number, (step, meeting) in enumerate(zip(steps, meetings, strict=True)):
            frame.stage = (*outer, group.number, number)
            if meeting is not None:
                key = ("before a branch", group.number, number)
                frame.block.barriers.sync(frame, meeting.site, key, group.threads, meeting.describe)
            elif frame.task is not None and number:
                frame.task.breathe()
            signal = step(frame)
            if signal is not None:
                return signal
        frame.stage = outer
        return None

    return run


def _classes(frame: Frame, conditions: list[Code]) -> list[Array]:
    """The threads of the frame, as positions, by which of the conditions they meet."""
    count = frame.threads.size
    rows = []
    for condition in conditions:
        value = np.asarray(condition.run(frame))
        flat = value.reshape(value.shape[0], -1)[:, 0] if value.ndim else value
        rows.append(np.broadcast_to(flat, count))
    table = np.stack(rows, axis=1)
    if (table == table[0]).all():
        return [np.arange(count)]
    _, first, inverse = np.unique(table, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return [np.flatnonzero(inverse.reshape(-1) == number) for number in order]


def _run_classes(
    frame: Frame,
    classes: list[Array],
    step: Callable[[Frame, Group], Signal | None],
    written: set[int],
    axes: int,
    by_value: bool,
) -> None:
    log = frame.block.access_log
    group = Group(next(_group_runs), frame.active_threads())
    parts: list[tuple[Frame, Callable[[], object]]] = []
    for chosen in classes:
        child = fork(frame, chosen, written)
        if log is not None:
            log.fork(frame, child)
        parts.append((child, _role(child, step, group, axes)))
    before = {slot: frame.memory[slot].version for slot in written if isinstance(frame.memory[slot], Storage)}
    run_together(frame, parts)
    for (child, _), chosen in zip(parts, classes, strict=True):
        if log is not None:
            log.join(frame, child, by_value)
        join(frame, child, chosen, written, before)
        frame.unpublished |= child.unpublished
    for child, _ in parts:
        _keep_registers(frame, child, before)


def _role(child: Frame, step: Callable[[Frame, Group], Signal | None], group: Group, axes: int) -> Callable[[], None]:
    def run() -> None:
        signal = step(child, group)
        if signal is not None:
            child.mask = np.ones((child.threads.size,) + (1,) * (axes - 1), dtype=np.bool_)
            leave(child, signal)

    return run


def fork(frame: Frame, chosen: Array, written: set[int]) -> Frame:
    """The frame of a part of the threads: its own values of thread variables, its own registers."""
    child = frame.fork(frame.threads[chosen])
    child.stage = frame.stage
    child.epoch, child.warp_epoch = frame.epoch, frame.warp_epoch
    child.unpublished = frame.unpublished
    count = frame.threads.size
    for slot, value in enumerate(child.environment):
        if isinstance(value, np.ndarray) and value.ndim and value.shape[0] == count and count > 1:
            child.environment[slot] = value[chosen]
    for name in ("mask", "broken", "skipped", "returned"):
        value = getattr(frame, name)
        if value is not None:
            setattr(child, name, value[chosen] if value.shape[0] == count else value)
    key = child.threads.tobytes()
    copies: dict[int, LocalStorage] = {}
    for slot in written:
        storage = frame.memory[slot]
        if isinstance(storage, LocalStorage):
            child.memory[slot] = copies[id(storage)] = storage.select_threads(chosen)
        elif isinstance(storage, Storage) and storage.scope == "local.fragment":
            own = frame.kept.get((key, slot))
            child.memory[slot] = own[1] if own is not None and own[0] == storage.version else storage.clone()
    for slot, storage in enumerate(child.memory):
        if isinstance(storage, LocalView) and id(storage.root) in copies:
            child.memory[slot] = storage.of(copies[id(storage.root)])
    return child


def join(frame: Frame, child: Frame, chosen: Array, written: set[int], before: dict[int, int]) -> None:
    """Take back what a role left in registers: a fragment belongs to the role that wrote it last."""
    count = frame.threads.size
    for slot in written:
        mine, theirs = frame.memory[slot], child.memory[slot]
        if isinstance(theirs, LocalStorage):
            if theirs.data.shape[0] > 1 or not _equal(mine, theirs):
                mine.widen((count, *theirs.data.shape[1 : mine.axes]))
                mine.data[chosen], mine.written[chosen] = theirs.data, theirs.written
        elif isinstance(theirs, Storage) and theirs.scope == "local.fragment" and theirs.version != before[slot]:
            frame.memory[slot] = theirs
    for name in ("returned",):
        gone = getattr(child, name)
        if gone is not None:
            whole = np.zeros((count, *gone.shape[1:]), dtype=np.bool_) if frame.returned is None else frame.returned
            whole = np.array(np.broadcast_to(whole, (count, *whole.shape[1:])))
            whole[chosen] |= gone
            frame.returned = whole
            frame.mask = ~whole if frame.mask is None else frame.mask & ~whole


def _keep_registers(frame: Frame, child: Frame, before: dict[int, int]) -> None:
    """Remember a role's own fragments for its next turn, as long as nothing else writes them in between."""
    key = child.threads.tobytes()
    for slot, version in before.items():
        theirs = child.memory[slot]
        if theirs.scope == "local.fragment" and theirs.version != version:
            frame.kept[key, slot] = (frame.memory[slot].version, theirs)


def _equal(left: LocalStorage, right: LocalStorage) -> bool:
    return left.data.shape == right.data.shape and left.data.tobytes() == right.data.tobytes()
