"""Reductions between the threads of a block, and reducers in their older forms."""

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import UnsupportedError, run


def row_sums(joined="x", largest=False, when=True):
    """A block of 8 x 4 threads: the sum or maximum of a row over one axis of the block."""

    @T.prim_func
    def main(A: T.Tensor((3, 4, 8), "float32"), B: T.Tensor((3, 4, 8), "float32")):
        with T.Kernel(3, threads=(8, 4)) as b:
            tx, ty = T.get_thread_binding(0), T.get_thread_binding(1)
            mine, total = T.alloc_local((1,), "float32"), T.alloc_local((1,), "float32")
            mine[0] = A[b, ty, tx]
            with T.attr(
                T.comm_reducer(lambda x, y: T.max(x, y) if largest else x + y, [T.float32(-1e30 if largest else 0)]),
                "reduce_scope",
                T.reinterpret(T.uint64(0), dtype="handle"),
            ):
                T.evaluate(
                    T.tvm_thread_allreduce(
                        T.uint32(1),
                        mine[0],
                        (tx != 0) if when is not True else True,
                        total[0],
                        tx if joined == "x" else ty,
                        dtype="handle",
                    )
                )
            B[b, ty, tx] = total[0]

    return main


@pytest.mark.parametrize(("joined", "axis"), [("x", 2), ("y", 1)])
@pytest.mark.parametrize("largest", [False, True])
def test_threads_along_an_axis_of_the_block_join_their_values(clean, normal, joined, axis, largest):
    a = normal(3, 4, 8)
    expected = (np.max if largest else np.sum)(a, axis=axis, keepdims=True)
    found = clean(row_sums(joined, largest), {"A": a})
    assert np.allclose(found, np.broadcast_to(expected, a.shape), atol=1e-5)


def test_a_thread_whose_condition_fails_adds_nothing(clean, normal):
    a = normal(3, 4, 8)
    expected = np.broadcast_to(a[:, :, 1:].sum(2, keepdims=True), a.shape)
    assert np.allclose(clean(row_sums(when="not the first"), {"A": a}), expected, atol=1e-5)


def over_a_bound_loop():
    """Threads in loops that are bound to them, as code without ``threads=`` has."""

    @T.prim_func
    def main(A: T.Tensor((4, 32), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=(32, 4)) as _:
            mine, total = T.alloc_local((1,), "float32"), T.alloc_local((1,), "float32")
            for column in T.thread_binding(32, thread="threadIdx.x"):
                for row in T.thread_binding(4, thread="threadIdx.y"):
                    mine[0] = A[row, column]
                    with T.attr(
                        T.comm_reducer(lambda x, y: x + y, [T.float32(0)]),
                        "reduce_scope",
                        T.reinterpret(T.uint64(0), dtype="handle"),
                    ):
                        T.evaluate(T.tvm_thread_allreduce(T.uint32(1), mine[0], True, total[0], column, dtype="handle"))
                    if column == 0:
                        B[row] = total[0]

    return main


def test_the_variable_of_a_loop_bound_to_threads_names_their_axis(clean, normal):
    a = normal(4, 32)
    assert np.allclose(clean(over_a_bound_loop(), {"A": a}), a.sum(1), atol=1e-4)


def plain_reducer(op, start, update, replication=None):
    @T.prim_func
    def main(A: T.Tensor((32, 64), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=128) as _:
            total = T.alloc_reducer((32,), "float32", op=op, replication=replication)
            T.fill(total, start)
            for i, j in T.Parallel(32, 64):
                total[i] = update(total[i], A[i, j])
            T.finalize_reducer(total)
            T.copy(total, B)

    return main


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("replication", [None, "all", "none"])
def test_plain_updates_of_a_reducer_count_every_iteration(clean, normal, replication):
    a = normal(32, 64)
    sums = clean(plain_reducer("sum", 0, lambda x, y: x + y, replication), {"A": a})
    assert np.allclose(sums, a.sum(1), atol=1e-4)
    largest = clean(plain_reducer("max", -1e30, lambda x, y: T.max(y, x), replication), {"A": a})
    assert np.array_equal(largest, a.max(1))


def test_a_reducer_of_the_present_form_adds_its_start_once(clean, normal):
    a = normal(32, 64)
    assert np.allclose(clean(plain_reducer("sum", 5, lambda x, y: x + y), {"A": a}), 5 + a.sum(1), atol=1e-4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_replicated_reducer_that_starts_at_another_sum_is_refused():
    with pytest.raises(UnsupportedError, match="each thread"):
        run(plain_reducer("sum", 5, lambda x, y: x + y, "all"), {})


def test_a_store_to_a_reducer_that_is_no_update_is_refused():
    with pytest.raises(UnsupportedError, match="no sum of its element"):
        run(plain_reducer("sum", 0, lambda x, y: T.max(x, y)), {})


def running_total(start=None):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32) as _:
            total = T.alloc_var("float32") if start is None else T.alloc_var("float32", start)
            for i in T.serial(8):
                total += A[i]
            B[0] = total

    return main


def test_a_variable_that_says_no_start_is_noted_and_starts_at_zero(clean, normal):
    a = normal(8)
    result = run(running_total(), {"A": a})
    assert [(found.kind, found.severity) for found in result.findings] == [("implicit-zero", "note")]
    assert np.allclose(result.outputs["B"], a.sum(), atol=1e-5)
    assert np.allclose(clean(running_total(2.0), {"A": a}), 2 + a.sum(), atol=1e-5)
