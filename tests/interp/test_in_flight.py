"""Copies that are still in flight, barriers that do not exist, slices that do not fit: what is found, and what is not."""

import numpy as np
import pytest
import tilelang.language as T

from tests.interp.test_roles import ARRIVES, waits_alone
from tilegen.interp import run


def loaded_by_threads(fault=None, stages=2, blocks=5):
    """A ring filled by cp.async: ``stages - 1`` groups may be in flight while a tile is used."""

    @T.prim_func
    def main(A: T.Tensor((blocks, 32, 64), "float16"), B: T.Tensor((blocks, 32, 64), "float16")):
        with T.Kernel(1, threads=128) as _:
            ring = T.alloc_shared((stages, 32, 64), "float16")
            for k in T.serial(stages - 1):
                T.async_copy(A[k, :, :], ring[k, :, :])
            for k in T.serial(blocks):
                if k + stages - 1 < blocks:
                    T.async_copy(A[k + stages - 1, :, :], ring[(k + stages - 1) % stages, :, :])
                else:
                    T.ptx_commit_group()
                if fault != "never waited for":
                    T.ptx_wait_group(stages if fault == "one group too many" else stages - 1)
                T.sync_threads()
                T.copy(ring[k % stages, :, :], B[k, :, :])
                T.sync_threads()

    return main


def stored_by_the_copy_engine(fault=None):
    """Two stores from one tile: it is refilled only after the engine has read it."""

    @T.prim_func
    def main(A: T.Tensor((2, 64, 64), "float16"), B: T.Tensor((2, 64, 64), "float16")):
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_shared((64, 64), "float16")
            for k in T.serial(2):
                T.copy(A[k, :, :], tile)
                T.fence_proxy_async()
                T.tma_copy(tile, B[k, :, :])
                if fault != "refilled":
                    T.tma_store_wait(0)
            if fault == "left behind":
                T.tma_copy(tile, B[1, :, :])
            else:
                T.tma_store_wait(0)

    return main


def drained_by_one_thread(fault=None):
    """Only the thread that issued a store waits for it: the others learn of it at a barrier."""

    @T.prim_func
    def main(A: T.Tensor((2, 64, 64), "float16"), B: T.Tensor((2, 64, 64), "float16")):
        T.annotate_pass_configs({"tl.disable_thread_storage_sync": True})
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_shared((64, 64), "float16")
            own = T.alloc_fragment((64, 64), "float16")
            for k in T.serial(2):
                T.copy(A[k, :, :], own)
                T.tma_store_wait(0)
                if fault is None:
                    T.sync_threads(8, 128)
                T.copy(own, tile)
                T.fence_proxy_async()
                T.sync_threads(9, 128)
                T.tma_copy(tile, B[k, :, :])
            T.tma_store_wait(0)

    return main


def waited_parity(fault=None):
    """A parity counts phases modulo 2."""

    @T.prim_func
    def main(A: T.Tensor((4, 64), "float32"), B: T.Tensor((4, 64), "float32")):
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_shared((64,), "float32")
            ready = T.alloc_barrier([128])
            for k in T.serial(4):
                T.copy(A[k, :], tile)
                T.barrier_arrive(ready[1 if fault == "second barrier" else 0])
                T.barrier_wait(ready[0], k if fault == "phase" else k % 2)
                T.copy(tile, B[k, :])

    return main


@pytest.mark.parametrize(
    ("kernel", "shape"),
    [
        (loaded_by_threads, (5, 32, 64)),
        (stored_by_the_copy_engine, (2, 64, 64)),
        (drained_by_one_thread, (2, 64, 64)),
        (waited_parity, (4, 64)),
    ],
)
def test_copies_in_groups_and_parities_are_quiet_where_they_are_waited_for(clean, normal, kernel, shape):
    a = normal(*shape, dtype="float32" if kernel is waited_parity else "float16")
    assert np.array_equal(clean(kernel(), {"A": a}), a)


