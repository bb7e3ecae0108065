"""``cp.async`` by threads and by tiles, and what happens to a tile that is touched before its group has landed."""

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import run


def gathered_rows(wait=True, rows=64):
    """Each thread copies one row, whose number it looks up, eight elements at a time."""

    @T.prim_func
    def main(A: T.Tensor((rows, 64), "float16"), Rows: T.Tensor((64,), "int32"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=64) as _:
            tile = T.alloc_shared((64, 64), "float16")
            tx = T.get_thread_binding()
            for u in T.serial(8):
                T.ptx_cp_async(T.access_ptr(tile[tx, u * 8], "w", 8), T.access_ptr(A[Rows[tx], u * 8], "r", 8), 8)
            T.ptx_commit_group()
            if wait:
                T.ptx_wait_group(0)
            T.sync_threads()
            T.copy(tile, B)

    return main


def in_turns(allowed):
    """Two tiles in flight, the older one read while the newer may still land."""

    @T.prim_func
    def main(A: T.Tensor((2, 32, 64), "float16"), B: T.Tensor((2, 32, 64), "float16")):
        with T.Kernel(1, threads=128) as _:
            tiles = T.alloc_shared((2, 32, 64), "float16")
            T.async_copy(A[0, 0, 0], tiles[0, :, :])
            T.async_copy(A[1, 0, 0], tiles[1, :, :])
            T.ptx_wait_group(allowed)
            T.sync_threads()
            T.copy(tiles[0, :, :], B[0, 0, 0])
            T.ptx_wait_group(0)
            T.sync_threads()
            T.copy(tiles[1, :, :], B[1, 0, 0])

    return main


def producer(arrives=True):
    """One warp group fetches with ``cp.async`` and lets an mbarrier follow its copies; the other reads."""

    @T.prim_func
    def main(A: T.Tensor((4, 128, 8), "float32"), B: T.Tensor((4, 128, 8), "float32")):
        with T.Kernel(1, threads=256) as _:
            tile = T.alloc_shared((128, 8), "float32")
            ready = T.alloc_barrier(arrive_count=128)
            free = T.alloc_barrier(arrive_count=128)
            tx = T.get_thread_binding()
            if tx < 128:
                for k in T.serial(4):
                    T.barrier_wait(ready, k % 2)
                    T.copy(tile, B[k, 0, 0])
                    T.barrier_arrive(free)
            else:
                for k in T.serial(4):
                    T.barrier_wait(free, (k % 2) ^ 1)
                    for u in T.serial(2):
                        T.ptx_cp_async(
                            T.access_ptr(tile[tx - 128, u * 4], "w", 4), T.access_ptr(A[k, tx - 128, u * 4], "r", 4), 4
                        )
                    if arrives:
                        T.cp_async_barrier_noinc(ready)
                    else:
                        T.barrier_arrive(ready)

    return main


def test_each_thread_copies_a_run_of_elements(clean, normal, rng):
    a, rows = normal(64, 64, dtype="float16"), rng.permutation(64).astype(np.int32)
    np.testing.assert_array_equal(clean(gathered_rows(), {"A": a, "Rows": rows}), a[rows])


def test_a_run_from_outside_global_memory_is_zeros(clean, normal):
    a, rows = normal(40, 64, dtype="float16"), np.arange(-4, 60, dtype=np.int32)
    got = clean(gathered_rows(rows=40), {"A": a, "Rows": rows})
    np.testing.assert_array_equal(got, np.vstack([np.zeros((4, 64)), a, np.zeros((20, 64))]))


def test_a_tile_that_is_read_before_its_group_is_waited_for_is_found(normal):
    result = run(
        gathered_rows(wait=False), {"A": normal(64, 64, dtype="float16"), "Rows": np.arange(64, dtype=np.int32)}
    )
    assert {finding.kind for finding in result.findings} == {"in-flight"}
    assert "an asynchronous copy (cp.async) that writes it may still be in flight" in result.findings[0].message


def test_waiting_for_all_but_one_group_leaves_the_last_in_flight(clean, normal):
    a = normal(2, 32, 64, dtype="float16")
    np.testing.assert_array_equal(clean(in_turns(1), {"A": a}), a)
    early = run(in_turns(2), {"A": a}).findings
    assert [finding.kind for finding in early] == ["in-flight"]
    assert early[0].message.startswith("tiles[0, 0, 0] is read")


def test_a_barrier_may_follow_the_copies_of_its_arrivers(clean, normal):
    a = normal(4, 128, 8)
    np.testing.assert_array_equal(clean(producer(), {"A": a}), a)


def test_an_arrival_that_does_not_follow_the_copies_is_found(normal):
    result = run(producer(arrives=False), {"A": normal(4, 128, 8)})
    assert "in-flight" in {finding.kind for finding in result.findings}


@pytest.mark.parametrize("predicate", [0, 1])
def test_a_predicate_chooses_between_the_elements_and_zeros(clean, normal, predicate):
    @T.prim_func
    def main(A: T.Tensor((32, 8), "float16"), B: T.Tensor((32, 8), "float16")):
        with T.Kernel(1, threads=32) as _:
            tile = T.alloc_shared((32, 8), "float16")
            tx = T.get_thread_binding()
            T.ptx_cp_async(T.access_ptr(tile[tx, 0], "w", 8), T.access_ptr(A[tx, 0], "r", 8), 8, tx % 2 == predicate)
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.sync_threads()
            T.copy(tile, B)

    a = normal(32, 8, dtype="float16")
    kept = (np.arange(32) % 2 == predicate)[:, None]
    np.testing.assert_array_equal(clean(main, {"A": a}), np.where(kept, a, 0))
