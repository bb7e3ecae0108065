"""Copy, fill, clear, transpose: shapes, tails, dtypes."""

import ml_dtypes
import numpy as np
import pytest
import tilelang
import tilelang.language as T

from tilegen.interp import UnsupportedError, run


def through_shared(rows, columns, block_m, block_n, dtype="float16", out_dtype=None):
    out_dtype = out_dtype or dtype

    @T.prim_func
    def main(A: T.Tensor((rows, columns), dtype), B: T.Tensor((rows, columns), out_dtype)):
        with T.Kernel(T.ceildiv(columns, block_n), T.ceildiv(rows, block_m), threads=128) as (bx, by):
            tile = T.alloc_shared((block_m, block_n), dtype)
            T.copy(A[by * block_m, bx * block_n], tile)
            T.copy(tile, B[by * block_m, bx * block_n])

    return main


def dynamic_rows(columns):
    M = T.dynamic("M")

    @T.prim_func
    def main(A: T.Tensor((M, columns), "float16"), B: T.Tensor((M, columns), "float16")):
        with T.Kernel(T.ceildiv(M, 32), threads=128) as by:
            tile = T.alloc_fragment((32, columns), "float32")
            T.copy(A[by * 32, 0], tile)
            T.copy(tile, B[by * 32, 0])

    return main


def between_ranks():
    """A row of a 4-D tensor into a 2-D tile and back into a 3-D tensor: extents of one are skipped."""

    @T.prim_func
    def main(A: T.Tensor((3, 5, 1, 64), "float32"), B: T.Tensor((3, 5, 64), "float32")):
        with T.Kernel(3, threads=64) as b:
            tile = T.alloc_shared((5, 64), "float32")
            T.copy(A[b, 0:5, 0, :], tile)
            T.copy(tile, B[b, :, :])

    return main


def single_elements():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float16")):
        with T.Kernel(8, threads=32) as i:
            T.copy(A[i], B[7 - i])

    return main


def part_of_a_stage():
    @T.prim_func
    def main(A: T.Tensor((2, 16, 32), "float32"), B: T.Tensor((16, 32), "float32")):
        with T.Kernel(1, threads=64) as _:
            stages = T.alloc_shared((2, 16, 32), "float32")
            for s in T.serial(2):
                T.copy(A[s, :, :], stages[s, :, :])
            right = T.alloc_fragment((16, 16), "float32")
            left = T.alloc_fragment((16, 16), "float32")
            T.copy(stages[1, :, 0:16], right)
            T.copy(stages[0, :, 16:32], left)
            T.copy(right, B[:, 16:32])
            T.copy(left, B[:, 0:16])

    return main


def outside_with_safe_value():
    @T.prim_func
    def main(A: T.Tensor((30, 16), "float32"), B: T.Tensor((32, 16), "float32")):
        with T.Kernel(2, threads=64) as b:
            tile = T.alloc_shared((16, 16), "float32")
            T.annotate_safe_value({A: -5.0})
            T.copy(A[b * 16, 0], tile)
            T.copy(tile, B[b * 16, 0])

    return main


def fills():
    @T.prim_func
    def main(B: T.Tensor((4, 8, 16), "float16")):
        with T.Kernel(4, threads=64) as b:
            tile = T.alloc_fragment((8, 16), "float16")
            T.clear(tile)
            T.fill(tile[2:4, :], 1.5)
            if b == 3:
                T.fill(tile, -T.infinity("float16"))
            T.copy(tile, B[b, :, :])

    return main


def with_hints():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_shared((64, 64), "float16")
            T.annotate_layout({tile: tilelang.layout.make_swizzled_layout(tile)})
            T.use_swizzle(4)
            T.copy(A, tile, coalesced_width=4, eviction_policy="evict_first")
            T.copy(tile, B, disable_tma=True)

    return main


def transposed():
    @T.prim_func
    def main(A: T.Tensor((16, 32), "float32"), B: T.Tensor((32, 16), "float32")):
        with T.Kernel(1, threads=64) as _:
            a = T.alloc_shared((16, 32), "float32")
            b = T.alloc_shared((32, 16), "float32")
            T.copy(A, a)
            T.transpose(a, b)
            T.copy(b, B)

    return main


