"""Fragments that TileLang lays out by a loop that covers only a part of them.

Where no product and no ``T.annotate_layout`` decides how a fragment is spread over the threads, TileLang 0.1.15 takes the
layout of the loop that needs the fewest registers. A ``T.Parallel`` or a copy over half of a fragment needs half of them: the
fragment then has no place for the other half, and what is stored there is lost without a word. Which loop wins is asked of
TileLang's own layout inference, for a kernel in which some access covers a part of such a fragment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from tilegen.interp.accesses_ahead import Access, accesses
from tilegen.interp.compiler import identity
from tilegen.interp.findings import Finding, render
from tilegen.interp.places import Place, place_of
from tilegen.interp.structure import walk

_FRAGMENT = ("local.fragment",)
#: Whose layouts are asked for: those of fragments that no product decides are the same on every chip.
_TARGET = {"kind": "cuda", "arch": "sm_90a"}


@lru_cache(maxsize=64)
def partial_layout_findings(function: Any) -> tuple[Finding, ...]:
    """A finding for each fragment that is read where its layout has no place for it; asked once of each function."""
    return tuple(_partial_layouts(function))


def _partial_layouts(function: Any) -> Iterator[Finding]:
    found = list(accesses(function.body, _FRAGMENT))
    if not any(_is_partial(access) for access in found):
        return
    decided = _decided(function, found)
    free = [access for access in found if identity(access.buffer) not in decided]
    if not any(_is_partial(access) for access in free):
        return
    layouts = _inferred(function)
    for buffer in {identity(access.buffer): access.buffer for access in free}.values():
        covered = layouts.get(str(buffer.name))
        shape = _shape(buffer)
        if covered is None or shape is None or covered == shape or len(covered) != len(shape):
            continue
        reads = [access for access in free if access.buffer.same_as(buffer) and not access.writes]
        beyond = next((access for access in reads if _reaches_beyond(access, covered)), None)
        if beyond is not None:
            yield _finding(function, buffer, shape, covered, free, beyond)


def _finding(
    function: Any, buffer: Any, shape: Sequence[int], covered: Sequence[int], free: Sequence[Access], beyond: Access
) -> Finding:
    bounds = zip(beyond.bounds, covered, strict=True)
    index = tuple(place if high >= place else max(low, 0) for (low, high), place in bounds)
    loops = [access for access in free if access.buffer.same_as(buffer) and _covers(access, covered)]
    loop = max(loops, key=lambda access: access.writes, default=None)
    place = None if loop is None else _place(function, loop.node)
    return Finding(
        kind="layout",
        message=(
            f"TileLang lays {buffer.name} {tuple(shape)} out by a loop over {tuple(covered)} of it: "
            f"{buffer.name}[{', '.join(map(str, index))}] has no place, and what is stored there is lost. "
            f"Let that loop run over all of {buffer.name} with an `if` inside, or make two fragments of it"
        ),
        operation="" if loop is None else render(loop.node),
        buffer=str(buffer.name),
        index=index,
        place="" if place is None else str(place),
        source="" if place is None else place.text,
    )


def _place(function: Any, access: Any) -> Place | None:
    """The line of the statement that an element access belongs to: the first that ends after it."""
    places: list[Place | None] = []
    seen = False

    def visit(part: Any) -> None:
        nonlocal seen
        seen = seen or part.same_as(access)
        if seen and not places and type(part).__name__ in ("BufferStore", "Evaluate"):
            places.append(place_of(part, None))

    walk(function.body, visit)
    return places[0] if places else None


def _covers(access: Access, covered: Sequence[int]) -> bool:
    return all(bound == (0, extent - 1) for bound, extent in zip(access.bounds, covered, strict=True))


def _decided(function: Any, found: Sequence[Access]) -> set[int]:
    """The fragments whose layout a product or an annotation decides."""
    handles: list[Any] = []

    def visit(part: Any) -> None:
        handles.extend(dict(getattr(part, "annotations", None) or {}).get("layout_map", {}))

    walk(function.body, visit)
    return {
        identity(access.buffer)
        for access in found
        if access.by == "product" or any(access.buffer.data.same_as(handle) for handle in handles)
    }


def _shape(buffer: Any) -> tuple[int, ...] | None:
    extents = list(buffer.shape)
    return tuple(map(int, extents)) if all(type(extent).__name__ == "IntImm" for extent in extents) else None


def _is_partial(access: Access) -> bool:
    """Whether the access covers more than one element on an axis, and not all of them."""
    shape = _shape(access.buffer)
    if shape is None:
        return False
    return any(low == 0 and 0 < high < extent - 1 for (low, high), extent in zip(access.bounds, shape, strict=True))


def _reaches_beyond(access: Access, covered: Sequence[int]) -> bool:
    return any(high >= extent for (_, high), extent in zip(access.bounds, covered, strict=True))


class _EnoughError(Exception):
    """Ends a lowering after layout inference: nothing behind it is asked for."""


def _inferred(function: Any) -> dict[str, tuple[int, ...]]:
    """By the name of each fragment, the shape that its inferred layout is for; nothing where TileLang refuses the kernel."""
    import tilelang
    from tilelang import tvm

    layouts: dict[str, tuple[int, ...]] = {}

    @tvm.instrument.pass_instrument
    class AfterInference:
        def run_after_pass(self, module: Any, info: Any) -> None:
            if str(info.name) == "tl.LayoutInference":
                for found in module.functions.values():
                    walk(found.body, collect)
                raise _EnoughError

    def collect(part: Any) -> None:
        annotations = dict(getattr(part, "annotations", None) or {})
        for variable, layout in dict(annotations.get("layout_map", {})).items():
            if hasattr(layout, "replicate_size"):
                extents = list(layout.get_input_shape())
                layouts[str(variable.name)] = tuple(int(extent) for extent in extents)

    with tvm.transform.PassContext(instruments=[AfterInference()]), tvm.target.Target(_TARGET) as target:
        try:
            tilelang.lower(function, target=target)
        except Exception:
            return layouts
    return layouts
