"""Asynchronous tile operations: bulk copies with a barrier, and warp-group products that are waited for.

Each is carried out at once; what is still in flight is remembered, so that a tile that is touched too early is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilegen.interp.barriers import compile_arrival, compile_barrier
from tilegen.interp.copies import compile_copy
from tilegen.interp.findings import Site, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import constant
from tilegen.interp.matmul import WARP_GROUP, check_whole_groups, compile_product
from tilegen.interp.steps import Signal, Step, nothing, operation

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler


@operation("tl.tileop.tma_copy")
def _bulk_copy(compiler: Compiler, call: Any, site: Site) -> Step:
    """A load by the copy engine: it expects its bytes at the barrier, and arrives there too if told to (``emit_arrive``)."""
    copy = compile_copy(compiler, call, site)
    if "cluster_mask" in call.annotations:
        raise UnsupportedError(f"multicast to a cluster is not modelled: `{site.operation}`")
    if "barrier" not in call.annotations:
        return _store(compiler, copy)
    barrier_of = compile_barrier(compiler, call.annotations["barrier"], site)
    arrives = bool(int(call.annotations.get("emit_arrive", 0)))

    compiler.is_concurrent = True

    def run(frame: Frame) -> Signal | None:
        barrier, number = barrier_of(frame)
        log = frame.block.access_log
        if log is not None:
            barrier.arriving[number] = log.merged(barrier.arriving[number], log.issue_copy(frame, barrier, number))
        copy(frame)
        frame.acting = None
        if arrives:
            barrier.arrive(frame, site, number, 1)
        return None

    return run


def _store(compiler: Compiler, copy: Step) -> Step:
    """A store by the copy engine, which TileLang commits as a group of its own."""
    compiler.is_concurrent = True

    def run(frame: Frame) -> Signal | None:
        log = frame.block.access_log
        if log is not None:
            log.issue_store(frame)
        copy(frame)
        frame.acting = None
        return None

    return run


@operation("tl.tileop.wgmma_gemm")
def _warp_group_product(compiler: Compiler, call: Any, site: Site) -> Step:
    product = compile_product(compiler, call, site)
    compiler.is_concurrent = True

    def run(frame: Frame) -> Signal | None:
        check_whole_groups(frame, site, WARP_GROUP)
        log = frame.block.access_log
        if log is None:
            product.run(frame)
            return None
        log.issue_product(frame)
        product.run(frame)
        frame.acting = None
        product.c.storage(frame).accumulated_by = frame.issued
        if product.a.plan.scope == "local.fragment":
            product.a.storage(frame).read_by = frame.issued
        return None

    return run


@operation("tl.tileop.tcgen05_gemm")
def _tensor_memory_product(compiler: Compiler, call: Any, site: Site) -> Step:
    """A product into tensor memory that one thread issues; its barrier, if it names one, hears when it is complete."""
    product = compile_product(compiler, call, site)
    named = type(call.args[10]).__name__ != "IntImm"
    arrive = _arrival(compiler, call.args[10], site) if named else nothing
    compiler.is_concurrent = True

    def run(frame: Frame) -> Signal | None:
        if frame.block.access_log is not None:
            frame.block.access_log.issue_tensor_product(frame)
        product.run(frame)
        frame.acting = None
        return arrive(frame)

    return run


@operation("tl.tcgen05_mma_arrive")
def _tensor_memory_products_arrive(compiler: Compiler, call: Any, site: Site) -> Step:
    """A barrier hears when all products into tensor memory issued so far are complete."""
    return _arrival(compiler, call.args[0], site)


def _arrival(compiler: Compiler, barrier: Any, site: Site) -> Step:
    return compile_arrival(
        compiler, barrier, site, 1, lambda log, frame, clock: log.tensor_products_arrive(frame, clock)
    )


@operation("tl.wait_wgmma", "tl.warpgroup_wait")
def _wait_for_products(compiler: Compiler, call: Any, site: Site) -> Step:
    allowed = compiler.expression(call.args[0], site)

    def run(frame: Frame) -> Signal | None:
        log = frame.block.access_log
        if log is not None:
            log.wait_for_products(frame, int(allowed.run(frame)))
        return None

    return run


@operation("tl.tma_store_arrive")
def _commit_stores(compiler: Compiler, call: Any, site: Site) -> Step:
    """A group of the stores since the last: an empty one, since each store commits itself."""

    def run(frame: Frame) -> Signal | None:
        if frame.block.access_log is not None:
            frame.block.access_log.issue_store(frame)
            frame.acting = None
        return None

    return run


@operation("tl.tma_store_wait")
def _wait_for_stores(compiler: Compiler, call: Any, site: Site) -> Step:
    allowed = compiler.expression(call.args[0], site) if call.args else constant(0, "int32")

    def run(frame: Frame) -> Signal | None:
        if frame.block.access_log is not None:
            frame.block.access_log.wait_for_stores(frame, int(allowed.run(frame)))
        return None

    return run
