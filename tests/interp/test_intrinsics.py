"""The rarer intrinsics: each against numpy, in one kernel a group."""

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import run

UNIT = {
    "exp10": (T.exp10, lambda x: 10.0**x),
    "asin": (T.asin, np.arcsin),
    "acos": (T.acos, np.arccos),
    "atanh": (T.atanh, np.arctanh),
    "acosh": (lambda x: T.acosh(x + 2), lambda x: np.arccosh(x + 2)),
    "nearbyint": (lambda x: T.nearbyint(x * 10), lambda x: np.rint(x * 10)),
    "log10": (lambda x: T.__log10(T.abs(x)), lambda x: np.log10(np.abs(x))),
    "log2": (lambda x: T.__log2(T.abs(x)), lambda x: np.log2(np.abs(x))),
    "tan": (T.__tan, np.tan),
    "rcp": (lambda x: T.fast_rcp(x + 2), lambda x: 1 / (x + 2)),
    "ieee_add": (lambda x: T.ieee_add(x, x), lambda x: 2 * x),
    "ieee_sub": (lambda x: T.ieee_sub(x, T.float32(1)), lambda x: x - 1),
    "ieee_fdiv": (lambda x: T.ieee_fdiv(x, x + 2), lambda x: x / (x + 2)),
    "ieee_frcp": (lambda x: T.ieee_frcp(x + 2), lambda x: 1 / (x + 2)),
    "ieee_frsqrt": (lambda x: T.ieee_frsqrt(x + 2), lambda x: 1 / np.sqrt(x + 2)),
    "isnan": (lambda x: T.if_then_else(T.isnan(T.log(x)), 1.0, 0.0), lambda x: x < 0),
    "isinf": (lambda x: T.if_then_else(T.isinf(T.exp(x * 1000)), 1.0, 0.0), lambda x: x > 0.0888),
    "isfinite": (lambda x: T.if_then_else(T.isfinite(T.sqrt(x)), 1.0, 0.0), lambda x: x >= 0),
}


@pytest.mark.parametrize("name", UNIT)
def test_a_rare_function_agrees_with_numpy(name, rng):
    function, reference = UNIT[name]
    a = rng.uniform(-0.9, 0.9, 64).astype(np.float32)

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                B[i] = function(A[i])

    got = run(main, {"A": a}).outputs["B"]
    assert np.allclose(got, reference(a.astype(np.float64)), rtol=1e-5, atol=1e-6)


def bits_of_integers():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((2, 64), "int32")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            B[0, tx] = T.__ffs(A[tx])
            B[1, tx] = T.__ldg(A[tx])

    return main


def test_first_set_bits_and_read_only_loads(clean, rng):
    a = rng.integers(0, 1000, 64).astype(np.int32) * 8
    expected = [(int(v) & -int(v)).bit_length() for v in a]
    got = clean(bits_of_integers(), {"A": a})
    assert got[0].tolist() == expected
    assert np.array_equal(got[1], a)


def warp_reductions():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((5, 64), "int32"), C: T.Tensor((2, 64), "int32")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            B[0, tx] = T.warp_reduce_sum(A[tx])
            B[1, tx] = T.warp_reduce_min(A[tx])
            B[2, tx] = T.warp_reduce_bitand(A[tx])
            B[3, tx] = T.warp_reduce_bitor(A[tx])
            B[4, tx] = T.warp_reduce_max(A[tx])
            C[0, tx] = T.syncthreads_and(A[tx] > 0)
            C[1, tx] = T.syncthreads_or(A[tx] > 990)

    return main


def test_warp_and_block_reductions(clean, rng):
    a = rng.integers(1, 1000, 64).astype(np.int32)
    warps = a.reshape(2, 32)
    outputs = clean(warp_reductions(), {"A": a})
    rows = [np.add, np.minimum, np.bitwise_and, np.bitwise_or, np.maximum]
    assert np.array_equal(outputs["B"], np.stack([row.reduce(warps, axis=1).repeat(32) for row in rows]))
    assert outputs["C"][:, 0].tolist() == [1, int((a > 990).any())]


