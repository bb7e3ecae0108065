"""Warp-specialised kernels: roles, barriers, asynchronous copies and products, and what goes wrong with them."""

from __future__ import annotations

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import UnsupportedError, run

ARRIVES = {"emit_arrive": 1}


def producer_consumer(fault=None, blocks=6, stages=2):
    """A warp loads tiles into a ring; a warp group adds them up. Full and empty barriers guard each stage."""

    @T.prim_func
    def main(A: T.Tensor((blocks, 32, 64), "float16"), B: T.Tensor((32, 64), "float32")):
        with T.Kernel(1, threads=256) as _:
            ring = T.alloc_shared((stages, 32, 64), "float16")
            total = T.alloc_fragment((32, 64), "float32")
            full = T.alloc_barrier([1] * stages)
            empty = T.alloc_barrier([128] * stages)
            tx = T.get_thread_binding()
            if tx < 128:
                T.clear(total)
                for k in T.serial(blocks):
                    if fault != "no wait for the load":
                        T.barrier_wait(full[k % stages], (k // stages) % 2)
                    for i, j in T.Parallel(32, 64):
                        total[i, j] += ring[k % stages, i, j]
                    if fault != "no release of the stage":
                        T.barrier_arrive(empty[k % stages])
                T.copy(total, B)
            else:
                for k in T.serial(blocks):
                    if fault != "no wait for the release":
                        parity = ((k // stages) % 2) ^ (0 if fault == "wrong parity" else 1)
                        T.barrier_wait(empty[k % stages], parity)
                    T.tma_copy(A[k, :, :], ring[k % stages, :, :], barrier=full[k % stages], annotations=ARRIVES)

    return main


def separate_branches(ordered_by_the_compiler=False):
    """Two branches one after the other, each waiting for the other: they run at the same time, if no barrier parts them."""

    @T.prim_func
    def main(A: T.Tensor((4, 64), "float32"), B: T.Tensor((4, 64), "float32")):
        T.annotate_pass_configs({"tl.disable_thread_storage_sync": not ordered_by_the_compiler})
        with T.Kernel(1, threads=256) as _:
            tile = T.alloc_shared((64,), "float32")
            full = T.alloc_barrier(128)
            empty = T.alloc_barrier(128)
            tx = T.get_thread_binding()
            if tx < 128:
                for k in T.serial(4):
                    T.barrier_wait(empty, (k + 1) % 2)
                    T.copy(A[k, 0:64], tile)
                    T.barrier_arrive(full)
            if tx >= 128:
                for k in T.serial(4):
                    T.barrier_wait(full, k % 2)
                    T.copy(tile, B[k, 0:64])
                    T.barrier_arrive(empty)

    return main


def three_roles():
    """Two consumers with an accumulator each, and a producer for both."""

    @T.prim_func
    def main(A: T.Tensor((4, 64, 32), "float16"), W: T.Tensor((32, 128), "float16"), B: T.Tensor((64, 128), "float32")):
        with T.Kernel(1, threads=384) as _:
            a = T.alloc_shared((2, 64, 32), "float16")
            w = T.alloc_shared((32, 128), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            loaded = T.alloc_barrier([1, 1])
            weights = T.alloc_barrier(1)
            free = T.alloc_barrier([256, 256])
            tx = T.get_thread_binding()
            if tx < 256:
                T.barrier_wait(weights, 0)
                if tx < 128:
                    T.clear(acc)
                    for k in T.serial(4):
                        T.barrier_wait(loaded[k % 2], (k // 2) % 2)
                        T.wgmma_gemm(a[k % 2, :, :], w[:, 0:64], acc)
                        T.wait_wgmma(0)
                        T.barrier_arrive(free[k % 2])
                    T.copy(acc, B[:, 0:64])
                else:
                    right = T.alloc_fragment((64, 64), "float32")
                    T.clear(right)
                    for k in T.serial(4):
                        T.barrier_wait(loaded[k % 2], (k // 2) % 2)
                        T.wgmma_gemm(a[k % 2, :, :], w[:, 64:128], right)
                        T.wait_wgmma(0)
                        T.barrier_arrive(free[k % 2])
                    T.copy(right, B[:, 64:128])
            else:
                T.tma_copy(W, w, barrier=weights, annotations=ARRIVES)
                for k in T.serial(4):
                    T.barrier_wait(free[k % 2], (k // 2 + 1) % 2)
                    T.tma_copy(A[k, :, :], a[k % 2, :, :], barrier=loaded[k % 2], annotations=ARRIVES)

    return main


def ping_pong(fault=None):
    """Two roles exchange a tile through named barriers, one arriving and one waiting."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        T.annotate_pass_configs({"tl.disable_thread_storage_sync": True})
        with T.Kernel(1, threads=256) as _:
            tile = T.alloc_shared((64,), "float32")
            mine = T.alloc_fragment((64,), "float32")
            yours = T.alloc_fragment((64,), "float32")
            tx = T.get_thread_binding()
            if tx < 128:
                T.copy(A, mine)
                for _round in T.serial(3):
                    T.copy(mine, tile)
                    T.named_barrier_arrive(8, 256 if fault != "wrong count" else 384)
                    if fault == "arrives twice":
                        T.named_barrier_arrive(8, 256)
                    if fault != "no second barrier":
                        T.sync_threads(9, 256)
                    T.copy(tile, mine)
                T.copy(mine, B)
            else:
                for _round in T.serial(3):
                    T.sync_threads(8, 256)
                    T.copy(tile, yours)
                    for i in T.Parallel(64):
                        yours[i] = yours[i] * 2
                    T.copy(yours, tile)
                    if fault != "no second barrier":
                        T.named_barrier_arrive(9, 256)

    return main


def products_in_flight(fault=None):
    """A ring of two operand tiles: a tile is refilled only after the product that read it."""

    @T.prim_func
    def main(A: T.Tensor((4, 64, 32), "float16"), W: T.Tensor((32, 64), "float16"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_shared((2, 64, 32), "float16")
            w = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.copy(W, w)
            T.clear(acc)
            for k in T.serial(4):
                if fault != "refilled in flight":
                    T.wait_wgmma(1)
                T.copy(A[k, :, :], a[k % 2, :, :])
                T.wgmma_gemm(a[k % 2, :, :], w, acc)
            if fault != "read in flight":
                T.wait_wgmma(0)
            T.copy(acc, B)

    return main


def voted_rescale():
    """Warps whose rows all have the factor one skip the multiplication."""

    @T.prim_func
    def main(A: T.Tensor((64, 32), "float32"), factors: T.Tensor((64,), "float32"), B: T.Tensor((64, 32), "float32")):
        with T.Kernel(1, threads=128) as _:
            tx = T.get_thread_binding()
            tile = T.alloc_fragment((64, 32), "float32")
            shared = T.alloc_shared((64,), "float32")
            factor = T.alloc_fragment((64,), "float32")
            T.copy(A, tile)
            T.copy(factors, shared)
            T.copy(shared, factor)
            if T.any_sync(shared[tx // 32 * 16 + tx % 16] != 1.0) != 0:
                for i, j in T.Parallel(64, 32):
                    tile[i, j] *= factor[i]
            T.copy(tile, B)

    return main


def wrong_arrive_count():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_shared((64,), "float32")
            ready = T.alloc_barrier(1)
            T.copy(A, tile)
            T.barrier_arrive(ready)
            T.copy(tile, B)

    return main


def waits_alone():
    @T.prim_func
    def main(B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128) as _:
            ready = T.alloc_barrier(1)
            T.barrier_wait(ready, 0)
            for i in T.Parallel(64):
                B[i] = 1.0

    return main


def test_a_ring_of_stages_carries_every_tile(clean, normal):
    a = normal(6, 32, 64, dtype="float16")
    assert np.allclose(clean(producer_consumer(), {"A": a}), a.astype(np.float32).sum(0), atol=1e-5)


@pytest.mark.parametrize("blocks", [1, 2, 3, 7])
def test_a_ring_works_for_any_trip_count(clean, normal, blocks):
    a = normal(blocks, 32, 64, dtype="float16")
    assert np.allclose(clean(producer_consumer(blocks=blocks), {"A": a}), a.astype(np.float32).sum(0), atol=1e-5)


def test_branches_that_wait_for_each_other_run_at_the_same_time(clean, normal):
    a = normal(4, 64)
    assert np.array_equal(clean(separate_branches(), {"A": a}), a)


def test_a_barrier_of_the_compiler_between_branches_that_wait_for_each_other_is_a_deadlock(normal):
    (finding,) = run(separate_branches(ordered_by_the_compiler=True), {"A": normal(4, 64)}).findings
    assert finding.kind == "deadlock"
    assert "wait for the barrier that TileLang places before this branch" in str(finding)
    assert "tile is written in the branch before and read in this one" in str(finding)


def test_roles_within_roles_keep_their_own_accumulators(clean, normal):
    a, w = normal(4, 64, 32, dtype="float16"), normal(32, 128, dtype="float16")
    expected = a.astype(np.float64).sum(0) @ w.astype(np.float64)
    assert np.abs(clean(three_roles(), {"A": a, "W": w}) - expected).max() <= 1e-4


def test_named_barriers_with_arrive_and_wait(clean, normal):
    a = normal(64)
    assert np.array_equal(clean(ping_pong(), {"A": a}), a * 8)


def test_products_are_waited_for_before_their_operands_are_refilled(clean, normal):
    a, w = normal(4, 64, 32, dtype="float16"), normal(32, 64, dtype="float16")
    expected = a.astype(np.float64).sum(0) @ w.astype(np.float64)
    assert np.abs(clean(products_in_flight(), {"A": a, "W": w}) - expected).max() <= 1e-4


def test_warps_that_vote_differently_execute_a_tile_operation_apart(clean, normal):
    factors = np.ones(64, np.float32)
    factors[20:24] = 3
    a = normal(64, 32)
    assert np.array_equal(clean(voted_rescale(), {"A": a, "factors": factors}), a * factors[:, None])


RING = {"A": np.random.default_rng(5).standard_normal((6, 32, 64)).astype(np.float16)}
FAULTS = [
    (
        producer_consumer,
        "no wait for the load",
        RING,
        "uninitialised-read",
        "ring[0, 0, 0] (shared.dyn) is read before",
    ),
    (producer_consumer, "no release of the stage", RING, "deadlock", "wait for empty[0] to pass parity 0"),
    (producer_consumer, "no wait for the release", RING, "in-flight", "ring[0, 0, 0] is written while a bulk copy"),
    (producer_consumer, "wrong parity", RING, "deadlock", "threads 0 to 127 wait for full[0]"),
    (ping_pong, "no second barrier", {"A": RING["A"][0, 0].astype(np.float32)}, "shared-race", "tile[0] is"),
    (ping_pong, "arrives twice", {"A": RING["A"][0, 0].astype(np.float32)}, "barrier-misuse", "a second time"),
    (ping_pong, "wrong count", {"A": RING["A"][0, 0].astype(np.float32)}, "barrier-misuse", "count of 256 while"),
]
OPERANDS = {"A": RING["A"][:4, :, :32].repeat(2, 1), "W": RING["A"][0]}
FAULTS += [
    (
        products_in_flight,
        "refilled in flight",
        OPERANDS,
        "in-flight",
        "written while a warp-group product that reads it",
    ),
    (products_in_flight, "read in flight", OPERANDS, "in-flight", "acc is read while a warp-group product"),
]


@pytest.mark.parametrize(("kernel", "fault", "inputs", "kind", "message"), FAULTS, ids=[row[1] for row in FAULTS])
def test_a_broken_protocol_is_found(kernel, fault, inputs, kind, message):
    findings = run(kernel(fault), inputs).findings
    found = [finding for finding in findings if finding.kind == kind]
    assert found, [str(finding) for finding in findings]
    assert any(message in finding.message for finding in found), [finding.message for finding in found]


def test_more_arrivals_than_a_barrier_counts_are_found(normal):
    findings = run(wrong_arrive_count(), {"A": normal(64)}).findings
    assert [finding.kind for finding in findings] == ["barrier-misuse"]
    assert "128 threads while it waits for 1" in findings[0].message


def test_a_wait_that_nothing_ends_is_a_deadlock_not_a_hang():
    kinds = [finding.kind for finding in run(waits_alone(), {}).findings]
    assert kinds == ["deadlock"]


def tile_operation_after_a_return():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128) as _:
            tx = T.get_thread_binding()
            if tx >= 64:
                T.thread_return()
            T.copy(A, B)

    return main


def test_a_tile_operation_that_only_some_threads_reach_is_refused(normal):
    with pytest.raises(UnsupportedError, match="reached by some threads of a role only"):
        run(tile_operation_after_a_return(), {"A": normal(64)})


def named_warp_groups():
    """``T.ws`` names the warp group that carries out each part."""

    @T.prim_func
    def main(A: T.Tensor((4, 64, 64), "float16"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256) as _:
            tile = T.alloc_shared((64, 64), "float16")
            total = T.alloc_fragment((64, 64), "float32")
            ready, free = T.alloc_barrier(arrive_count=128), T.alloc_barrier(arrive_count=128)
            with T.ws(1):
                T.clear(total)
            for k in T.serial(4):
                with T.ws(0):
                    T.barrier_wait(free, (k % 2) ^ 1)
                    T.tma_copy(A[k, 0:64, 0:64], tile, barrier=ready)
                    T.barrier_arrive(ready)
                with T.ws(1):
                    T.barrier_wait(ready, k % 2)
                    for i, j in T.Parallel(64, 64):
                        total[i, j] += tile[i, j]
                    T.barrier_arrive(free)
            with T.ws(1):
                T.copy(total, B)

    return main


def test_warp_groups_may_be_named(clean, normal):
    a = normal(4, 64, 64, dtype="float16")
    np.testing.assert_allclose(clean(named_warp_groups(), {"A": a}), a.astype(np.float32).sum(0), rtol=1e-6)
