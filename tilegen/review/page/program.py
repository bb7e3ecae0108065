"""A tile program as phases: runs of operations that one unit of the SM does before the next begins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from tilegen.plan.model import Copy, Elementwise, Fill, Gemm, KernelPlan, Loop, LoopKind, Op, Reduce, Scope

if TYPE_CHECKING:
    from tilegen.review.page.sized import SizedPlan

Kind = Literal["load", "product", "compute", "store"]


@dataclass(frozen=True)
class Phase:
    """``work`` is multiply-adds of a product; ``tiles`` the buffers that a load fills or a product reads."""

    kind: Kind
    label: str
    writes: tuple[str, ...]
    tiles: tuple[str, ...] = ()
    work: int = 0
    columns: int = 0
    """Columns of its second operand that a product goes over."""
    copies: bool = False
    """Work in registers that is nothing but copies."""


def flat(ops: tuple[Op, ...]) -> Iterator[tuple[Op, tuple[Loop, ...]]]:
    """Every operation that is no loop, with the loops around it."""

    def walk(body: tuple[Op, ...], loops: tuple[Loop, ...]) -> Iterator[tuple[Op, tuple[Loop, ...]]]:
        for op in body:
            if isinstance(op, Loop):
                yield from walk(op.body, (*loops, op))
            else:
                yield op, loops

    return walk(ops, ())


def phases(sized: SizedPlan, kernel: KernelPlan, ops: tuple[Op, ...], otherwise: str = "registers") -> list[Phase]:
    """The phases of operations in a row; loops inside are gone through once, fills are left out. ``otherwise`` is the word
    for work in registers that has no other."""
    found: list[Phase] = []
    for op, loops in flat(ops):
        if isinstance(op, Fill):
            continue
        trips = 1
        for loop in loops:
            if loop.kind is LoopKind.UNROLLED:
                trips *= sized.least(loop.trips)
        _add(found, _phase(sized, kernel, op, trips))
    return _named(found, ops, otherwise)


def _phase(sized: SizedPlan, kernel: KernelPlan, op: Op, trips: int) -> Phase:
    if isinstance(op, Gemm):
        m, n, k = (sized.least(size) for size in (op.m, op.n, op.k))
        columns = (k if op.transpose_b else n) * trips
        return Phase("product", op.acc, (op.acc,), (op.a, op.b), m * n * k * trips, columns)
    if isinstance(op, Copy):
        source, destination = kernel.buffer(op.src).scope, kernel.buffer(op.dst).scope
        if source is Scope.GLOBAL:
            return Phase("load", op.src, (op.dst,), (op.dst,))
        if destination is Scope.GLOBAL:
            return Phase("store", op.dst, (op.dst,))
        return Phase("compute", "", (op.dst,), copies=True)
    if isinstance(op, Elementwise):
        kind: Kind = "store" if kernel.buffer(op.writes).scope is Scope.GLOBAL else "compute"
        return Phase(kind, op.writes if kind == "store" else "", (op.writes,))
    return Phase("compute", f"{op.kind} → {op.dst}" if isinstance(op, Reduce) else "", (getattr(op, "dst", ""),))


def _add(found: list[Phase], new: Phase) -> None:
    """Adds a phase, or lets it go on with one of its kind: products of one accumulator or of the same operands, loads, work
    in registers.
    """
    for at in range(len(found) - 1, -1, -1):
        last = found[at]
        same = last.kind == new.kind and (new.kind != "product" or last.writes == new.writes or last.tiles == new.tiles)
        if same:
            found[at] = Phase(
                last.kind,
                _both(last.label, new.label),
                tuple(dict.fromkeys((*last.writes, *new.writes))),
                tuple(dict.fromkeys((*last.tiles, *new.tiles))),
                last.work + new.work,
                last.columns + new.columns,
                last.copies and new.copies,
            )
            return
        # A load inside a product only queues a copy: the product goes on around it.
        if not (new.kind == "product" and last.kind == "load" and at > 0):
            break
    found.append(new)


def _both(first: str, second: str) -> str:
    parts = [part for text in (first, second) for part in text.split(", ") if part]
    return ", ".join(dict.fromkeys(parts))


def _named(found: list[Phase], ops: tuple[Op, ...], otherwise: str) -> list[Phase]:
    """The phases with a word for the work in registers: what a reader of such kernels calls it."""
    reductions = [op for op, _ in flat(ops) if isinstance(op, Reduce)]
    maxima, sums = ({op.src: op.dst for op in reductions if op.kind == kind} for kind in ("max", "sum"))
    softmax = {maxima[name] for name in maxima.keys() & sums.keys()}
    named = []
    for phase in found:
        label = phase.label
        if phase.kind == "compute":
            label = "softmax" if softmax.intersection(phase.writes) else label or otherwise
            label = "copy" if phase.copies else label
        named.append(replace(phase, label=label))
    return named
