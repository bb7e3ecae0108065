"""Reductions, scans and reducers."""

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import run


def reduction(kind, dtype="float32", out_dtype=None, dim=1, rows=32, columns=64, scope="fragment", **options):
    out_dtype = out_dtype or dtype
    kept = columns if dim == 0 else rows
    allocate = T.alloc_fragment if scope == "fragment" else T.alloc_shared
    reduce = getattr(T, f"reduce_{kind}")

    @T.prim_func
    def main(A: T.Tensor((rows, columns), dtype), B: T.Tensor((kept,), out_dtype)):
        with T.Kernel(1, threads=128) as _:
            a = allocate((rows, columns), dtype)
            b = T.alloc_fragment((kept,), out_dtype)
            T.copy(A, a)
            reduce(a, b, dim=dim, **options)
            T.copy(b, B)

    return main


def running(kind):
    """``clear=False`` joins the reduction with what the destination holds."""
    reduce = getattr(T, f"reduce_{kind}")

    @T.prim_func
    def main(A: T.Tensor((4, 32, 64), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_fragment((32, 64), "float32")
            b = T.alloc_fragment((32,), "float32")
            T.fill(b, 0.25)
            for k in T.serial(4):
                T.copy(A[k, :, :], a)
                reduce(a, b, dim=1, clear=False)
            T.copy(b, B)

    return main


def three_axes(dim):
    shape = tuple(extent for axis, extent in enumerate((4, 8, 16)) if axis != dim)

    @T.prim_func
    def main(A: T.Tensor((4, 8, 16), "float32"), B: T.Tensor(shape, "float32")):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_fragment((4, 8, 16), "float32")
            b = T.alloc_fragment(shape, "float32")
            T.copy(A, a)
            T.reduce_sum(a, b, dim=dim)
            T.copy(b, B)

    return main


def to_one_number():
    @T.prim_func
    def main(A: T.Tensor((256,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_fragment((256,), "float32")
            b = T.alloc_fragment((1,), "float32")
            T.copy(A, a)
            T.reduce_max(a, b, dim=0)
            B[0] = b[0]

    return main


def scan(kind, dim, reverse, scope, dtype="float32"):
    allocate = T.alloc_fragment if scope == "fragment" else T.alloc_shared

    @T.prim_func
    def main(A: T.Tensor((16, 32), dtype), B: T.Tensor((16, 32), dtype)):
        with T.Kernel(1, threads=128) as _:
            a = allocate((16, 32), dtype)
            T.copy(A, a)
            if kind == "sum":
                T.cumsum(a, dim=dim, reverse=reverse)
            else:
                T.cummax(a, dim=dim, reverse=reverse)
            T.copy(a, B)

    return main


def reducer(op, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((32, 64), dtype), B: T.Tensor((32,), dtype)):
        with T.Kernel(1, threads=128) as _:
            total = T.alloc_reducer((32,), dtype, op=op)
            result = T.alloc_fragment((32,), dtype)
            T.reducer_init(total)
            for i, j in T.Parallel(32, 64):
                T.reducer_update(total[i], A[i, j])
            T.finalize_reducer(total, result)
            T.copy(result, B)

    return main


FLOAT_KINDS = {
    "sum": lambda x, axis: x.sum(axis),
    "abssum": lambda x, axis: np.abs(x).sum(axis),
    "max": lambda x, axis: x.max(axis),
    "min": lambda x, axis: x.min(axis),
    "absmax": lambda x, axis: np.abs(x).max(axis),
}
BIT_KINDS = {"bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor}


@pytest.mark.parametrize("kind", FLOAT_KINDS)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_each_kind_of_reduction_agrees_with_numpy_on_each_axis(clean, normal, kind, dim):
    a = normal(32, 64)
    got = clean(reduction(kind, dim=dim), {"A": a})
    assert np.allclose(got, FLOAT_KINDS[kind](a.astype(np.float64), dim), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", BIT_KINDS)
def test_bit_reductions_agree_with_numpy(clean, rng, kind):
    a = rng.integers(-1000, 1000, (32, 64)).astype(np.int32)
    assert np.array_equal(clean(reduction(kind, "int32"), {"A": a}), BIT_KINDS[kind].reduce(a, axis=1))


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_integer_reductions_are_exact(clean, rng, kind):
    a = rng.integers(-1000, 1000, (32, 64)).astype(np.int32)
    assert np.array_equal(clean(reduction(kind, "int32"), {"A": a}), FLOAT_KINDS[kind](a, 1))


def test_a_sum_is_taken_in_the_destination_format(clean, normal):
    a = normal(32, 64, dtype="float16")
    exact = a.astype(np.float64).sum(1)
    wide = clean(reduction("sum", "float16", "float32"), {"A": a})
    narrow = clean(reduction("sum", "float16", "float16"), {"A": a})
    assert np.abs(wide - exact).max() <= 1e-5 * 64
    assert 0 < np.abs(narrow.astype(np.float64) - exact).max() <= 64 * 2**-10 * np.abs(exact).max()


def test_a_float16_sum_that_overflows_is_found_where_it_overflows():
    a = np.full((32, 64), 2000.0, np.float16)
    result = run(reduction("sum", "float16", "float16"), {"A": a})
    assert np.isinf(result.outputs["B"]).all()
    assert result.findings[0].kind == "non-finite"
    assert "T.reduce" in result.findings[0].operation


def test_shared_tiles_are_reduced_through_fragments(clean, normal):
    a = normal(32, 64)
    assert np.allclose(clean(reduction("sum", scope="shared"), {"A": a}), a.sum(1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_without_clear_a_reduction_joins_what_is_there(clean, normal, kind):
    a = normal(4, 32, 64)
    join = {"sum": lambda x: 0.25 + x.sum((0, 2)), "max": lambda x: np.maximum(0.25, x.max((0, 2)))}
    join["min"] = lambda x: np.minimum(0.25, x.min((0, 2)))
    assert np.allclose(clean(running(kind), {"A": a}), join[kind](a), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_any_of_three_axes_can_be_reduced(clean, normal, dim):
    a = normal(4, 8, 16)
    assert np.allclose(clean(three_axes(dim), {"A": a}), a.sum(dim), rtol=1e-5, atol=1e-5)


def test_a_vector_reduces_to_one_number(clean, normal):
    a = normal(256)
    assert clean(to_one_number(), {"A": a})[0] == a.max()


def test_a_maximum_skips_nan_unless_it_must_propagate(normal):
    a = normal(32, 64, dtype="float16")
    a[3, 5] = np.nan
    skipped = run(reduction("max", "float16"), {"A": a}).outputs["B"]
    assert np.array_equal(skipped, np.nanmax(a, axis=1))
    kept = run(reduction("max", "float16", nan_propagate=True), {"A": a}).outputs["B"]
    assert np.isnan(kept[3])
    assert np.isnan(kept).sum() == 1


@pytest.mark.parametrize("scope", ["fragment", "shared"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_scans_agree_with_numpy_in_both_directions(clean, normal, kind, dim, reverse, scope):
    a = normal(16, 32)
    turned = np.flip(a, dim) if reverse else a
    expected = np.cumsum(turned, dim) if kind == "sum" else np.maximum.accumulate(turned, dim)
    expected = np.flip(expected, dim) if reverse else expected
    assert np.allclose(clean(scan(kind, dim, reverse, scope), {"A": a}), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_reducers_join_every_contribution_once(clean, normal, op):
    a = normal(32, 64)
    assert np.allclose(clean(reducer(op), {"A": a}), FLOAT_KINDS[op](a, 1), rtol=1e-4, atol=1e-5)
