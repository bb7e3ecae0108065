"""The matrix instruction of a product of a plan."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeVar

from tilegen.lowering.instruction import GemmPath, GemmRefusal, gemm_path
from tilegen.targets.facts import answer

if TYPE_CHECKING:
    from tilegen.expr import Size
    from tilegen.plan.model import Gemm, KernelPlan
    from tilegen.targets import Target

Value = TypeVar("Value")


def whole(size: Size) -> int | None:
    """A size that is a number already; None for one that hangs on dims."""
    return size if isinstance(size, int) else None


def path_of(
    target: Target, kernel: KernelPlan, gemm: Gemm, number: Callable[[Size], int | None] = whole
) -> GemmPath | GemmRefusal | None:
    """Which instruction TileLang takes for a product, and how its warps share the accumulator; or why it refuses.

    ``number`` gives the value of a size at one shape. None where a size is not known.
    """
    return _path(target, *_product(kernel, gemm, number))


def asked_of_path(
    target: Target,
    kernel: KernelPlan,
    gemm: Gemm,
    question: Callable[..., Value],
    *more: Hashable,
    number: Callable[[Size], int | None] = whole,
) -> Value:
    """``question(path, *more)`` of the path of a product: one fact of the chip, however much of the chip decides it."""
    found: Value = answer(target, _asked, question, _product(kernel, gemm, number), more)
    return found


def _asked(target: Target, question: Callable[..., Value], product: tuple[Any, ...], more: tuple[Any, ...]) -> Value:
    return question(_path(target, *product), *more)


def _product(kernel: KernelPlan, gemm: Gemm, number: Callable[[Size], int | None]) -> tuple[Any, ...]:
    threads = kernel.launch.threads if gemm.threads is None else gemm.threads
    sizes = (number(size) for size in (gemm.m, gemm.n, gemm.k, threads))
    return *sizes, gemm.policy, gemm.dtype, gemm.accum, gemm.transpose_a, gemm.transpose_b


def _path(
    target: Target,
    m: int | None,
    n: int | None,
    k: int | None,
    threads: int | None,
    *kind: Any,
) -> GemmPath | GemmRefusal | None:
    if m is None or n is None or k is None or threads is None:
        return None
    policy, operand, accum, transpose_a, transpose_b = kind
    return gemm_path(target, m, n, k, threads, policy, operand, accum, transpose_a=transpose_a, transpose_b=transpose_b)
