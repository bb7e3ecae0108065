"""How the tiles of a plan move and multiply on the chip: TMA, cp.async, vectors; WGMMA, mma.sync, MFMA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilegen.lowering.instruction import GemmPath, GemmRefusal
from tilegen.lowering.tma import stride_ok
from tilegen.plan.instruction import path_of
from tilegen.plan.model import Copy, Gemm, KernelPlan, Loop, LoopKind, Scope

if TYPE_CHECKING:
    from tilegen.review.page.sized import SizedPlan


def copy_path(sized: SizedPlan, kernel: KernelPlan, copy: Copy, loops: tuple[Loop, ...]) -> str:
    """The word for the instruction that carries a copy, as the model of the lowering has it."""
    source, destination = kernel.buffer(copy.src).scope, kernel.buffer(copy.dst).scope
    tma, pitch = sized.plan.target.tma, sized.number(copy.row_pitch)
    aligned = tma is not None and (pitch is None or stride_ok(pitch, kernel.buffer(copy.src).itemsize, tma))
    pipelined = any(loop.kind is LoopKind.PIPELINED for loop in loops)
    if source is Scope.GLOBAL and destination is Scope.SHARED:
        if copy.explicit_tma or (pipelined and kernel.launch.producer_threads != 0 and aligned):
            return "TMA"
        return "cp.async" if pipelined and sized.plan.target.copy.cp_async_bytes else "vector loads"
    if source is Scope.SHARED and destination is Scope.GLOBAL:
        return "TMA store" if aligned else "vector stores"
    if Scope.GLOBAL in (source, destination):
        return "vector loads" if source is Scope.GLOBAL else "vector stores"
    if source is Scope.FRAGMENT and destination is Scope.FRAGMENT:
        return "registers"
    return "shared loads" if source is Scope.SHARED else "shared stores"


def product_path(sized: SizedPlan, kernel: KernelPlan, gemm: Gemm) -> GemmPath | GemmRefusal | None:
    """The matrix instruction of a product and how its warps share the accumulator; None where a size is not known."""
    return path_of(sized.plan.target, kernel, gemm, sized.number)


ROWS = {"wgmma": 64, "mma.sync": 16, "mfma": 16, "tcgen05": 128}
"""M of one instruction."""

SPOKEN = {"wgmma": "WGMMA", "mma.sync": "mma.sync", "mfma": "MFMA", "tcgen05": "tcgen05"}


def instruction_text(path: GemmPath | GemmRefusal | None) -> str:
    """``WGMMA m64n256k16``, or why there is none."""
    if path is None:
        return "a size is not known here"
    if isinstance(path, GemmRefusal):
        return f"no instruction: {path.reason}"
    return f"{SPOKEN.get(path.instruction, path.instruction)} m{ROWS[path.instruction]}n{path.n}k{path.k}"
