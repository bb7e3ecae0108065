"""Explicit layouts, ``T.annotate_layout``: no value depends on them, so they are only checked.

A layout has to give each element of its tile a place of its own, none ahead of the memory, and that of a fragment has to stay
within the threads of the block. TileLang 0.1.15 refuses two elements in one place, but it lowers a negative place (a write
ahead of the tile) and a thread that the block does not have (elements that nothing computes).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.findings import Finding, Site, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Code
from tilegen.interp.number_formats import Array
from tilegen.interp.structure import walk

if TYPE_CHECKING:
    from tilegen.interp.buffer_plan import BufferPlan
    from tilegen.interp.compiler import Compiler


@dataclass(frozen=True)
class TileLayout:
    """Where the elements of ``plan`` lie: ``places``, and for a fragment ``thread``, as functions of ``variables``.

    ``extents`` are the ranges of the variables, those of the tile's axes last; before them, the replicas of a fragment.
    """

    plan: BufferPlan
    variables: tuple[int, ...]
    extents: tuple[int, ...]
    rank: int
    places: tuple[Code, ...]
    thread: Code | None
    threads: int
    site: Site


def compile_layout(compiler: Compiler, plan: BufferPlan, layout: Any) -> TileLayout | None:
    """Compile an entry of a ``layout_map``; None where its shape or map is symbolic or not modelled."""
    site = compiler.site(f"T.annotate_layout of {plan.name}")
    shape = list(layout.get_input_shape())
    if not all(isinstance(extent, int) or type(extent).__name__ == "IntImm" for extent in shape):
        return None
    variables = list(layout.get_forward_vars())
    is_fragment = hasattr(layout, "replicate_size")
    replicas = [int(layout.replicate_size)] if len(variables) > len(shape) else []
    parts = [*layout.index, *([layout.thread] if is_fragment else [])]
    if not all(_names_only(part, variables) for part in parts):
        return None
    try:
        places = tuple(compiler.expression(place, site) for place in layout.index)
        thread = compiler.expression(layout.thread, site) if is_fragment else None
    except UnsupportedError:
        return None
    slots = tuple(compiler.variable_slot(variable) for variable in variables)
    extents = (*replicas, *(int(extent) for extent in shape))
    return TileLayout(plan, slots, extents, len(shape), places, thread, int(np.prod(compiler.threads)), site)


def _names_only(node: Any, variables: Sequence[Any]) -> bool:
    """Whether an expression names no variable but these, such as the index of a block."""
    foreign = []

    def visit(part: Any) -> None:
        if type(part).__name__ in ("Var", "SizeVar") and not any(part.same_as(variable) for variable in variables):
            foreign.append(part)

    walk(node, visit)
    return not foreign


def layout_findings(layouts: Sequence[TileLayout], axes: int, frame: Frame) -> Iterator[Finding]:
    """The first thing wrong with each layout; ``axes`` is the number of lane axes of an expression."""
    for layout in layouts:
        found = _fault(layout, axes, frame)
        if found is not None:
            message, index = found
            yield Finding("layout", message, layout.site.operation, layout.plan.name, index)


def _fault(layout: TileLayout, axes: int, frame: Frame) -> tuple[str, tuple[int, ...] | None] | None:
    name, shape = layout.plan.name, layout.plan.extents(frame)
    given = layout.extents[len(layout.extents) - layout.rank :]
    if int(np.prod(given)) != int(np.prod(shape)):
        if layout.plan.views:  # it may be the layout of a view of another element width
            return None
        return f"the layout of {name} is for a tile of {given}; {name} has the shape {shape}", None
    lanes = np.indices(layout.extents, dtype=np.int64).reshape(len(layout.extents), -1)
    for slot, values in zip(layout.variables, lanes, strict=True):
        frame.environment[slot] = values.reshape((1,) * (axes - 1) + (-1,))
    count = lanes.shape[1]
    places = [_values(code, frame, count) for code in layout.places]
    thread = None if layout.thread is None else _values(layout.thread, frame, count)
    found = _misplaced(places, thread, layout.threads)
    if found is None:
        clash = _twice(places, thread, count)
        if clash is None:
            return None
        found = clash[0], _clash_text(name, shape, clash, places, thread)
    lane, where = found
    index = _element(lane, shape)
    return f"the layout of {name} puts {name}[{_join(index)}] {where}", index


def _clash_text(
    name: str, shape: tuple[int, ...], clash: tuple[int, int], places: Sequence[Array], thread: Array | None
) -> str:
    lane, other = clash
    at = "at " + _join([int(part[lane]) for part in places])
    if thread is not None:
        at += f" of thread {thread[lane]}"
    if _element(lane, shape) == _element(other, shape):
        return f"twice {at}: its replicas need threads of their own"
    return f"where {name}[{_join(_element(other, shape))}] is, {at}"


def _misplaced(places: Sequence[Array], thread: Array | None, threads: int) -> tuple[int, str] | None:
    """The first element ahead of the memory, or in a thread that the block does not have."""
    for part in places:
        if (part < 0).any():
            lane = int(np.argmax(part < 0))
            return lane, f"ahead of its memory, at {_join([int(each[lane]) for each in places])}"
    if thread is not None:
        beyond = (thread < 0) | (thread >= threads)
        if beyond.any():
            lane = int(np.argmax(beyond))
            return lane, f"into thread {thread[lane]} of a block of {threads}"
    return None


def _twice(places: Sequence[Array], thread: Array | None, count: int) -> tuple[int, int] | None:
    """Two elements, or two replicas of one, in one place of one thread: the later, and the one that is there already."""
    key = np.zeros(count, dtype=np.int64)
    for part in (*places, *([] if thread is None else [thread])):
        key = key * (int(part.max(initial=0)) + 1) + part
    distinct, first, group = np.unique(key, return_index=True, return_inverse=True)
    if distinct.size == count:
        return None
    there = first[group.reshape(-1)]
    lane = int(np.argmax(there != np.arange(count)))
    return lane, int(there[lane])


def _values(code: Code, frame: Frame, count: int) -> Array:
    return np.broadcast_to(np.asarray(code.run(frame)).reshape(-1), (count,))


def _element(lane: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(part) for part in np.unravel_index(lane % int(np.prod(shape)), shape))


def _join(numbers: Sequence[int]) -> str:
    return ", ".join(str(number) for number in numbers)