def masks():
    @T.prim_func
    def main(B: T.Tensor((2, 64), "int64")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            B[0, tx] = 0
            B[1, tx] = T.cast(T.ballot(tx % 3 == 0), "int64")
            if tx % 2 == 0:
                B[0, tx] = T.cast(T.activemask(), "int64")

    return main


def test_the_active_mask_holds_the_threads_of_a_branch(clean):
    got = clean(masks(), {})
    even = sum(1 << lane for lane in range(0, 32, 2))
    assert got[0].tolist() == [even if thread % 2 == 0 else 0 for thread in range(64)]
    first = sum(1 << lane for lane in range(32) if lane % 3 == 0)
    second = sum(1 << (thread - 32) for thread in range(32, 64) if thread % 3 == 0)
    assert got[1].tolist() == [first] * 32 + [second] * 32


def vector_atomics(width):
    add = {2: T.atomic_addx2, 4: T.atomic_addx4}[width]

    @T.prim_func
    def main(A: T.Tensor((8, 64), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(8, threads=64 // width) as b:
            for i in T.Parallel(64 // width):
                add(B[i * width], A[b, i * width])

    return main


@pytest.mark.parametrize("width", [2, 4])
def test_vector_atomics_add_neighbouring_elements(clean, normal, width):
    a = normal(8, 64)
    assert np.allclose(clean(vector_atomics(width), {"A": a, "B": np.zeros(64, np.float32)}), a.sum(0), atol=1e-5)


def running_extremes():
    @T.prim_func
    def main(
        A: T.Tensor((64,), "int32"),
        high: T.Tensor((1,), "int32"),
        low: T.Tensor((1,), "int32"),
        B: T.Tensor((2, 64), "int32"),
    ):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            B[0, tx] = T.atomic_max(high[0], A[tx], return_prev=True)
            B[1, tx] = T.atomic_min(low[0], A[tx], return_prev=True)

    return main


def test_atomic_extremes_return_what_they_found(clean, rng):
    a = rng.integers(-1000, 1000, 64).astype(np.int32)
    outputs = clean(
        running_extremes(), {"A": a, "high": np.full(1, -9999, np.int32), "low": np.full(1, 9999, np.int32)}
    )
    before = np.concatenate([[-9999], np.maximum.accumulate(a)[:-1]])
    assert np.array_equal(outputs["B"][0], before)
    assert outputs["high"][0] == a.max()
    assert outputs["low"][0] == a.min()


def hints(expects_by_hand=False):
    """``T.tma_copy`` expects its own bytes at the barrier; to expect them by hand too waits for bytes that never come."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_shared((64, 64), "float16")
            loaded = T.alloc_barrier(1)
            T.annotate_min_blocks_per_sm(1)
            T.annotate_l2_hit_ratio({A: 0.5})
            T.pdl_sync()
            tx = T.get_thread_binding()
            if expects_by_hand:
                if tx == 0:
                    T.mbarrier_expect_tx(loaded, 8192)
            T.tma_copy(A, tile, barrier=loaded)
            if tx == 0:
                T.barrier_arrive(loaded)
            T.barrier_wait(loaded, 0)
            T.fence_proxy_async()
            T.tma_copy(tile, B)
            T.tma_store_wait(0)
            T.pdl_trigger()

    return main


def test_hints_and_fences_change_no_value(clean, normal):
    a = normal(64, 64, dtype="float16")
    assert np.array_equal(clean(hints(), {"A": a}), a)


def test_bytes_that_no_copy_brings_are_a_deadlock(normal):
    findings = run(hints(expects_by_hand=True), {"A": normal(64, 64, dtype="float16")}).errors
    assert [finding.kind for finding in findings] == ["deadlock"]
    assert "0 of 1 arrivals missing, and 8192 bytes that were expected by hand" in str(findings[0])
