"""Atomic operations on elements and regions, their return values, and the order that they give to blocks."""

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import UnsupportedError, run


def histogram(n, bins):
    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), H: T.Tensor((bins,), "int32")):
        with T.Kernel(1, threads=128) as _:
            for i in T.Parallel(bins):
                H[i] = 0
        with T.Kernel(T.ceildiv(n, 128), threads=128) as b:
            for i in T.Parallel(128):
                if b * 128 + i < n:
                    T.atomic_add(H[A[b * 128 + i]], 1)

    return main


def extremes():
    @T.prim_func
    def main(A: T.Tensor((8, 64), "float32"), low: T.Tensor((64,), "float32"), high: T.Tensor((64,), "float32")):
        with T.Kernel(8, threads=64) as b:
            for i in T.Parallel(64):
                T.atomic_max(high[i], A[b, i])
                T.atomic_min(low[i], A[b, i])

    return main


def regions(kind, dtype):
    update = getattr(T, f"atomic_{kind}")

    @T.prim_func
    def main(A: T.Tensor((4, 16, 32), dtype), B: T.Tensor((16, 32), dtype)):
        with T.Kernel(4, threads=128) as b:
            tile = T.alloc_fragment((16, 32), dtype)
            T.copy(A[b, :, :], tile)
            update(B[0, 0], tile)

    return main


def tickets():
    """Each thread takes a ticket: what the counter held before."""

    @T.prim_func
    def main(counter: T.Tensor((1,), "int32"), B: T.Tensor((2, 64), "int32")):
        with T.Kernel(2, threads=64) as b:
            tx = T.get_thread_binding()
            B[b, tx] = T.atomic_add(counter[0], 1, return_prev=True)

    return main


def last_block_sums(blocks):
    """Every block stores a partial sum; the one that comes last, by an atomic count, adds them up."""

    @T.prim_func
    def main(
        A: T.Tensor((blocks, 64), "float32"),
        partial: T.Tensor((blocks,), "float32"),
        count: T.Tensor((1,), "int32"),
        B: T.Tensor((1,), "float32"),
    ):
        with T.Kernel(blocks, threads=32) as b:
            tx = T.get_thread_binding()
            tile = T.alloc_fragment((64,), "float32")
            total = T.alloc_fragment((1,), "float32")
            before = T.alloc_shared((1,), "int32")
            T.copy(A[b, 0:64], tile)
            T.reduce_sum(tile, total, dim=0)
            partial[b] = total[0]
            if tx == 0:
                before[0] = T.atomic_add(count[0], 1, memory_order="acq_rel", return_prev=True)
            T.sync_threads()
            if before[0] == blocks - 1:
                together = T.alloc_var("float32", init=0.0)
                for other in T.serial(blocks):
                    together += partial[other]
                B[0] = together

    return main


def flags():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((1,), "int32"), C: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            T.atomic_or(B[0], A[tx])
            T.sync_threads()
            if tx == 0:
                T.atomic_store(C[0], T.atomic_load(B[0], memory_order="acquire") + 1, memory_order="release")

    return main


def shared_counts():
    @T.prim_func
    def main(A: T.Tensor((256,), "int32"), H: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=256) as _:
            counts = T.alloc_shared((16,), "int32")
            T.clear(counts)
            for i in T.Parallel(256):
                T.atomic_add(counts[A[i]], 1)
            T.copy(counts, H)

    return main


@pytest.mark.parametrize("n", [128, 1000])
def test_a_histogram_counts_every_element_once(clean, rng, n):
    a = rng.integers(0, 10, n).astype(np.int32)
    assert np.array_equal(clean(histogram(n, 10), {"A": a}), np.bincount(a, minlength=10))


def test_atomic_extremes_over_blocks(clean, normal):
    a = normal(8, 64)
    start = {"low": np.full(64, np.inf, np.float32), "high": np.full(64, -np.inf, np.float32)}
    outputs = clean(extremes(), {"A": a, **start})
    assert np.array_equal(outputs["high"], a.max(0))
    assert np.array_equal(outputs["low"], a.min(0))


@pytest.mark.parametrize("kind", ["add", "max", "min"])
def test_regions_are_updated_atomically(clean, normal, kind):
    a = normal(4, 16, 32)
    expected = {"add": a.sum(0), "max": np.maximum(a.max(0), 0), "min": np.minimum(a.min(0), 0)}[kind]
    got = clean(regions(kind, "float32"), {"A": a, "B": np.zeros((16, 32), np.float32)})
    assert np.allclose(got, expected, atol=1e-5)


def test_narrow_atomic_sums_round_each_time(clean, normal):
    a = normal(4, 16, 32, dtype="float16")
    expected = np.zeros((16, 32), np.float16)
    for part in a:
        expected = (expected.astype(np.float32) + part.astype(np.float32)).astype(np.float16)
    assert np.array_equal(clean(regions("add", "float16"), {"A": a, "B": np.zeros((16, 32), np.float16)}), expected)


def test_an_atomic_returns_what_it_found(clean):
    outputs = clean(tickets(), {"counter": np.zeros(1, np.int32)})
    assert sorted(outputs["B"].reshape(-1).tolist()) == list(range(128))
    assert outputs["counter"][0] == 128


def test_the_last_block_may_read_what_the_others_wrote(clean, normal):
    a = normal(6, 64)
    outputs = clean(last_block_sums(6), {"A": a, "count": np.zeros(1, np.int32), "partial": np.zeros(6, np.float32)})
    assert np.allclose(outputs["B"], a.sum(), atol=1e-4)


def test_atomic_or_load_and_store(clean):
    a = (1 << (np.arange(64) % 13)).astype(np.int32)
    outputs = clean(flags(), {"A": a, "B": np.zeros(1, np.int32)})
    assert outputs["B"][0] == 2**13 - 1
    assert outputs["C"][0] == 2**13


def test_atomics_on_shared_memory(clean, rng):
    a = rng.integers(0, 16, 256).astype(np.int32)
    assert np.array_equal(clean(shared_counts(), {"A": a}), np.bincount(a, minlength=16))


def registers_added(differ=False):
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(3, threads=64) as _:
            own = T.alloc_local((4,), "float32")
            for i in T.serial(4):
                own[i] = A[i] + (T.get_thread_binding() if differ else 0)
            T.atomic_add(B, own)

    return main


def test_registers_that_all_threads_agree_on_are_added_once_for_each_block(clean, normal):
    a = normal(4)
    b = np.zeros(4, np.float32)
    assert np.allclose(clean(registers_added(), {"A": a, "B": b}), 3 * a, atol=1e-6)


def test_registers_that_differ_are_refused_as_operands_of_a_tile_atomic(normal):
    with pytest.raises(UnsupportedError, match="the threads hold different values of own"):
        run(registers_added(differ=True), {"A": normal(4), "B": np.zeros(4, np.float32)})
