"""What a line of a TileLang program does on the chip: a launch, an allocation, a copy, a product, a loop, a reduction."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.plan.model import Copy, Gemm, Loop, Reduce

if TYPE_CHECKING:
    from tilegen.plan.model import KernelPlan
    from tilegen.review.origin.statements import Line


@dataclass(frozen=True)
class Construct:
    """``what`` in words; ``paths`` of the spec that decide it, as the plans say; ``subjects`` are the files of rules that
    speak of such a thing.
    """

    what: str
    paths: tuple[str, ...]
    subjects: tuple[str, ...]


SUBJECTS = {
    "Kernel": ("launch", "schedules"),
    "alloc_shared": ("shared_memory",),
    "alloc_barrier": ("shared_memory", "schedules"),
    "alloc_fragment": ("rows", "gemm", "attention"),
    "copy": ("copies", "rows", "indices"),
    "tma_copy": ("copies", "schedules", "indices"),
    "gemm": ("gemm", "numerics", "attention"),
    "wgmma_gemm": ("gemm", "schedules", "numerics", "attention"),
    "Pipelined": ("gemm", "attention"),
    "reduce_sum": ("rows", "numerics"),
    "reduce_max": ("rows", "numerics"),
    "inc_max_nreg": ("schedules", "gemm"),
    "dec_max_nreg": ("schedules", "gemm"),
    "annotate_layout": ("rows", "shared_memory"),
}
"""TileLang's word to the files under ``tilegen/check/rules`` whose rules speak of it."""

WHAT = {
    "Kernel": "the launch: grid and threads",
    "alloc_shared": "a tile in shared memory",
    "alloc_barrier": "barriers in shared memory",
    "alloc_fragment": "a fragment in registers",
    "copy": "a copy of a tile",
    "tma_copy": "a copy by TMA",
    "gemm": "a product on the tensor cores",
    "wgmma_gemm": "a product by WGMMA",
    "Pipelined": "a pipelined loop",
    "reduce_sum": "a sum over an axis",
    "reduce_max": "a maximum over an axis",
    "inc_max_nreg": "registers of a warp group",
    "dec_max_nreg": "registers of a warp group",
    "annotate_layout": "the layout of a tile",
    "use_swizzle": "the order of the output tiles",
}


def construct_of(line: Line, kernels: Iterable[KernelPlan]) -> Construct | None:
    """What the line does, by the first call of TileLang in it; None for a line that does nothing by itself."""
    for call in line.calls:
        word = _word(call)
        if word in WHAT:
            paths = dict.fromkeys(path for kernel in kernels for path in _paths(word, call, kernel))
            return Construct(WHAT[word], tuple(paths), SUBJECTS.get(word, ()))
    return None


def _word(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "T":
        return function.attr
    return ""


def _paths(word: str, call: ast.Call, kernel: KernelPlan) -> Iterator[str]:
    """The spec paths that the plan gives for the operation of a call, found by the buffers that it names."""
    named = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
    if word == "Kernel":
        yield from (*kernel.launch.decided_by, "tile.threads")
    elif word in ("gemm", "wgmma_gemm"):
        for gemm, _ in kernel.find(Gemm):
            if {gemm.a, gemm.b, gemm.acc} <= named:
                yield from gemm.decided_by
                yield from (gemm.dtype_at, gemm.operand_at or gemm.dtype_at, "tile.policy")
    elif word in ("copy", "tma_copy"):
        for copy, _ in kernel.find(Copy):
            if {copy.src, copy.dst} <= named:
                yield from copy.decided_by
    elif word == "Pipelined":
        for loop, _ in kernel.find(Loop):
            if loop.variable and loop.decided_by:
                yield from (*loop.decided_by, "tile.stages")
    elif word.startswith("reduce_"):
        for reduce, _ in kernel.find(Reduce):
            if {reduce.src, reduce.dst} <= named:
                yield from reduce.decided_by
    elif word == "use_swizzle":
        yield "tile.swizzle"
