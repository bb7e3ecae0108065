"""What is not modelled stops with its name and its place; nothing is guessed."""

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import InvalidKernelError, UnsupportedError, run


def with_body(body, threads=128, cluster_dims=None):
    """A kernel of one statement between a load and a store."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(2, threads=threads, cluster_dims=cluster_dims) as _:
            tile = T.alloc_shared((64, 64), "float16")
            T.copy(A, tile)
            body(tile)
            T.copy(tile, B)

    return main


def return_in_parallel():
    @T.prim_func
    def main(B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                if i > 5:
                    T.thread_return()
                B[i] = 1.0

    return main


REFUSED = {
    "an external function": (with_body(lambda tile: T.call_extern("handle", "my_function", tile.data)), "my_function"),
    "a cluster": (with_body(lambda tile: T.cluster_sync(), cluster_dims=(2, 1, 1)), "cluster"),
    "a remote arrive": (with_body(lambda tile: T.clc_try_cancel(tile, tile)), "clc_try_cancel"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_name(name):
    function, message = REFUSED[name]
    with pytest.raises(UnsupportedError, match=message):
        run(function, {})


def break_in_parallel():
    @T.prim_func
    def main(B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                if i > 5:
                    T.loop_break()
                B[i] = 1.0

    return main


@pytest.mark.parametrize("kernel", [return_in_parallel, break_in_parallel])
def test_leaving_a_parallel_loop_is_refused(kernel):
    with pytest.raises(UnsupportedError, match=r"inside `for i in T\.Parallel"):
        run(kernel(), {"B": np.zeros(64, np.float32)})


def test_registers_indexed_by_a_parallel_loop_are_refused_as_tilelang_does():
    @T.prim_func
    def main(A: T.Tensor((64, 8), "float32"), B: T.Tensor((64, 8), "float32")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            own = T.alloc_local((8,), "float32")
            for i in T.Parallel(8):
                own[i] = A[tx, i]
            for i in T.serial(8):
                B[tx, i] = own[i]

    with pytest.raises(InvalidKernelError, match=r"indexes own \(local\).* by i of a T\.Parallel.*alloc_fragment"):
        run(main, {})


def test_a_grid_of_no_blocks_is_refused_as_cuda_does():
    n = T.dynamic("n")

    @T.prim_func
    def main(B: T.Tensor((n,), "float32")):
        with T.Kernel(n, threads=32) as b:
            B[b] = 1.0

    with pytest.raises(InvalidKernelError, match=r"the grid of main is \(0,\): CUDA launches no grid of 0 blocks"):
        run(main, {"B": np.zeros(0, np.float32)})
