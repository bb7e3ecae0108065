"""Tile operations on per-thread memory (``local``): each thread carries out the whole of its own, element by element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.access import ElementAccess
from tilegen.interp.findings import Site, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Affine, Code
from tilegen.interp.number_formats import convert
from tilegen.interp.regions import Region
from tilegen.interp.steps import Signal, Step

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler

LOCAL_SCOPES = ("local", "local.var")


def is_per_thread(*regions: Region) -> bool:
    """Whether one of the operands is per-thread memory."""
    return any(region.plan.scope in LOCAL_SCOPES for region in regions)


def copy_per_thread(compiler: Compiler, source: Region, target: Region, site: Site) -> Step:
    """A copy from or to per-thread memory: its bounds may differ between threads."""
    for region in (source, target):
        if region.plan.scope == "local.fragment":
            raise UnsupportedError(
                f"`{site.operation}` copies between per-thread memory and the fragment {region.plan.name}: which thread "
                "holds which element of a fragment is not modelled; use T.Parallel, or a fragment on both sides"
            )
    extents = _extents(target if source.plan.scope == "global" else source, site)
    slots = [compiler.new_slot(f"axis {axis}") for axis in range(len(extents))]
    load = _moved(compiler, source, extents, slots, site)
    store = _moved(compiler, target, extents, slots, site, write=True)

    def run(frame: Frame) -> Signal | None:
        for place in np.ndindex(*extents):
            for slot, number in zip(slots, place, strict=True):
                frame.environment[slot] = number
            store.store(frame, convert(load.load(frame), source.dtype, target.dtype))
        return None

    return run


def fill_per_thread(compiler: Compiler, target: Region, value: Any, site: Site) -> Step:
    """Fill per-thread memory: the value may differ between threads."""
    extents = _extents(target, site)
    slots = [compiler.new_slot(f"axis {axis}") for axis in range(len(extents))]
    store = _moved(compiler, target, extents, slots, site, write=True)

    def run(frame: Frame) -> Signal | None:
        filling = convert(value.run(frame), value.dtype, target.dtype)
        for place in np.ndindex(*extents):
            for slot, number in zip(slots, place, strict=True):
                frame.environment[slot] = number
            store.store(frame, filling)
        return None

    return run


def _extents(region: Region, site: Site) -> tuple[int, ...]:
    """The extents other than one, which the two sides of a copy share."""
    if region.fixed_shape is None:
        raise UnsupportedError(f"a region of {region.plan.name} in `{site.operation}` has a size that is no constant")
    return tuple(extent for extent in region.fixed_shape if extent != 1)


def _moved(
    compiler: Compiler, region: Region, extents: Sequence[int], slots: Sequence[int], site: Site, write: bool = False
) -> ElementAccess:
    """The element of a region at the place that ``slots`` hold."""
    shape = region.fixed_shape
    if shape is None or tuple(extent for extent in shape if extent != 1) != tuple(extents):
        raise UnsupportedError(
            f"the extents of the two sides of `{site.operation}` do not match: {shape} and {tuple(extents)}"
        )
    remaining = iter(slots)
    indices = [
        start if extent == 1 else _plus(start, next(remaining))
        for start, extent in zip(region.minima, shape, strict=True)
    ]
    return compiler.access(region.plan, indices, site, write)


def _plus(start: Code, slot: int) -> Code:
    affine = start.as_affine().plus(Affine(lambda frame: frame.environment[slot], 0, ()))
    return Code(lambda frame: start.run(frame) + frame.environment[slot], start.dtype, affine=affine)
