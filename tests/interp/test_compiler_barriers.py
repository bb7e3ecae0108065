"""The barriers that TileLang places between neighbouring branches: what the interpreter expects, and what is lowered."""

import pytest
import tilelang
import tilelang.language as T
from tilelang import tvm

from tilegen.interp.compiler_barriers import barriers_between


def two_branches(first, second):
    """Threads 0 to 127 run ``first``, threads 128 to 255 ``second``, in branches of their own."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=256) as _:
            a = T.alloc_shared((2, 64, 64), "float16")
            line = T.alloc_shared((256,), "float32")
            ready = T.alloc_barrier([1, 1])
            tx = T.get_thread_binding()
            if tx < 128:
                first(A, B, C, a, line, ready, tx)
                T.barrier_wait(ready[0], 0)
            if tx >= 128:
                second(A, B, C, a, line, ready, tx)
                T.barrier_wait(ready[1], 0)

    return main


@T.macro
def load_first(A, B, C, a, line, ready, tx):
    T.tma_copy(A, a[0, :, :], barrier=ready[0], annotations={"emit_arrive": 1})


@T.macro
def load_first_again(A, B, C, a, line, ready, tx):
    T.tma_copy(A, a[0, :, :], barrier=ready[1], annotations={"emit_arrive": 1})


@T.macro
def load_second(A, B, C, a, line, ready, tx):
    T.tma_copy(A, a[1, :, :], barrier=ready[1], annotations={"emit_arrive": 1})


@T.macro
def read_first(A, B, C, a, line, ready, tx):
    tile = T.alloc_fragment((64, 64), "float16")
    T.copy(a[0, :, :], tile)
    T.copy(tile, B)


@T.macro
def read_second(A, B, C, a, line, ready, tx):
    tile = T.alloc_fragment((64, 64), "float16")
    T.copy(a[1, :, :], tile)
    T.copy(tile, B)


@T.macro
def store_second(A, B, C, a, line, ready, tx):
    a[1, tx // 64, tx % 64] = A[tx // 64, tx % 64]


@T.macro
def store_own(A, B, C, a, line, ready, tx):
    line[tx] = C[tx]


@T.macro
def read_own(A, B, C, a, line, ready, tx):
    C[tx] = line[tx]


@T.macro
def read_theirs(A, B, C, a, line, ready, tx):
    C[tx] = line[tx - 128]


@T.macro
def count(A, B, C, a, line, ready, tx):
    T.atomic_add(line[0], 1.0)


CASES = {
    "written by the copy engine, read by the next": (load_first, read_first, True),
    "read, then written by the copy engine": (read_first, load_first_again, True),
    "both written by the copy engine": (load_first, load_first_again, False),
    "another stage, by the copy engine": (load_first, read_second, True),
    "another stage, by threads": (store_second, read_first, False),
    "two stages by the copy engine": (load_first, load_second, False),
    "only read": (read_first, read_first, False),
    "elements of their own threads": (store_own, read_own, False),
    "elements of the other threads": (store_own, read_theirs, True),
    "both atomic": (count, count, False),
}


def branches(function):
    """The neighbouring branches of a kernel's body."""
    found = []

    def visit(node):
        if type(node).__name__ == "SeqStmt":
            found.extend(part for part in node.seq if type(part).__name__ == "IfThenElse")

    tvm.tirx.stmt_functor.post_order_visit(function.body, visit)
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_barrier_is_expected_where_one_branch_may_touch_what_the_other_writes(name):
    first, second, expected = CASES[name]
    reasons = barriers_between(branches(two_branches(first, second)))
    assert [reason is not None for reason in reasons] == [False, expected]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_tilelang_places_a_barrier_exactly_where_one_is_expected(name):
    first, second, expected = CASES[name]
    with tvm.target.Target({"kind": "cuda", "arch": "sm_90a"}) as target:
        source = tilelang.lower(two_branches(first, second), target=target).kernel_source
    body = source[source.rindex("__global__") :]
    between = body[body.index("ready[0].wait(0)") : body.rindex("ready[1].wait(0)")]
    head = between[: between.index("128 <= ((int)threadIdx.x)")]
    assert ("__syncthreads()" in head) is expected
