"""Where the first NaN or infinity came from.

An event is a NaN computed where no operand was NaN, or an infinity computed from finite operands and no infinite constant. Each
block keeps its first of each; it becomes a finding only if an output holds such a value in the end, or if it is the overflow
of a format of 16 or 8 bits, which later arithmetic easily hides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.findings import Site, render
from tilegen.interp.frame import Event, Frame
from tilegen.interp.lanes import Code
from tilegen.interp.number_formats import Array
from tilegen.interp.structure import walk

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler

Operand = tuple[str, Any]
Element = Callable[[tuple[int, ...], tuple[int, ...]], Sequence[int]]


def all_finite(value: Any) -> bool:
    """Whether a float scalar or array holds neither NaN nor infinity."""
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        # One pass: a product with zero is NaN for those values only, and NaN spreads through a sum.
        return not np.isnan(np.vdot(value, _zeros(value.size)) if value.flags.c_contiguous else np.sum(value * 0))
    return bool(np.isfinite(value).all())


@lru_cache(maxsize=64)
def _zeros(size: int) -> Array:
    return np.zeros(size, dtype=np.float32)


def store_check(compiler: Compiler, node: Any, value: Code, site: Site) -> Callable[[Frame, Any], None] | None:
    """The check of ``buffer[...] = value``: the operands are what the expression loads."""
    loads: list[Any] = []
    infinite: list[Any] = []

    def visit(part: Any) -> None:
        kind = type(part).__name__
        if kind in ("BufferLoad", "Var", "SizeVar") and "float" in str(part.dtype):
            loads.append(part)
        if (kind == "FloatImm" and not np.isfinite(part.value)) or (kind == "Call" and part.op.name == "tl.infinity"):
            infinite.append(part)

    walk(node.value, visit)
    if value.const is not None:
        return None
    operands: list[tuple[str, Code]] | None = None
    indices: list[Code] = []

    def check(frame: Frame, result: Any) -> None:
        nonlocal operands
        block = frame.block
        if not block.diagnostics or len(block.non_finite) == 2 or all_finite(result):
            return
        if operands is None:
            operands = [(render(load), compiler.expression(load, site)) for load in loads]
            indices.extend(compiler.expression(index, site) for index in node.indices)
        block.diagnostics = False  # the operands have been read, and checked, already
        values = [(text, code.run(frame)) for text, code in operands]
        places = [np.asarray(code.run(frame)) for code in indices]
        block.diagnostics = True

        def element(lane: tuple[int, ...], shape: tuple[int, ...]) -> list[int]:
            return [int(np.broadcast_to(place, shape)[lane]) for place in places]

        note_event(frame, site, np.asarray(result), values, str(node.buffer.name), element, not infinite)

    return check


def note_event(
    frame: Frame,
    site: Site,
    result: Array,
    operands: Sequence[Operand],
    buffer: str,
    element: Element | None = None,
    infinities: bool = True,
) -> None:
    """Keep the block's first NaN and first infinity that ``operands`` (broadcast against ``result``) do not explain.

    ``element`` gives the element of the buffer that a lane of the broadcast shape stands for.
    """
    shape = np.broadcast_shapes(result.shape, *(np.shape(value) for _, value in operands))
    if frame.mask is not None:
        shape = np.broadcast_shapes(shape, frame.mask.shape)
    values = [(text, np.broadcast_to(np.asarray(value), shape)) for text, value in operands]
    full = np.broadcast_to(result, shape)
    active = np.ones(shape, dtype=np.bool_) if frame.mask is None else np.broadcast_to(frame.mask, shape)
    born_nan, born_infinite = np.isnan(full) & active, np.isinf(full) & active
    for _, value in values:
        born_nan &= ~np.isnan(value)
        born_infinite &= np.isfinite(value)
    for kind, born in (("NaN", born_nan), ("Inf", born_infinite if infinities else None)):
        if born is not None and kind not in frame.block.non_finite and born.any():
            lane = tuple(int(part) for part in np.unravel_index(int(np.argmax(born)), shape))
            given = ", ".join(f"{text} = {value[lane]!s}" for text, value in values)
            place = [int(part) for part in lane] if element is None else element(lane, shape)
            where = f"{buffer}[{', '.join(str(part) for part in place)}]"
            message = f"{where} becomes {full[lane]!s}" + (f", from {given}" if given else "")
            narrow = kind == "Inf" and result.dtype.itemsize < 4
            name = "infinity" if kind == "Inf" and not narrow else "non-finite"
            finding = frame.finding(name, site, message, buffer)
            frame.block.non_finite[kind] = Event(kind, finding, reported=narrow)
            if narrow:
                frame.block.findings.keep((kind, id(site), buffer), finding)
