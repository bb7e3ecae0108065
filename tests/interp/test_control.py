"""Loops, branches, early ends, variables, grids and several kernels in one function."""

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import InvalidKernelError, run


def three_axis_grid():
    @T.prim_func
    def main(B: T.Tensor((3, 4, 5), "int32")):
        with T.Kernel(5, 4, 3, threads=32) as (bx, by, bz):
            B[bz, by, bx] = bx + 10 * by + 100 * bz

    return main


def loops():
    """Serial with a start and a step, unrolled, vectorised and nested loops."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((6,), "float32")):
        with T.Kernel(1, threads=32) as _:
            total = T.alloc_local((6,), "float32")
            for v in T.serial(6):
                total[v] = 0.0
            for k in T.serial(4, 12):
                total[0] += A[k]
            for k in T.serial(0, 64, 16):
                total[1] += A[k]
            for k in T.unroll(8):
                total[2] += A[k]
            for i in T.serial(4):
                for j in T.serial(i):
                    total[3] += A[i * 4 + j]
            copy = T.alloc_local((8,), "float32")
            for v in T.vectorized(8):
                copy[v] = A[56 + v]
            for v in T.serial(8):
                total[4] += copy[v]
            for k in T.grid(4, 2):
                total[5] += A[k[0] * 2 + k[1]] if False else 1.0
            for v in T.serial(6):
                B[v] = total[v]

    return main


def while_loop():
    """Collatz steps of a number that all threads share."""

    @T.prim_func
    def main(start: T.int32, B: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32) as _:
            n = T.alloc_var("int32")
            steps = T.alloc_var("int32", init=0)
            n = start
            while n != 1:
                if n % 2 == 0:
                    n = n // 2
                elif n > 0:
                    n = 3 * n + 1
                steps = steps + 1
            B[0] = steps

    return main


def while_in_threads():
    """Every thread leaves its loop when its own number is done."""

    @T.prim_func
    def main(B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            n = T.alloc_var("int32")
            steps = T.alloc_var("int32", init=0)
            n = tx + 1
            while n != 1:
                if n % 2 == 0:
                    n = n // 2
                elif n > 0:
                    n = 3 * n + 1
                steps = steps + 1
            B[tx] = steps

    return main


def breaks():
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), limit: T.float32, B: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=32) as _:
            found = T.alloc_var("int32", init=-1)
            for i in T.serial(32):
                if A[i] > limit:
                    found = i
                    T.loop_break()
            B[0] = found
            skipped = T.alloc_var("int32", init=0)
            for i in T.serial(32):
                if A[i] <= limit:
                    continue
                skipped = skipped + 1
            B[1] = skipped

    return main


def breaks_in_threads():
    @T.prim_func
    def main(A: T.Tensor((64, 16), "float32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            found = T.alloc_var("int32", init=-1)
            for i in T.serial(16):
                if A[tx, i] > 1:
                    found = i
                    T.loop_break()
            B[tx] = found

    return main


def early_return():
    @T.prim_func
    def main(A: T.Tensor((100,), "float32"), B: T.Tensor((100,), "float32")):
        with T.Kernel(2, threads=64) as b:
            tx = T.get_thread_binding()
            i = b * 64 + tx
            if i >= 100:
                T.thread_return()
            B[i] = A[i] * 2

    return main


def blocks_that_do_nothing():
    @T.prim_func
    def main(count: T.int32, A: T.Tensor((128, 32), "float32"), B: T.Tensor((128, 32), "float32")):
        with T.Kernel(8, threads=64) as b:
            tile = T.alloc_shared((16, 32), "float32")
            if b < count:
                T.copy(A[b * 16, 0], tile)
                T.copy(tile, B[b * 16, 0])
            else:
                T.clear(tile)
                T.copy(tile, B[b * 16, 0])

    return main


def three_kernels(n):
    """A workspace that the function allocates, and a kernel after another."""

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        work = T.alloc_global((n,), "float32")
        with T.Kernel(T.ceildiv(n, 64), threads=64) as b:
            for i in T.Parallel(64):
                work[b * 64 + i] = A[b * 64 + i] + 1
        with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
            for i in T.Parallel(32):
                work[b * 32 + i] = work[b * 32 + i] * 2
        with T.Kernel(1, threads=32) as _:
            for i in T.Parallel(n):
                B[i] = work[n - 1 - i]

    return main


def pipelined_with_order():
    @T.prim_func
    def main(A: T.Tensor((8, 16, 32), "float32"), B: T.Tensor((16, 32), "float32")):
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_shared((16, 32), "float32")
            total = T.alloc_fragment((16, 32), "float32")
            T.clear(total)
            for k in T.Pipelined(8, order=[0, 1], stage=[0, 1]):
                T.copy(A[k, :, :], tile)
                for i, j in T.Parallel(16, 32):
                    total[i, j] += tile[i, j]
            T.copy(total, B)

    return main


def dynamic_loop():
    K = T.dynamic("K")

    @T.prim_func
    def main(A: T.Tensor((16, K), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=64) as _:
            tile = T.alloc_shared((16, 32), "float32")
            part = T.alloc_fragment((16,), "float32")
            total = T.alloc_fragment((16,), "float32")
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=1):
                T.copy(A[0, k * 32], tile)
                T.reduce_sum(tile, part, dim=1)
                for i in T.Parallel(16):
                    total[i] += part[i]
            T.copy(total, B)

    return main


def macro_calls():
    @T.macro
    def add_scaled(x, y, scale, rows, columns):
        for i, j in T.Parallel(rows, columns):
            x[i, j] += y[i, j] * scale

    @T.prim_func
    def main(A: T.Tensor((16, 32), "float32"), B: T.Tensor((16, 32), "float32")):
        with T.Kernel(1, threads=64) as _:
            a = T.alloc_fragment((16, 32), "float32")
            b = T.alloc_fragment((16, 32), "float32")
            T.copy(A, a)
            T.clear(b)
            add_scaled(b, a, 2.0, 16, 32)
            add_scaled(b, a, 0.5, 16, 32)
            T.copy(b, B)

    return main


def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def test_a_grid_has_up_to_three_axes(clean):
    bz, by, bx = np.mgrid[0:3, 0:4, 0:5]
    assert np.array_equal(clean(three_axis_grid(), {}), bx + 10 * by + 100 * bz)


def test_serial_unrolled_vectorised_and_nested_loops_run_all_their_trips(clean, normal):
    a = normal(64)
    nested = sum(a[i * 4 + j] for i in range(4) for j in range(i))
    expected = [a[4:12].sum(), a[::16].sum(), a[:8].sum(), nested, a[56:].sum(), 8.0]
    assert np.allclose(clean(loops(), {"A": a}), expected, rtol=1e-5)


@pytest.mark.parametrize("start", [1, 6, 27])
def test_a_while_loop_ends_when_its_condition_fails(clean, start):
    assert clean(while_loop(), {"start": start})[0] == collatz(start)


def test_each_thread_leaves_a_while_loop_on_its_own(clean):
    assert clean(while_in_threads(), {}).tolist() == [collatz(n) for n in range(1, 65)]


def test_break_and_continue(clean, normal):
    a = normal(32)
    found, skipped = clean(breaks(), {"A": a, "limit": 1.0})
    assert found == np.argmax(a > 1)
    assert skipped == (a > 1).sum()


def test_each_thread_breaks_on_its_own(clean, normal):
    a = normal(64, 16)
    expected = np.where((a > 1).any(1), np.argmax(a > 1, axis=1), -1)
    assert np.array_equal(clean(breaks_in_threads(), {"A": a}), expected)


def test_threads_that_return_do_nothing_more(clean, normal):
    a = normal(100)
    assert np.array_equal(clean(early_return(), {"A": a}), a * 2)


@pytest.mark.parametrize("count", [0, 3, 8])
def test_a_branch_on_the_block_index_is_taken_by_whole_blocks(clean, normal, count):
    a = normal(128, 32)
    got = clean(blocks_that_do_nothing(), {"count": count, "A": a})
    assert np.array_equal(got[: count * 16], a[: count * 16])
    assert (got[count * 16 :] == 0).all()


def test_several_kernels_run_in_order_over_a_workspace(clean, normal):
    a = normal(200)
    assert np.allclose(clean(three_kernels(200), {"A": a}), ((a + 1) * 2)[::-1])


def test_order_and_stage_of_a_pipeline_change_no_value(clean, normal):
    a = normal(8, 16, 32)
    assert np.allclose(clean(pipelined_with_order(), {"A": a}), a.sum(0), atol=1e-5)


@pytest.mark.parametrize("k", [1, 32, 100])
def test_a_trip_count_may_depend_on_a_dynamic_dimension(clean, normal, k):
    a = normal(16, k)
    assert np.allclose(clean(dynamic_loop(), {"A": a}), a.sum(1), atol=1e-4)


def test_macros_are_expanded(clean, normal):
    a = normal(16, 32)
    assert np.allclose(clean(macro_calls(), {"A": a}), 2.5 * a, rtol=1e-6)


def test_arguments_that_do_not_fit_are_refused_with_their_name(normal):
    function = dynamic_loop()
    with pytest.raises(InvalidKernelError, match="has no argument 'X'"):
        run(function, {"X": normal(3)})
    with pytest.raises(InvalidKernelError, match=r"A has the shape \(16, 5\)"):
        run(function, {"A": normal(3, 5)})
    with pytest.raises(InvalidKernelError, match="A is float32, the argument is float64"):
        run(function, {"A": normal(16, 5).astype(np.float64)})
    with pytest.raises(InvalidKernelError, match="the shape of A is not determined"):
        run(function, {})
    with pytest.raises(InvalidKernelError, match="the scalar argument start"):
        run(while_loop(), {})


def test_a_shape_stands_for_random_contents_that_the_seed_decides():
    first, again, other = (run(dynamic_loop(), {"A": (16, 40)}, seed=seed).outputs["B"] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_dynamic_dimension_may_be_given_by_name():
    assert run(dynamic_loop(), {"K": 64}).dims == {"K": 64}


def two_phases(fault=None):
    """Every block adds its part to a workspace, all meet, every block reads all of it."""

    @T.prim_func
    def main(A: T.Tensor((4, 64), "float32"), W: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(4, threads=32) as b:
            tile = T.alloc_fragment((64,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(A[b, 0:64], tile)
            T.reduce_sum(tile, total, dim=0)
            W[b] = total[0]
            if fault != "no meeting":
                T.sync_grid()
            B[b] = W[0] + W[1] + W[2] + W[3]

    return main


def test_blocks_meet_at_a_grid_barrier(clean, normal):
    a = normal(4, 64)
    assert np.allclose(clean(two_phases(), {"A": a})["B"], a.sum(), atol=1e-4)


def test_without_the_grid_barrier_the_race_is_found(normal):
    kinds = {finding.kind for finding in run(two_phases("no meeting"), {"A": normal(4, 64)}).findings}
    assert "block-race" in kinds or "uninitialised-read" in kinds


def one_block_stays_away():
    @T.prim_func
    def main(B: T.Tensor((4,), "float32")):
        with T.Kernel(4, threads=32) as b:
            if b > 0:
                T.sync_grid()
            B[b] = 1.0

    return main


def test_a_block_that_misses_the_grid_barrier_is_a_deadlock():
    findings = run(one_block_stays_away(), {}).findings
    assert findings[0].kind == "deadlock"
    assert "block (1,), threads 0 to 31 wait for all blocks of the grid" in findings[0].message


def printing():
    @T.prim_func
    def main(A: T.Tensor((4, 2), "float32"), B: T.Tensor((4, 2), "float32")):
        with T.Kernel(2, threads=32) as b:
            shared = T.alloc_shared((2, 2), "float32")
            tx = T.get_thread_binding()
            T.copy(A[b * 2, 0], shared)
            for step in T.serial(2):
                T.print(b + step, msg="sum")
            T.print(shared)
            T.print(shared[1, 0], msg="corner")
            if tx < 3:
                T.print(tx * 2, msg="mine")
            T.print(msg="done")
            T.copy(shared, B[b * 2, 0])

    return main


def test_print_prints_what_a_device_would_and_changes_nothing(clean):
    a = np.arange(8, dtype=np.float32).reshape(4, 2)
    lines = []
    assert np.array_equal(clean(printing(), {"A": a}, print_line=lines.append, jobs=2), a)
    first = [
        "block (0,), step = 0: sum: 0",
        "block (0,), step = 1: sum: 1",
        "block (0,), i = 0: shared[0, 0] = 0.0",
        "block (0,), i = 1: shared[0, 1] = 1.0",
        "block (0,), i = 2: shared[1, 0] = 2.0",
        "block (0,), i = 3: shared[1, 1] = 3.0",
        "block (0,): corner: 2.0",
        "block (0,): mine: [0, 2, 4]",
        "block (0,): done",
    ]
    assert lines[:9] == first
    assert lines[9:11] == ["block (1,), step = 0: sum: 1", "block (1,), step = 1: sum: 2"]
    assert lines[-3:] == ["block (1,): corner: 6.0", "block (1,): mine: [0, 2, 4]", "block (1,): done"]


def scaled():
    @T.prim_func
    def main(A: T.Tensor((8,), "float64"), factor: T.float32, B: T.Tensor((8,), "float64")):
        with T.Kernel(4, threads=32) as _:
            for i in T.Parallel(8):
                B[i] = A[i] * factor

    return main


def test_a_scalar_argument_has_the_precision_of_its_dtype(normal):
    a = normal(8).astype(np.float64)
    result = run(scaled(), {"A": a, "factor": 0.1})
    assert np.array_equal(result.outputs["B"], a * np.float64(np.float32(0.1)))


@pytest.mark.parametrize("block", [(-1,), (4,), (1.5,), (0, 0, 0, 0)])
def test_a_block_outside_the_grid_is_refused(normal, block):
    with pytest.raises(InvalidKernelError, match="there is no block"):
        run(scaled(), {"A": normal(8).astype(np.float64), "factor": 1}, block=block)


@pytest.mark.parametrize("kind", ["sparse", "meta"])
def test_a_tensor_that_numpy_cannot_hold_is_refused(kind):
    torch = pytest.importorskip("torch")
    tensor = torch.ones(8).double()
    odd = tensor.to_sparse() if kind == "sparse" else tensor.to("meta")
    with pytest.raises(InvalidKernelError, match="A is no plain tensor of numbers"):
        run(scaled(), {"A": odd, "factor": 1})


def test_a_negative_seed_is_refused():
    with pytest.raises(InvalidKernelError, match="the seed is -1"):
        run(scaled(), {"factor": 1}, seed=-1)