def asynchronous():
    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16"), B: T.Tensor((64, 32), "float16")):
        with T.Kernel(2, threads=64) as b:
            tile = T.alloc_shared((32, 32), "float16")
            T.async_copy(A[b * 32, 0], tile)
            T.ptx_wait_group(0)
            T.sync_threads()
            T.copy(tile, B[b * 32, 0])

    return main


@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (65, 63), (1, 200), (127, 1)])
def test_a_copy_through_shared_memory_keeps_every_element_with_any_tail(clean, normal, rows, columns):
    a = normal(rows, columns, dtype="float16")
    assert np.array_equal(clean(through_shared(rows, columns, 32, 64), {"A": a}), a)


@pytest.mark.parametrize("rows", [1, 31, 32, 100])
def test_a_dynamic_row_count_is_taken_from_the_argument(clean, normal, rows):
    a = normal(rows, 48, dtype="float16")
    assert np.array_equal(clean(dynamic_rows(48), {"A": a}), a)


@pytest.mark.parametrize(
    "out_dtype", ["bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2", "int32", "int8"]
)
def test_a_copy_converts_as_the_target_does(clean, normal, out_dtype):
    torch = pytest.importorskip("torch")
    a = normal(32, 64) * (30 if out_dtype == "int8" else 100)
    got = clean(through_shared(32, 64, 32, 64, "float32", out_dtype), {"A": a})
    expected = torch.from_numpy(a).to(getattr(torch, out_dtype)).to(torch.float32).numpy()
    assert np.array_equal(got.astype(np.float32), expected)


def test_fp8_saturates_and_float16_overflows_to_infinity():
    a = np.array([[1000.0, -1e6, 448.0, 70000.0]], np.float32).repeat(8, 1)
    fp8 = run(through_shared(1, 32, 1, 32, "float32", "float8_e4m3fn"), {"A": a}).outputs["B"]
    assert fp8.astype(np.float32)[0, ::8].tolist() == [448.0, -448.0, 448.0, 448.0]
    result = run(through_shared(1, 32, 1, 32, "float32", "float16"), {"A": a})
    assert np.isinf(result.outputs["B"][0, 8])
    assert [finding.kind for finding in result.findings] == ["non-finite"]


def test_a_float_that_an_integer_cannot_hold_saturates_and_is_found():
    a = np.array([[1000.0, -1000.0, 3.9, -3.9]], np.float32).repeat(8, 1)
    result = run(through_shared(1, 32, 1, 32, "float32", "int8"), {"A": a})
    assert result.outputs["B"][0, ::8].tolist() == [127, -128, 3, -3]
    assert [finding.kind for finding in result.findings] == ["float-to-int"]


def test_extents_of_one_are_skipped_between_ranks(clean, normal):
    a = normal(3, 5, 1, 64)
    assert np.array_equal(clean(between_ranks(), {"A": a}), a[:, :, 0])


def test_single_elements_are_copied_and_converted(clean, normal):
    a = normal(8)
    assert np.array_equal(clean(single_elements(), {"A": a}), a[::-1].astype(np.float16))


def test_a_part_of_a_staged_tile_is_its_own_region(clean, normal):
    a = normal(2, 16, 32)
    assert np.array_equal(clean(part_of_a_stage(), {"A": a}), np.hstack([a[0, :, 16:], a[1, :, :16]]))


def test_a_load_outside_gives_the_annotated_safe_value(clean, normal):
    a = normal(30, 16)
    got = clean(outside_with_safe_value(), {"A": a})
    assert np.array_equal(got[:30], a)
    assert (got[30:] == -5).all()


def test_fill_and_clear_reach_whole_tiles_and_parts(clean):
    got = clean(fills(), {})
    assert (got[:3, 2:4] == 1.5).all()
    assert (got[:3, :2] == 0).all()
    assert np.isneginf(got[3]).all()


def test_layouts_swizzles_and_copy_hints_change_no_value(clean, normal):
    a = normal(64, 64, dtype="float16")
    assert np.array_equal(clean(with_hints(), {"A": a}), a)


def test_a_tile_is_transposed(clean, normal):
    a = normal(16, 32)
    assert np.array_equal(clean(transposed(), {"A": a}), a.T)


