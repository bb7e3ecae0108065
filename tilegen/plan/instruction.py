"""The matrix instruction of a product of a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilegen.lowering.instruction import GemmPath, GemmRefusal, gemm_path

if TYPE_CHECKING:
    from tilegen.expr import Size
    from tilegen.plan.model import Gemm, KernelPlan
    from tilegen.targets import Target


def whole(size: Size) -> int | None:
    """A size that is a number already; None for one that hangs on dims."""
    return size if isinstance(size, int) else None


def path_of(
    target: Target, kernel: KernelPlan, gemm: Gemm, number: Callable[[Size], int | None] = whole
) -> GemmPath | GemmRefusal | None:
    """Which instruction TileLang takes for a product, and how its warps share the accumulator; or why it refuses.

    ``number`` gives the value of a size at one shape. None where a size is not known.
    """
    threads = kernel.launch.threads if gemm.threads is None else gemm.threads
    m, n, k, count = (number(size) for size in (gemm.m, gemm.n, gemm.k, threads))
    if m is None or n is None or k is None or count is None:
        return None
    return gemm_path(
        target,
        m,
        n,
        k,
        count,
        gemm.policy,
        gemm.dtype,
        gemm.accum,
        transpose_a=gemm.transpose_a,
        transpose_b=gemm.transpose_b,
    )
