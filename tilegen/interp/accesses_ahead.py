"""What a statement may touch, known before it runs: the first and last index of each access."""

from __future__ import annotations

from collections.abc import Collection, Iterator
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
    """Elements of a buffer that a statement may touch: the first and the last index on each axis, both inclusive."""

    buffer: Any
    bounds: tuple[tuple[int, int], ...]
    writes: bool
    by: str
    """``copy`` for the copy engine, ``product`` for the tensor cores, ``atomic``, or nothing."""
    node: Any
    """The element access, or the element at which the region begins."""


def accesses(node: Any, scopes: Collection[str]) -> Iterator[Access]:
    """The accesses of a statement to buffers of these scopes; the condition of a branch narrows those of its sides."""
    from tvm import arith, tirx

    if type(node).__name__ != "IfThenElse":
        yield from _accesses_where(node, scopes, arith.Analyzer(), None)
        return
    yield from _accesses_where(node.then_case, scopes, arith.Analyzer(), node.condition)
    if node.else_case is not None:
        yield from _accesses_where(node.else_case, scopes, arith.Analyzer(), tirx.Not(node.condition))


def _accesses_where(node: Any, scopes: Collection[str], analyzer: Any, condition: Any) -> list[Access]:
    """The accesses of a statement whose threads meet ``condition``."""
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
        elif kind in ("BufferLoad", "BufferStore") and str(part.buffer.scope()) in scopes:
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
        yield Access(part.buffer, tuple(bounds), type(part).__name__ == "BufferStore", "", part)
        return
    for writes in [False] * region.reads + [True] * region.writes:
        yield Access(part.buffer, tuple(bounds), writes, region.by, part)


def _constant(extent: Any) -> int | None:
    return int(extent) if type(extent).__name__ == "IntImm" or isinstance(extent, int) else None
