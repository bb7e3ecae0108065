"""Steps: what TIR statements compile to, how a step ends early, and masks where lanes part.

A step returns None, or the signal that ends its loop or its thread. Where a condition differs between lanes, both branches run
under a mask, and a lane that breaks or returns leaves the mask.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.findings import Site, UnsupportedError, render
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Code, as_scalar, combine_masks
from tilegen.interp.number_formats import Array
from tilegen.interp.places import Place

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler


class Signal(Enum):
    """Why a sequence of statements ends early."""

    BREAK = 1
    CONTINUE = 2
    RETURN = 3


Step = Callable[[Frame], "Signal | None"]
#: Compiles a call that stands as a statement.
Operation = Callable[["Compiler", Any, Site], Step]
OPERATIONS: dict[str, Operation] = {}

#: Compiles a statement node.
Statement = Callable[["Compiler", Any], Step]
STATEMENTS: dict[str, Statement] = {}


def operation(*names: str) -> Callable[[Operation], Operation]:
    """Register the compiler of the operations ``names`` (in full, as ``tl.tileop.copy``)."""

    def register(function: Operation) -> Operation:
        for name in names:
            OPERATIONS[name] = function
        return function

    return register


def statement(*kinds: str) -> Callable[[Statement], Statement]:
    """Register the compiler of the TIR statement nodes ``kinds``."""

    def register(function: Statement) -> Statement:
        for kind in kinds:
            STATEMENTS[kind] = function
        return function

    return register


def compile_statement(compiler: Compiler, node: Any) -> Step:
    """The step of a TIR statement; raises ``UnsupportedError`` for a node that the interpreter does not know."""
    kind = type(node).__name__
    handler = STATEMENTS.get(kind)
    if handler is None:
        raise UnsupportedError(f"the interpreter does not know the statement {kind}: `{render(node)}`")
    with compiler.at(node):
        return handler(compiler, node)


def sequence_of(steps: list[Step], places: list[Place | None]) -> Step:
    """Steps one after the other, until one gives a signal. What one refuses begins with its line of source."""

    def run(frame: Frame) -> Signal | None:
        try:
            for step in steps:
                signal = step(frame)
                if signal is not None:
                    return signal
        except UnsupportedError as error:
            error.stands_at(places[steps.index(step)])
            raise
        return None

    return run


def nothing(frame: Frame) -> Signal | None:
    return None


def branch(condition: Code, chosen: Step, other: Step | None) -> Step:
    def run(frame: Frame) -> Signal | None:
        flag = agreed(as_scalar(condition.run(frame)), frame.mask)
        if not isinstance(flag, np.ndarray):
            if flag:
                return chosen(frame)
            return other(frame) if other is not None else None
        saved = frame.mask
        _under_mask(frame, combine_masks(saved, flag), chosen)
        if other is not None:
            _under_mask(frame, without_gone(combine_masks(saved, ~flag), frame), other)
        frame.mask = without_gone(saved, frame)
        return None

    return run


def agreed(flag: Any, mask: Array | None) -> Any:
    """The truth value that all active lanes agree on, as a bool; else the array."""
    if not isinstance(flag, np.ndarray):
        return flag
    if (flag if mask is None else flag | ~mask).all():
        return True
    if not (flag if mask is None else flag & mask).any():
        return False
    return flag


def _under_mask(frame: Frame, mask: Array | None, step: Step) -> None:
    if mask is not None and not mask.any():
        return
    frame.mask = mask
    signal = step(frame)
    if signal is not None:
        leave(frame, signal)


def leave(frame: Frame, signal: Signal) -> Signal | None:
    """End the loop or the thread for the active lanes; without a mask, for all, by handing the signal on."""
    if frame.mask is None:
        return signal
    gone = frame.mask
    if signal is Signal.BREAK:
        frame.broken = gone if frame.broken is None else frame.broken | gone
    elif signal is Signal.CONTINUE:
        frame.skipped = gone if frame.skipped is None else frame.skipped | gone
    else:
        frame.returned = gone if frame.returned is None else frame.returned | gone
    frame.mask = np.zeros_like(gone)
    return None


def without_gone(mask: Array | None, frame: Frame) -> Array | None:
    """The mask without the lanes that broke, continued or returned."""
    for gone in (frame.broken, frame.skipped, frame.returned):
        if gone is not None:
            mask = ~gone if mask is None else mask & ~gone
    return mask