def test_an_asynchronous_copy_has_landed_after_its_wait(clean, normal):
    a = normal(64, 32, dtype="float16")
    assert np.array_equal(clean(asynchronous(), {"A": a}), a)


def test_inputs_are_never_modified(normal):
    a = normal(64, 64, dtype="float16")
    before = a.copy()
    run(through_shared(64, 64, 32, 64), {"A": a})
    assert np.array_equal(a, before)


def test_bfloat16_arrays_come_back_in_their_own_format(clean, normal):
    a = normal(32, 64, dtype="bfloat16")
    assert clean(through_shared(32, 64, 32, 64, "bfloat16"), {"A": a}).dtype == ml_dtypes.bfloat16


def multicast():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(2, threads=128, cluster_dims=(2, 1, 1)) as _:
            tile = T.alloc_shared((64, 64), "float16")
            T.copy_cluster(A, tile, cluster_mask=3)
            T.copy(tile, B)

    return main


def test_what_is_not_modelled_is_refused_by_name():
    with pytest.raises(UnsupportedError, match="cluster"):
        run(multicast(), {})


def shifted(distance):
    """A tile copied onto itself, ``distance`` elements further."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32) as _:
            tile = T.alloc_shared((64,), "float32")
            T.copy(A, tile)
            T.copy(tile[0:32], tile[distance : distance + 32])
            T.copy(tile, B)

    return main


def test_a_copy_onto_a_part_of_its_source_is_a_race(normal):
    (finding,) = run(shifted(16), {"A": normal(64)}).errors
    assert finding.kind == "iteration-race"
    assert "the two regions of tile overlap" in finding.message


@pytest.mark.parametrize("distance", [0, 32])
def test_a_copy_within_a_tile_that_stays_clear_of_its_source_is_right(clean, normal, distance):
    a = normal(64)
    b = a.copy()
    b[distance : distance + 32] = a[:32]
    assert np.array_equal(clean(shifted(distance), {"A": a}), b)


def through_registers():
    """Each thread copies its own row to its registers, halves it there, and copies it out in another dtype."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 32), "float32")):
        with T.Kernel(2, threads=64) as b:
            own = T.alloc_local((32,), "float16")
            wide = T.alloc_local((32,), "float32")
            tx = T.get_thread_binding()
            T.copy(A[tx, b * 32 : b * 32 + 32], own)
            T.copy(own, wide)
            T.copy(wide[b * 16 : b * 16 + 16], B[tx, b * 16 : b * 16 + 16])

    return main


def filled_registers():
    @T.prim_func
    def main(B: T.Tensor((64, 8), "float32")):
        with T.Kernel(1, threads=64) as _:
            own = T.alloc_local((8,), "float32")
            total = T.alloc_var("float32")
            tx = T.get_thread_binding()
            T.fill(own, tx)
            T.clear(own[2:4])
            T.clear(total)
            for i in T.serial(8):
                total += own[i]
            T.fill(own[7], total)
            T.copy(own, B[tx, 0:8])

    return main


def fragment_to_registers():
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32) as _:
            tile = T.alloc_fragment((32,), "float32")
            own = T.alloc_local((32,), "float32")
            T.copy(A, tile)
            T.copy(tile, own)
            B[T.get_thread_binding()] = own[0]

    return main


def test_each_thread_copies_to_and_from_its_own_registers(clean, normal):
    a = normal(64, 64, dtype="float16")
    expected = np.hstack([a[:, :16], a[:, 48:]]).astype(np.float32)
    assert np.array_equal(clean(through_registers(), {"A": a}), expected)


def test_registers_are_filled_and_cleared_in_part_or_whole(clean):
    thread = np.arange(64, dtype=np.float32)
    expected = np.repeat(thread[:, None], 8, axis=1)
    expected[:, 2:4] = 0
    expected[:, 7] = 6 * thread
    assert np.array_equal(clean(filled_registers(), {}), expected)


def test_a_copy_between_a_fragment_and_registers_is_refused(normal):
    with pytest.raises(UnsupportedError, match="which the threads share"):
        run(fragment_to_registers(), {"A": normal(32)})