@pytest.mark.parametrize(
    ("kernel", "fault", "kind", "message"),
    [
        (
            loaded_by_threads,
            "never waited for",
            "in-flight",
            "read while an asynchronous copy (cp.async) that writes it",
        ),
        (loaded_by_threads, "one group too many", "in-flight", "ptx_wait_group comes first"),
        (stored_by_the_copy_engine, "refilled", "in-flight", "tile[0, 0] is written while a bulk store that reads it"),
        (
            stored_by_the_copy_engine,
            "left behind",
            "in-flight",
            "the block ends while a bulk store may still read tile",
        ),
        (drained_by_one_thread, "no barrier", "in-flight", "tile[0, 0] is written while a bulk store that reads it"),
        (waited_parity, "phase", "barrier-misuse", "the parity 2, which is neither 0 nor 1"),
        (waited_parity, "second barrier", "out-of-bounds", "ready[1] does not exist: there is 1 of them"),
    ],
)
def test_groups_parities_and_barriers_that_are_wrong_are_found(kernel, fault, kind, message):
    shape = {"loaded_by_threads": (5, 32, 64), "waited_parity": (4, 64)}.get(kernel.__name__, (2, 64, 64))
    errors = run(kernel(fault), {"A": shape}).errors
    assert {error.kind for error in errors} <= {kind, "unwritten-output"}
    assert any(message in error.message for error in errors), errors


def test_a_load_that_nothing_waits_for_is_found_at_the_end_of_the_block():
    @T.prim_func
    def main(A: T.Tensor((2, 64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_shared((2, 64, 64), "float16")
            ready = T.alloc_barrier([1, 1])
            for k in T.serial(2):
                T.tma_copy(A[k, :, :], tile[k, :, :], barrier=ready[k], annotations=ARRIVES)
            T.barrier_wait(ready[0], 0)
            T.copy(tile[0, :, :], B)

    (found,) = run(main, {"A": (2, 64, 64)}).errors
    assert found.kind == "in-flight"
    assert "the block ends while a bulk copy may still write tile: nothing waits for it" in found.message


def test_a_block_that_cannot_go_on_is_reported_without_diagnostics_too():
    assert [finding.kind for finding in run(waits_alone(), {}, diagnostics=False).errors] == ["deadlock"]


def test_a_slice_of_other_extents_than_its_tile_is_noted(normal):
    @T.prim_func
    def main(A: T.Tensor((64, 32), "float32"), B: T.Tensor((64, 32), "float32")):
        with T.Kernel(4, threads=64) as b:
            tile = T.alloc_fragment((16, 32), "float32")
            T.copy(A[b * 16 : b * 16 + 15, 0:32], tile)
            T.copy(tile, B[b * 16, 0])

    (found,) = run(main, {"A": normal(64, 32)}).findings
    assert (found.kind, found.severity) == ("extents", "note")
    assert "the slice of A has the extents (15, 32), and (16, 32) are copied" in found.message


def multiplied_by_a_role(threads):
    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16"), W: T.Tensor((32, 64), "float16"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256) as _:
            a = T.alloc_shared((64, 32), "float16")
            w = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            tx = T.get_thread_binding()
            T.copy(A, a)
            T.copy(W, w)
            if tx < threads:
                T.wgmma_gemm(a, w, acc, clear_accum=True)
                T.wait_wgmma(0)
                T.copy(acc, B)

    return main


@pytest.mark.parametrize(("threads", "kinds"), [(128, set()), (129, {"partial-warp"}), (96, {"partial-warp"})])
def test_a_product_takes_whole_warp_groups(threads, kinds):
    found = run(multiplied_by_a_role(threads), {"A": (64, 32), "W": (32, 64)}).errors
    assert {finding.kind for finding in found} == kinds
    assert all("whole warp groups of 128 threads" in finding.message for finding in found)
