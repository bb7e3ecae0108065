"""Where TileLang itself places a barrier between neighbouring branches of a warp-specialised kernel.

Its pass that orders accesses to shared memory sees the branches one after the other. Where an earlier one may touch what a
later one touches, and one of them writes, it places a barrier of all threads in front of the later one: branches that wait
for each other then hang on the device. (``else``, or ``tl.disable_thread_storage_sync``, is what a kernel writes instead.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from tilegen.interp.compiler import identity
from tilegen.interp.structure import walk

#: Bits of the access mask of ``tl.region``.
_READS, _WRITES = 1, 2
#: Beyond every index.
_FAR = 2**63
_BY_COPY_ENGINE = ("tl.tileop.tma_copy", "tl.tileop.async_copy")
_BY_TENSOR_CORE = ("tl.tileop.gemm", "tl.tileop.wgmma_gemm")


@dataclass(frozen=True)
class Access:
    """Elements of a shared buffer that a statement may touch: the first and the last index on each axis, both inclusive."""

    buffer: Any
    bounds: tuple[tuple[int, int], ...]
    writes: bool
    by: str
    """``copy`` for the copy engine, ``product`` for the tensor cores, ``atomic``, or nothing."""

    def conflicts(self, other: Access) -> bool:
        """Whether TileLang orders the two: one memory, one writes, and the elements are not known to be others."""
        if not self.buffer.data.same_as(other.buffer.data) or not (self.writes or other.writes):
            return False
        if self.by and self.by == other.by and self.writes and other.writes:
            return False
        if not self.buffer.same_as(other.buffer) or {self.by, other.by} & {"copy", "product"}:
            return True  # TileLang does not tell the elements behind a pointer apart
        pairs = zip(self.bounds, other.bounds, strict=True)
        return all(first[0] <= second[1] and second[0] <= first[1] for first, second in pairs)


def barriers_between(nodes: Sequence[Any]) -> list[str | None]:
    """For each of some statements in a row: why TileLang places a barrier in front of it, or None."""
    reasons: list[str | None] = []
    before: list[Access] = []
    for node in nodes:
        here = list(_accesses(node))
        clash = next(((old, new) for new in here for old in before if new.conflicts(old)), None)
        reasons.append(None if clash is None else _reason(*clash))
        before = here if clash is not None else before + here
    return reasons


def _reason(old: Access, new: Access) -> str:
    verb = {True: "written", False: "read"}
    return f"{old.buffer.name} is {verb[old.writes]} in the branch before and {verb[new.writes]} in this one"


def _accesses(node: Any) -> Iterator[Access]:
    from tvm import arith, tirx

    if type(node).__name__ != "IfThenElse":
        yield from _accesses_where(node, arith.Analyzer(), None)
        return
    yield from _accesses_where(node.then_case, arith.Analyzer(), node.condition)
    if node.else_case is not None:
        yield from _accesses_where(node.else_case, arith.Analyzer(), tirx.Not(node.condition))


def _accesses_where(node: Any, analyzer: Any, condition: Any) -> list[Access]:
    """The accesses to shared memory of a statement whose threads meet ``condition``."""
    from tvm import ir

    regions: dict[int, _Region] = {}
    found: list[Any] = []

    def visit(part: Any) -> None:
        kind = type(part).__name__
        if kind == "For":
            analyzer.bind(part.loop_var, ir.Range.from_min_extent(part.min, part.extent), True)
        elif kind == "Call":
            name = str(getattr(part.op, "name", ""))
            if name == "tl.region":
                mask = int(part.args[1])
                regions[identity(part.args[0])] = _Region(list(part.args[2:]), mask & _READS > 0, mask & _WRITES > 0)
                return
            by = _author(name)
            for argument in part.args if by else ():
                region = regions.get(identity(argument.args[0])) if getattr(argument, "args", None) else None
                if region is not None:
                    region.by = by
        elif kind in ("BufferLoad", "BufferStore") and str(part.buffer.scope()) in ("shared", "shared.dyn"):
            found.append(part)

    walk(node, visit)
    with nullcontext() if condition is None else analyzer.constraint_scope(condition):
        return [access for part in found for access in _of(part, regions.get(identity(part)), analyzer)]


def _author(name: str) -> str:
    if name in _BY_COPY_ENGINE:
        return "copy"
    if name in _BY_TENSOR_CORE:
        return "product"
    return "atomic" if ".atomic" in name else ""


@dataclass
class _Region:
    """What a tile operation does with the region that begins at an element."""

    extents: list[Any]
    reads: bool
    writes: bool
    by: str = ""


def _of(part: Any, region: _Region | None, analyzer: Any) -> Iterator[Access]:
    """The accesses that one element access, or the region that begins at it, stands for."""
    extents = [1] * len(part.indices) if region is None else [_constant(extent) for extent in region.extents]
    bounds = []
    for index, extent in zip(part.indices, extents, strict=True):
        bound = analyzer.const_int_bound(index) if type(index).__name__ != "Ramp" else None
        low = -_FAR if bound is None else bound.min_value
        high = _FAR if bound is None or extent is None else bound.max_value + extent - 1
        bounds.append((low, high))
    if region is None:
        yield Access(part.buffer, tuple(bounds), type(part).__name__ == "BufferStore", "")
        return
    for writes in [False] * region.reads + [True] * region.writes:
        yield Access(part.buffer, tuple(bounds), writes, region.by)


def _constant(extent: Any) -> int | None:
    return int(extent) if type(extent).__name__ == "IntImm" or isinstance(extent, int) else None
