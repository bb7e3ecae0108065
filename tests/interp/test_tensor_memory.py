"""Products into tensor memory (Blackwell): they are complete when a barrier that they arrive at has opened."""

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import run


def waited_for(fault=None, steps=3):
    @T.prim_func
    def main(
        A: T.Tensor((128, 192), "bfloat16"), B: T.Tensor((64, 192), "bfloat16"), C: T.Tensor((128, 64), "float32")
    ):
        with T.Kernel(1, threads=128) as _:
            a, b = T.alloc_shared((128, 64), "bfloat16"), T.alloc_shared((64, 64), "bfloat16")
            c_tmem, c = T.alloc_tmem((128, 64), "float32"), T.alloc_fragment((128, 64), "float32")
            done = T.alloc_barrier(1)
            for k in T.serial(steps):
                T.copy(A[0, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.tcgen05_gemm(a, b, c_tmem, transpose_B=True, mbar=done, clear_accum=k == 0)
                if fault != "no wait":
                    T.mbarrier_wait_parity(done, k % 2)
            T.copy(c_tmem, c)
            T.copy(c, C)

    return main


def test_a_product_into_tensor_memory_accumulates(clean, normal):
    a, b = normal(128, 192, dtype="bfloat16"), normal(64, 192, dtype="bfloat16")
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    assert np.allclose(clean(waited_for(), {"A": a, "B": b}), expected, atol=1e-3)


@pytest.mark.parametrize("steps", [1, 3])
def test_tensor_memory_that_is_not_waited_for_is_in_flight(normal, steps):
    a, b = normal(128, 192, dtype="bfloat16"), normal(64, 192, dtype="bfloat16")
    findings = run(waited_for("no wait", steps), {"A": a, "B": b}).errors
    assert {found.kind for found in findings} == {"in-flight"} if steps == 1 else "in-flight" in str(findings)
    assert any("a product into tensor memory" in found.message for found in findings)


def specialised(fault=None, stages=2, steps=4):
    """One warp loads, one issues the products, and all wait for the last of them."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 128), "bfloat16"), B: T.Tensor((128, 64), "bfloat16"), C: T.Tensor((128, 64), "float32")
    ):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_shared((stages, 128, 32), "bfloat16")
            b = T.alloc_shared((stages, 32, 64), "bfloat16")
            c_tmem, c = T.alloc_tmem((128, 64), "float32"), T.alloc_fragment((128, 64), "float32")
            loaded, free = T.alloc_barrier([32] * stages), T.alloc_barrier([1] * stages)
            complete = T.alloc_barrier(1)
            tx = T.get_thread_binding()
            if tx < 32:
                for k in T.serial(steps):
                    if fault != "no wait before a load":
                        T.mbarrier_wait_parity(free[k % stages], ((k // stages) & 1) ^ 1)
                    T.tma_copy(A[0:128, k * 32 : k * 32 + 32], a[k % stages, :, :], barrier=loaded[k % stages])
                    T.tma_copy(B[k * 32 : k * 32 + 32, 0:64], b[k % stages, :, :], barrier=loaded[k % stages])
                    T.mbarrier_arrive(loaded[k % stages])
            elif tx < 64:
                for k in T.serial(steps):
                    T.mbarrier_wait_parity(loaded[k % stages], (k // stages) & 1)
                    T.tcgen05_gemm(
                        a[k % stages, :, :], b[k % stages, :, :], c_tmem, mbar=free[k % stages], clear_accum=k == 0
                    )
                T.tcgen05_mma_arrive(complete)
            if fault != "no wait at the end":
                T.mbarrier_wait_parity(complete, 0)
            T.copy(c_tmem, c)
            T.copy(c, C)

    return main


def test_products_in_a_row_need_no_wait_between_them(clean, normal):
    a, b = normal(128, 128, dtype="bfloat16"), normal(128, 64, dtype="bfloat16")
    expected = a.astype(np.float32) @ b.astype(np.float32)
    assert np.allclose(clean(specialised(), {"A": a, "B": b}), expected, atol=1e-3)


@pytest.mark.parametrize(("fault", "buffer"), [("no wait before a load", "a"), ("no wait at the end", "c_tmem")])
def test_a_missing_wait_for_a_product_is_found(normal, fault, buffer):
    a, b = normal(128, 128, dtype="bfloat16"), normal(128, 64, dtype="bfloat16")
    findings = [found for found in run(specialised(fault), {"A": a, "B": b}).errors if found.kind == "in-flight"]
    assert buffer in {found.buffer for found in findings}
