"""What is not modelled stops with its name and its place; nothing is guessed."""

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import UnsupportedError, run


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


def device_random():
    @T.prim_func
    def main(B: T.Tensor((64,), "uint32")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            T.rng_init(1, 0, 0)
            B[tx] = T.rng_rand()

    return main


def packed_floats():
    @T.prim_func
    def main(A: T.Tensor((64,), "float4_e2m1fn"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                B[i] = T.cast(A[i], "float32")

    return main


def register_view():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            own = T.alloc_local((1,), "float32")
            bits = T.view(own, (1,), "int32")
            own[0] = A[tx]
            B[tx] = bits[0]

    return main


def legacy_reducer():
    @T.prim_func
    def main(A: T.Tensor((32, 64), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=128) as _:
            total = T.alloc_reducer((32,), "float32", op="sum", replication="all")
            T.clear(total)
            for i, j in T.Parallel(32, 64):
                total[i] += A[i, j]
            T.finalize_reducer(total)
            T.copy(total, B)

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
    "random numbers": (device_random(), "rng_init"),
    "packed floats": (packed_floats(), "float4_e2m1fn"),
    "a view of registers": (register_view(), "per-thread memory"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_name(name):
    function, message = REFUSED[name]
    with pytest.raises(UnsupportedError, match=message):
        run(function, {})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_legacy_reducers_are_refused():
    with pytest.raises(UnsupportedError, match="reducer_info"):
        run(legacy_reducer(), {})


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
