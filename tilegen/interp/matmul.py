"""Matrix products: ``T.gemm`` and ``T.wgmma_gemm``.

Operands are widened to float32 exactly and multiplied in float32; a float32 operand is first cut to tf32, as the tensor cores
do (unless both operands and the accumulator are float32 on a path without tensor cores, which TileLang does not have on the
targets modelled). Integer operands are multiplied exactly and wrapped to the accumulator. An accumulator of 16 bits is
rounded once for each call; the hardware rounds inside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.copies import check_annotations
from tilegen.interp.findings import Site, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Code, as_scalar
from tilegen.interp.non_finite import all_finite, note_event
from tilegen.interp.number_formats import Array, is_float, round_to, round_to_tf32, to_float32, wrap_integer
from tilegen.interp.regions import Region, compile_region
from tilegen.interp.steps import Signal, Step, operation

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler

WARP, WARP_GROUP = 32, 128
_GEMM_HINTS = frozenset({"wg_wait", "k_pack", "tl.ws_op_id", "use_2cta", "is_tcgen05"})


@dataclass(frozen=True)
class Product:
    """The operands of one matrix product, as the tile operation lists them."""

    a: Region
    b: Region
    c: Region
    transpose_a: bool
    transpose_b: bool
    clear: Code
    site: Site

    def run(self, frame: Frame) -> None:
        clear = as_scalar(self.clear.run(frame))
        if not isinstance(clear, (bool, int)):
            raise UnsupportedError(f"clear_accum of `{self.site.operation}` differs between threads")
        a = _operand(self.a, frame, self.transpose_a)
        b = _operand(self.b, frame, self.transpose_b)
        shape = self.c.shape(frame)
        product = multiply(a, b, self.a.dtype, self.b.dtype, self.c.dtype)
        if clear:
            result = product
        else:
            before = self.c.read(frame).reshape(product.shape)
            result = accumulate(before, product, self.c.dtype)
        self._note(frame, a, b, result)
        self.c.write(frame, result.reshape(shape))

    def _note(self, frame: Frame, a: Array, b: Array, result: Array) -> None:
        block = frame.block
        if not block.diagnostics or len(block.non_finite) == 2 or not is_float(self.c.dtype) or all_finite(result):
            return
        if all_finite(a) and all_finite(b):
            before = (
                []
                if as_scalar(self.clear.run(frame))
                else [(self.c.plan.name, self.c.read(frame).reshape(result.shape))]
            )
            note_event(frame, self.site, result, before, self.c.plan.name, self.c.element(frame))


def multiply(a: Array, b: Array, a_dtype: str, b_dtype: str, c_dtype: str) -> Array:
    """``a @ b`` of matrices (or stacks of them), in float32 or, for an integer accumulator, exactly."""
    if not is_float(c_dtype):
        exact = np.float32 if a.shape[-1] <= 1024 and a.itemsize == 1 else np.float64
        wide = a.astype(exact) @ b.astype(exact)
        product: Array = wrap_integer(wide.astype(np.int64), c_dtype)
        return product
    if c_dtype == "float64":
        double: Array = a.astype(np.float64) @ b.astype(np.float64)
        return double
    left, right = to_float32(a, a_dtype), to_float32(b, b_dtype)
    if a.dtype == np.float32:
        left = round_to_tf32(left)
    if b.dtype == np.float32:
        right = round_to_tf32(right)
    single: Array = left @ right
    return single if c_dtype == "float32" else round_to(single, c_dtype)


def accumulate(before: Array, product: Array, dtype: str) -> Array:
    """``before + product`` in the accumulator's format."""
    if not is_float(dtype):
        total: Array = wrap_integer(before.astype(np.int64) + product, dtype)
        return total
    if before.dtype == product.dtype == np.float32:
        product += before
        return product
    rounded: Array = round_to(to_float32(before, dtype) + to_float32(product, dtype), dtype)
    return rounded


def _operand(region: Region, frame: Frame, transposed: bool) -> Array:
    tile = region.read(frame)
    matrix = tile.reshape(tile.shape[-2:])
    return matrix.T if transposed else matrix


def compile_product(compiler: Compiler, call: Any, site: Site) -> Product:
    check_annotations(call, _GEMM_HINTS, site)
    if int(call.annotations.get("use_2cta", 0)):
        raise UnsupportedError(f"two-block products are not modelled: `{site.operation}`")
    a, b = (compile_region(compiler, call.args[position], site) for position in range(2))
    c = compile_region(
        compiler, call.args[2], replace(site, mend="a product adds to it: T.clear it, or clear_accum=True")
    )
    compiler.note_write(c.plan)
    transpose_a, transpose_b = (bool(int(call.args[position].value)) for position in (3, 4))
    return Product(a, b, c, transpose_a, transpose_b, compiler.expression(call.args[9], site), site)


def check_whole_groups(frame: Frame, site: Site, size: int) -> None:
    """Report a product in a role that holds a part of a warp (``size`` 32) or warp group (128): its threads act together."""
    threads = frame.threads
    if threads.size == frame.block.threads:
        return
    first = threads[::size]
    whole = threads.size % size == 0 and not (first % size).any()
    if not whole or not np.array_equal(threads.reshape(-1, size), first[:, None] + np.arange(size)):
        name = "warp group" if size == WARP_GROUP else "warp"
        frame.report(
            "partial-warp",
            site,
            f"threads {int(threads[0])} to {int(threads[-1])} carry out this product, {threads.size} of them: "
            f"it takes whole {name}s of {size} threads",
        )


@operation("tl.tileop.gemm")
def _gemm(compiler: Compiler, call: Any, site: Site) -> Step:
    product = compile_product(compiler, call, site)

    def run(frame: Frame) -> Signal | None:
        check_whole_groups(frame, site, WARP)
        log = frame.block.access_log
        if log is not None and frame.issued > frame.waited:
            # On a target with warp-group products this one is waited for, and with it all before.
            log.wait_for_products(frame, 0)
        product.run(frame)
        return None

    return run
