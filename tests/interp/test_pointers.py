"""Arguments given as addresses, and tensors that a kernel makes from a table of addresses."""

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import InvalidKernelError, run

pytestmark = pytest.mark.cpu_only


def address(array):
    return array.__array_interface__["data"][0]


def doubled():
    @T.prim_func
    def main(source: T.ptr, target: T.ptr, rows: T.int32):
        A = T.make_tensor(source, (rows, 32), "float32")
        B = T.make_tensor(target, (rows, 32), "float32")
        with T.Kernel(T.ceildiv(rows, 8), threads=64) as b:
            tile = T.alloc_fragment((8, 32), "float32")
            T.copy(A[b * 8, 0], tile)
            for i, j in T.Parallel(8, 32):
                tile[i, j] = tile[i, j] * 2
            T.copy(tile, B[b * 8, 0])

    return main


def test_an_argument_may_be_an_address(normal):
    a, b = normal(20, 32), np.zeros((20, 32), np.float32)
    result = run(doubled(), {"A": address(a), "B": address(b), "rows": 20}, jobs=2)
    assert result.findings == []
    assert np.array_equal(b, 2 * a)


def grouped(fault=None):
    """One product for each block, of matrices that a table names."""

    @T.prim_func
    def main(As: T.Tensor((3,), T.ptr), Bs: T.Tensor((3,), T.ptr), Cs: T.Tensor((3,), T.ptr)):
        with T.Kernel(3, 2, threads=64) as (group, half):
            A = T.make_tensor(As[group], (16, 32), "float16")
            B = T.make_tensor(Bs[group], (32, 32), "float16")
            C = T.make_tensor(Cs[group if fault is None else 0], (16, 32), "float32")
            a, b = T.alloc_shared((16, 32), "float16"), T.alloc_shared((32, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.copy(A, a)
            T.copy(B[0, half * 16], b)
            T.clear(c)
            T.gemm(a, b, c)
            T.copy(c, C[0, half * 16])

    return main


def tables(normal):
    a = [normal(16, 32, dtype="float16") for _ in range(3)]
    b = [normal(32, 32, dtype="float16") for _ in range(3)]
    c = [np.zeros((16, 32), np.float32) for _ in range(3)]
    given = {name: np.array([address(part) for part in parts]) for name, parts in (("As", a), ("Bs", b), ("Cs", c))}
    return a, b, c, given


def test_a_table_of_addresses_names_the_tensors_of_each_block(normal):
    a, b, c, given = tables(normal)
    assert run(grouped(), given).findings == []
    for left, right, product in zip(a, b, c, strict=True):
        assert np.allclose(product, left.astype(np.float32) @ right.astype(np.float32), atol=1e-4)


def test_blocks_that_write_one_tensor_behind_a_pointer_race(normal):
    *_, given = tables(normal)
    (found,) = run(grouped("one output"), given).errors
    assert (found.kind, found.buffer) == ("block-race", "C")


def test_an_address_that_is_no_memory_is_refused():
    with pytest.raises(InvalidKernelError, match=r"0x10000 of A.* is no memory of this process"):
        run(doubled(), {"A": 1 << 16, "B": 1 << 16, "rows": 8})
