"""Code in terms of thread indices: SIMT loads and stores, warp votes, shuffles, per-thread memory."""

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import UnsupportedError, run


def saxpy(n):
    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32"), a: T.float32, Z: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 64), threads=64) as b:
            tx = T.get_thread_binding()
            i = b * 64 + tx
            if i < n:
                Z[i] = a * X[i] + Y[i]

    return main


def reversed_through_shared():
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128) as _:
            tx = T.get_thread_binding()
            tile = T.alloc_shared((128,), "float32")
            tile[tx] = A[tx]
            T.sync_threads()
            B[tx] = tile[127 - tx]

    return main


def three_thread_axes():
    @T.prim_func
    def main(B: T.Tensor((2, 4, 8), "int32")):
        with T.Kernel(1, threads=(8, 4, 2)) as _:
            tx = T.get_thread_binding(0)
            ty = T.get_thread_binding(1)
            tz = T.get_thread_binding(2)
            B[tz, ty, tx] = tx + 10 * ty + 100 * tz

    return main


def registers_of_a_thread():
    """Each thread loads eight elements, sorts pairs in its registers and stores them."""

    @T.prim_func
    def main(A: T.Tensor((64, 8), "float32"), B: T.Tensor((64, 8), "float32")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            own = T.alloc_local((8,), "float32")
            for v in T.vectorized(8):
                own[v] = A[tx, v]
            for k in T.serial(4):
                if own[2 * k] > own[2 * k + 1]:
                    low = own[2 * k + 1]
                    own[2 * k + 1] = own[2 * k]
                    own[2 * k] = low
            for v in T.vectorized(8):
                B[tx, v] = own[v]

    return main


def indexed_registers():
    """A register array indexed by a value of the thread."""

    @T.prim_func
    def main(A: T.Tensor((32,), "int32"), B: T.Tensor((32, 4), "int32")):
        with T.Kernel(1, threads=32) as _:
            tx = T.get_thread_binding()
            counts = T.alloc_local((4,), "int32")
            for k in T.serial(4):
                counts[k] = 0
            counts[A[tx]] = counts[A[tx]] + tx
            for k in T.serial(4):
                B[tx, k] = counts[k]

    return main


def warp_sum():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            x = T.alloc_var("float32")
            x = A[tx]
            for k in T.serial(5):
                x = x + T.shfl_xor(x, 16 >> k)
            B[tx] = x
            C[tx] = T.warp_reduce_max(A[tx])

    return main


def shuffles():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((3, 64), "int32")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            B[0, tx] = T.shfl_up(A[tx], 1)
            B[1, tx] = T.shfl_down(A[tx], 2)
            B[2, tx] = T.shfl_sync(A[tx], 5)

    return main


def votes():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((3, 64), "int32"), C: T.Tensor((64,), "int64")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            B[0, tx] = T.any_sync(A[tx] > 2)
            B[1, tx] = T.all_sync(A[tx] > -2)
            B[2, tx] = T.syncthreads_count(A[tx] > 0)
            C[tx] = T.cast(T.ballot_sync(A[tx] > 0), "int64")

    return main


def places():
    @T.prim_func
    def main(B: T.Tensor((4, 256), "int32")):
        with T.Kernel(1, threads=256) as _:
            tx = T.get_thread_binding()
            B[0, tx] = T.get_lane_idx()
            B[1, tx] = T.get_warp_idx()
            B[2, tx] = T.get_warp_group_idx()
            B[3, tx] = 0
            if T.shuffle_elect(128):
                B[3, tx] = 1

    return main


def lane_bounds():
    """A trip count that differs between threads."""

    @T.prim_func
    def main(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32) as _:
            tx = T.get_thread_binding()
            total = T.alloc_var("float32", init=0.0)
            for k in T.serial(tx + 1):
                total = total + A[tx, k]
            B[tx] = total

    return main


def any_of_tile():
    @T.prim_func
    def main(A: T.Tensor((4, 32), "int32"), B: T.Tensor((4, 2), "int32")):
        with T.Kernel(4, threads=32) as b:
            tile = T.alloc_shared((32,), "int32")
            T.copy(A[b, 0:32], tile)
            B[b, 0] = T.cast(T.any_of(tile), "int32")
            B[b, 1] = T.cast(T.all_of(tile), "int32")

    return main


@pytest.mark.parametrize("n", [64, 100, 1])
def test_each_thread_stores_its_own_element(clean, normal, n):
    x, y = normal(n), normal(n)
    assert np.array_equal(clean(saxpy(n), {"X": x, "Y": y, "a": 2.0}), 2 * x + y)


def test_threads_exchange_through_shared_memory(clean, normal):
    a = normal(128)
    assert np.array_equal(clean(reversed_through_shared(), {"A": a}), a[::-1])


def test_a_block_has_up_to_three_thread_axes(clean):
    tz, ty, tx = np.mgrid[0:2, 0:4, 0:8]
    assert np.array_equal(clean(three_thread_axes(), {}), tx + 10 * ty + 100 * tz)


def test_every_thread_has_its_own_registers(clean, normal):
    a = normal(64, 8)
    assert np.array_equal(clean(registers_of_a_thread(), {"A": a}), np.sort(a.reshape(64, 4, 2), axis=2).reshape(64, 8))


def test_registers_may_be_indexed_by_a_value_of_the_thread(clean, rng):
    a = rng.integers(0, 4, 32).astype(np.int32)
    expected = np.zeros((32, 4), np.int32)
    expected[np.arange(32), a] = np.arange(32)
    assert np.array_equal(clean(indexed_registers(), {"A": a}), expected)


def test_a_butterfly_of_shuffles_sums_each_warp(clean, normal):
    a = normal(64)
    outputs = clean(warp_sum(), {"A": a})
    assert np.allclose(outputs["B"], a.reshape(2, 32).sum(1).repeat(32), rtol=1e-5)
    assert np.array_equal(outputs["C"], a.reshape(2, 32).max(1).repeat(32))


def test_shuffles_stay_within_their_warp(clean):
    a = np.arange(64, dtype=np.int32)
    lane = a % 32
    expected = [np.where(lane >= 1, a - 1, a), np.where(lane < 30, a + 2, a), a // 32 * 32 + 5]
    assert np.array_equal(clean(shuffles(), {"A": a}), np.stack(expected))


def test_votes_are_taken_by_warp_and_by_block(clean, normal):
    a = normal(64)
    warps = a.reshape(2, 32)
    outputs = clean(votes(), {"A": a})
    assert np.array_equal(outputs["B"][0], (warps > 2).any(1).repeat(32))
    assert np.array_equal(outputs["B"][1], (warps > -2).all(1).repeat(32))
    assert (outputs["B"][2] == (a > 0).sum()).all()
    masks = [(np.uint64(1) << np.flatnonzero(warp > 0).astype(np.uint64)).sum() for warp in warps]
    assert outputs["C"].tolist() == [int(mask) for mask in masks for _ in range(32)]


def test_lanes_warps_and_warp_groups_are_numbered(clean):
    t = np.arange(256)
    assert np.array_equal(clean(places(), {}), np.stack([t % 32, t // 32, t // 128, t % 128 == 0]))


def test_trip_counts_may_differ_between_threads(clean, normal):
    a = normal(32, 32)
    assert np.allclose(clean(lane_bounds(), {"A": a}), np.tril(a).sum(1), atol=1e-5)


def test_any_and_all_of_a_tile(clean):
    a = np.zeros((4, 32), np.int32)
    a[1, 7] = 1
    a[2] = 1
    assert clean(any_of_tile(), {"A": a}).tolist() == [[0, 0], [1, 0], [1, 1], [0, 0]]


def neighbours(fault=None, switched_off=True):
    """Threads read what a neighbour wrote, twice through one buffer; the kernel places its barriers itself."""

    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((2, 128), "float32")):
        if switched_off:
            T.annotate_pass_configs({"tl.disable_thread_storage_sync": True})
        with T.Kernel(1, threads=128) as _:
            tx = T.get_thread_binding()
            tile = T.alloc_shared((128,), "float32")
            tile[tx] = A[tx]
            if fault != "no barrier before the read":
                T.sync_threads()
            B[0, tx] = tile[(tx + 1) % 128]
            if fault != "no barrier before the write":
                T.sync_threads()
            tile[tx] = A[tx] * 2
            T.sync_threads()
            B[1, tx] = tile[127 - tx]

    return main


def within_warps(fault=None):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        T.annotate_pass_configs({"tl.disable_thread_storage_sync": True})
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            tile = T.alloc_shared((64,), "float32")
            tile[tx] = A[tx]
            T.sync_warp()
            if fault is None:
                B[tx] = tile[tx ^ 1]
            else:
                B[tx] = tile[tx ^ 32]

    return main


def test_barriers_between_threads_suffice(clean, normal):
    a = normal(128)
    assert np.array_equal(clean(neighbours(), {"A": a}), np.stack([np.roll(a, -1), 2 * a[::-1]]))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("no barrier before the read", "tile[1] is read by thread 0 with no barrier after thread 1, which wrote it"),
        (
            "no barrier before the write",
            "tile[0] is written by thread 0 with no barrier after thread 127, which read it",
        ),
    ],
)
def test_a_missing_barrier_between_threads_is_found(normal, fault, message):
    findings = run(neighbours(fault), {"A": normal(128)}).findings
    assert [finding.kind for finding in findings] == ["shared-race"]
    assert message in findings[0].message


def test_the_compiler_inserts_a_missing_barrier_unless_told_not_to(clean, normal):
    clean(neighbours("no barrier before the read", switched_off=False), {"A": normal(128)})


def test_sync_warp_orders_the_threads_of_a_warp_only(clean, normal):
    a = normal(64)
    assert np.array_equal(clean(within_warps(), {"A": a}), a.reshape(32, 2)[:, ::-1].reshape(64))
    findings = run(within_warps("across warps"), {"A": a}).findings
    assert [finding.kind for finding in findings] == ["shared-race"]


def unnamed_threads():
    """Says nothing of its threads: TileLang launches 128."""

    @T.prim_func
    def main(B: T.Tensor((2, 128), "int32")):
        with T.Kernel(2) as b:
            B[b, T.get_thread_binding()] = T.get_thread_binding() + b

    return main


def test_a_kernel_that_does_not_say_its_threads_has_128(clean):
    np.testing.assert_array_equal(clean(unnamed_threads(), {}), np.arange(128) + np.arange(2)[:, None])


def numbers_in_a_fragment():
    """A fragment that no tile operation names is an array of each thread's own: the compiler declares it so."""

    @T.prim_func
    def main(A: T.Tensor((4, 64), "int32"), B: T.Tensor((4, 64), "int32")):
        with T.Kernel(1, threads=64) as _:
            own = T.alloc_fragment([4], "int32")
            tx = T.get_thread_binding()
            for r in T.serial(4):
                own[r] = A[r, tx]
            for r in T.serial(4):
                if own[r] > 0:
                    B[r, tx] = own[3 - r]
                else:
                    B[r, tx] = own[r]

    return main


def bound_loop(extent=64):
    @T.prim_func
    def main(B: T.Tensor((2, 64), "int32")):
        with T.Kernel(1, threads=(64, 2)) as _:
            for tx in T.thread_binding(0, extent, thread="threadIdx.x"):
                B[T.get_thread_binding(1), tx] = tx

    return main


def test_a_fragment_that_no_tile_operation_names_belongs_to_each_thread(clean, rng):
    a = rng.integers(-9, 9, (4, 64), dtype=np.int32)
    np.testing.assert_array_equal(clean(numbers_in_a_fragment(), {"A": a}), np.where(a > 0, a[::-1], a))


def test_a_loop_may_be_bound_to_the_threads(clean):
    np.testing.assert_array_equal(clean(bound_loop(), {}), np.tile(np.arange(64), (2, 1)))


def test_a_loop_bound_to_another_number_of_threads_is_refused():
    with pytest.raises(UnsupportedError, match=r"T.thread_binding\(32, threadIdx.x\)` is no number of a thread"):
        run(bound_loop(32), {})


def shuffles_of_tvm():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((3, 64), "int32")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            B[0, tx] = T.tvm_warp_shuffle_up(0xFFFFFFFF, A[tx], 1, 32, 32)
            B[1, tx] = T.tvm_warp_shuffle_down(0xFFFFFFFF, A[tx], 2, 32, 32)
            B[2, tx] = T.tvm_warp_shuffle(0xFFFFFFFF, A[tx], (tx ^ 3) % 32, 32, 32)

    return main


def test_shuffles_in_tvms_form_stay_within_their_warp(clean, rng):
    a = rng.integers(0, 100, 64).astype(np.int32)
    warps = a.reshape(2, 32)
    up = np.concatenate([warps[:, :1], warps[:, :-1]], axis=1)
    down = np.concatenate([warps[:, 2:], warps[:, -2:]], axis=1)
    expected = np.stack([part.reshape(64) for part in (up, down, warps[:, np.arange(32) ^ 3])])
    assert np.array_equal(clean(shuffles_of_tvm(), {"A": a}), expected)
