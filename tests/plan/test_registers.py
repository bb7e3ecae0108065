"""The estimate of what a thread needs in registers, term by term; ``docs/truth`` holds the whole against ptxas."""

from copy import deepcopy
from dataclasses import replace

from tilegen.check.examples import to_toml
from tilegen.expr import evaluate
from tilegen.plan.instances import instances
from tilegen.plan.registers import Demand, demands
from tilegen.spec import load_bytes

GEMM = {
    "kernel": "product",
    "family": "gemm",
    "schedule": "plain",
    "dims": {"M": {"dynamic": True, "max": 65_536}, "N": {"values": [4096]}, "K": {"values": [4096]}},
    "tensors": {
        "a": {"shape": "M K", "dtype": "float16"},
        "b": {"shape": "K N", "dtype": "same_as(a)"},
        "c": {"shape": "M N", "dtype": "float16"},
    },
    "compute": {"accum": "float32", "c": "relu(acc)"},
    "tile": {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "threads": 128, "stages": 2},
}
DECODE = {
    "kernel": "decode",
    "family": "attention",
    "variant": "mla_decode",
    "schedule": "plain",
    "dims": {
        "B": {"dynamic": True, "max": 4096},
        "H": {"values": [16]},
        "S": {"dynamic": True, "max": 65_536},
        "D_nope": {"values": [256]},
        "D_rope": {"values": [64]},
    },
    "tensors": {"q_nope": {"shape": "B H D_nope", "dtype": "bfloat16"}},
    "compute": {"scale": "(D_nope + D_rope) ** -0.5"},
    "tile": {"BLOCK_H": 128, "BLOCK_N": 64, "threads": 128, "stages": 1, "policy": "full_col", "num_split": 4},
}
NORM = {
    "kernel": "norm",
    "family": "row_norm",
    "dims": {"M": {"dynamic": True, "max": 65_536}, "C": {"values": [1024]}},
    "tensors": {"x": {"shape": "M C", "dtype": "float16"}, "y": {"shape": "M C", "dtype": "float16"}},
    "compute": {"norm": "rms", "eps": 1e-5, "accum": "float32", "y": "x * rstd"},
    "tile": {"BLOCK_C": 256, "threads": 128, "BLOCK_M": 8, "preload": False, "blocks_per_sm": 1},
}


def demand_of(tables, arch, **changes) -> Demand:
    """Of the first group of threads of the first kernel, at the first shape; a change is ``tile__BLOCK_N=160``."""
    tables = deepcopy({**tables, "target": {arch: {}}})
    for path, value in changes.items():
        *keys, last = path.split("__")
        table = tables
        for key in keys:
            table = table[key]
        table[last] = value
    instance = next(iter(instances(load_bytes(to_toml(tables).encode(), "sample.toml"), arch)))
    plan = instance.plan()
    demand = demands(plan, plan.kernels[0], lambda size: int(evaluate(size, instance.dims)))[0]
    held = {name: evaluate(count, instance.dims) for name, count in demand.held.items()}
    return replace(demand, held=held, converted=evaluate(demand.converted, instance.dims))


def test_copies_in_even_shares_keep_no_addresses():
    # 64 x 128 over 128 threads: 16 vectors a row, 8 rows a round. The operands of a 64 x 64 warp tile are 32 registers.
    assert demand_of(GEMM, "sm_80").beside == 32 + 24


def test_each_access_of_a_copy_in_uneven_shares_keeps_its_address():
    # 160 columns are 20 vectors a row, which 128 threads do not share evenly: 10 accesses of 5 registers a thread.
    demand = demand_of(GEMM, "sm_80", tile__BLOCK_N=160)
    assert demand.beside == (64 + 80) // 4 + 24 + 10 * 5


def test_each_k_step_up_to_the_width_of_a_swizzle_has_an_address_for_either_operand():
    besides = [demand_of(GEMM, "sm_80", tile__BLOCK_K=depth).beside for depth in (16, 32, 64, 128)]
    assert [beside - 32 for beside in besides] == [16 + 2, 16 + 4, 16 + 8, 16 + 8]


def test_no_more_than_a_part_of_the_larger_operand_is_in_flight():
    # One warp: 16 x 256 is 4 registers of A, and of the 64 of B no more than 32.
    tile = {"BLOCK_M": 16, "BLOCK_N": 256, "BLOCK_K": 64, "threads": 32, "stages": 2}
    assert demand_of(GEMM, "sm_80", tile=tile).beside == 4 + 32 + 24


def test_one_k_tile_is_copied_before_there_are_accumulators():
    assert demand_of(GEMM, "sm_80", tile__BLOCK_N=160, dims__K__values=[64]).beside == (64 + 80) // 4 + 24


def test_an_epilogue_holds_each_value_of_16_bit_accumulators_in_a_register_of_its_own():
    half = {"compute__accum": "float16", "tensors__residual": {"shape": "M N", "dtype": "float16"}}
    tile = {"BLOCK_M": 128, "BLOCK_N": 192, "BLOCK_K": 64, "threads": 128, "stages": 2}
    demand = demand_of(GEMM, "sm_80", **half, compute__c="acc + residual", tile=tile)
    assert (demand.total, demand.beside) == (96, 192 + 26)
    # In pairs without further tensors, and one a register already where they are wider.
    assert demand_of(GEMM, "sm_80", compute__accum="float16", tile=tile).beside == 16 + 24 + 24 + 12 * 5
    wide = {**half, "compute__accum": "float32", "compute__c": "acc + residual"}
    assert demand_of(GEMM, "sm_80", **wide, tile=tile).beside == 16 + 24 + 24 + 12 * 5


def test_rows_that_no_tensor_has_are_not_held_by_what_goes_straight_to_it():
    # 128 rows a warp, 16 heads: 16 of 128 rows of the 256 columns over 4 warps, and all of the scores.
    demand = demand_of(DECODE, "sm_80")
    assert demand.held == {"scores": 128 * 64 // 128, "acc": 16 * 256 // 128}
    assert demand_of(DECODE, "sm_80", dims__H__values=[40]).held["acc"] == 48 * 256 // 128
    assert demand_of(DECODE, "sm_80", dims__H__values=[128]).held["acc"] == 128 * 256 // 128
    # Warps one above the other hold 32 rows each.
    assert demand_of(DECODE, "sm_80", tile__policy="full_row").held["acc"] == 16 * 256 // 32


def test_producers_copy_with_registers_of_their_own():
    assert demand_of(GEMM, "sm_90a", tile__BLOCK_N=160).beside == 26


def test_what_does_not_go_by_cp_async_passes_through_registers_a_batch_at_a_time():
    # Rows of b that start anywhere leave 64 scalars a thread, in even shares.
    odd = demand_of(GEMM, "sm_80", dims__N__values=[4095])
    assert odd.beside == 32 + 24 + 32
    few = {"BLOCK_M": 128, "BLOCK_N": 8, "BLOCK_K": 64, "threads": 128, "stages": 2}
    assert demand_of(GEMM, "sm_80", dims__N__values=[4095], tile=few).beside == (32 + 8) // 4 + 24 + 4


def test_a_batch_of_partial_tiles_is_in_flight_beside_the_accumulators():
    tile = {"BLOCK_M": 64, "BLOCK_N": 192, "BLOCK_K": 64, "stages": 4, "threads": 128, "STORE_N": 96}
    demand = demand_of(GEMM, "sm_90a", schedule="stream_k", tile=tile)
    assert (demand.total, demand.beside, demand.available) == (96, 26 + 64, 255)


def test_where_registers_are_reallocated_the_loads_of_the_epilogue_are_in_flight_together():
    residual = {"shape": "M N", "dtype": "float16"}
    reads = {"tensors__residual": residual, "compute__c": "acc + residual"}
    tile = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "stages": 4, "threads": 256, "STORE_N": 128}
    assert demand_of(GEMM, "sm_90a", schedule="stream_k", tile=tile, **reads).beside == 26 + 64 + 32
    assert demand_of(GEMM, "sm_90a", tile__threads=256, **reads).beside == 26 + 32
    # A division has a branch for its rare cases, and no load moves across it; nor across the guards of a moving tile.
    assert demand_of(GEMM, "sm_90a", tile__threads=256, **{**reads, "compute__c": "silu(acc) + residual"}).beside == 26
    moving = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "stages": 4, "group_m": 8}
    assert demand_of(GEMM, "sm_90a", schedule="persistent", tile=moving, **reads).beside == 26
    # One warp group of consumers has as much from the launch.
    assert demand_of(GEMM, "sm_90a", **reads).beside == 26


def test_one_warp_group_of_consumers_reallocates_only_where_tilelang_does_it():
    tile = {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64, "stages": 4, "group_m": 8}
    assert demand_of(GEMM, "sm_90a", schedule="persistent", tile=tile).available == 255
    assert demand_of(GEMM, "sm_90a", schedule="persistent", tile={**tile, "BLOCK_M": 128}).available == 240
    assert demand_of(GEMM, "sm_90a").available == 240


def test_as_many_producers_as_consumers_move_no_registers():
    # Rows of 4,095 float16 are no multiple of 16 bytes, so that TMA does not carry b: 512 threads, 128 registers each.
    mixed = demand_of(GEMM, "sm_90a", tile__threads=256, dims__N__values=[4095])
    assert (mixed.available, mixed.beside) == (128, 26)
    assert demand_of(GEMM, "sm_90a", tile__threads=256).available == 240


def test_threads_without_a_row_hold_nothing_of_the_others():
    # 32 lanes a row: 128 threads hold 4 rows a pass, and with one row three warps are idle.
    assert demand_of(NORM, "sm_80").total == 8 * 1024 // 128 // 2
    assert demand_of(NORM, "sm_80", tile__BLOCK_M=1).total == 1024 // 32 // 2


def test_a_row_that_is_read_again_stays_converted_to_the_dtype_of_the_sum():
    layer = {"compute__norm": "layer", "compute__y": "(x - mean) * rstd"}
    assert demand_of(NORM, "sm_80", **layer).total == 8 * 1024 // 128
    assert demand_of(NORM, "sm_80", **layer, compute__accum="float64").total == 2 * 8 * 1024 // 128


ONE_ROW = {"tile__BLOCK_M": 4}
"""32 lanes a row, 4 warps: a thread has one row, of 32 values."""

GAMMA = {"tensors__gamma": {"shape": "C", "dtype": "float16"}, "compute__y": "x * rstd * gamma"}


def test_a_row_that_sum_and_result_convert_alike_stays_converted():
    assert demand_of(NORM, "sm_80", **ONE_ROW).converted == 32 + 16
    assert demand_of(NORM, "sm_80", **ONE_ROW, **GAMMA).converted == 32 + 16
    # Vectors that are loaded with the row are held beside it, and leave registers free as they are used up.
    assert demand_of(NORM, "sm_80", **ONE_ROW, **GAMMA, tile__preload=True).converted == 32 + 16
    assert demand_of(NORM, "sm_80", tensors__x__dtype="float32", tile__BLOCK_C=512).converted == 0
    assert demand_of(NORM, "sm_80", compute__norm="layer", compute__y="(x - mean) * rstd").converted == 0
    # float32 stays converted to float64, and of 16 bits the first half of the way.
    wide = {"tensors__x__dtype": "float32", "compute__accum": "float64", "tile__BLOCK_C": 128}
    assert demand_of(NORM, "sm_80", **ONE_ROW, **wide).converted == 2 * 32 + 16
    assert demand_of(NORM, "sm_80", **ONE_ROW, compute__accum="float64").converted == 32 + 16


def test_what_is_cheap_or_lies_behind_a_branch_is_converted_again():
    assert demand_of(NORM, "sm_80", **ONE_ROW, compute__y="silu(x * rstd)").converted == 0
    brain = {"tensors__x__dtype": "bfloat16", "tensors__y__dtype": "bfloat16"}
    assert demand_of(NORM, "sm_80", **ONE_ROW, **brain).converted == 32 + 16
    assert demand_of(NORM, "sm_80", **ONE_ROW, **brain, **GAMMA).converted == 32 - 16
    assert demand_of(NORM, "sm_80", **ONE_ROW, **brain, **GAMMA, tile__preload=True).converted == 32 + 16


def test_a_row_of_float32_needs_little_beside_it_unless_it_is_divided():
    rows = {**ONE_ROW, "tensors__x__dtype": "float32", "tensors__y__dtype": "float32", "tile__BLOCK_C": 128}
    assert demand_of(NORM, "sm_80", **rows).beside == 12
    assert demand_of(NORM, "sm_80", **rows, **GAMMA).beside == 12 + 2
    assert demand_of(NORM, "sm_80", **rows, compute__y="silu(x * rstd)").beside == 23
    assert demand_of(NORM, "sm_80", **rows, compute__accum="float64").beside == 23


def test_loads_of_float32_vectors_sink_below_the_sum():
    wide = {**GAMMA, "tensors__gamma": {"shape": "C", "dtype": "float32"}}
    demand = demand_of(NORM, "sm_80", **ONE_ROW, **wide, tile__preload=True)
    assert (demand.total, demand.converted) == (16 + 32, 32 + 16)


def test_several_rows_of_a_thread_are_converted_one_after_the_other_where_no_barrier_stands_between():
    # 32 lanes: 8 rows over 4 warps are two a thread, of 16 registers each, and one of them is converted.
    assert demand_of(NORM, "sm_80").converted == 32 + 16 + demand_of(NORM, "sm_80").beside
    # Vectors of 16 bits are converted once for both rows, and leave registers free as they are used up.
    assert demand_of(NORM, "sm_80", **GAMMA, tile__preload=True).converted == 32 + 16 + 2 * 16
    wide = {**GAMMA, "tensors__gamma": {"shape": "C", "dtype": "float32"}}
    assert demand_of(NORM, "sm_80", **wide, tile__preload=True).converted == 32 + 16 + 32
    # 64 lanes are two warps, which meet at a barrier for each row.
    assert demand_of(NORM, "sm_80", tile__BLOCK_C=512).converted == 2 * 32 + 16


def test_functions_and_divisions_of_float64_need_pairs_of_registers():
    single, double = (demand_of(NORM, "sm_80", compute__accum=accum) for accum in ("float32", "float64"))
    assert single.beside == double.beside == 23
    assert demand_of(NORM, "sm_80", compute__accum="float64", compute__y="silu(x * rstd)").beside == 23 + 32


def test_a_row_spills_by_what_it_holds_or_by_what_it_converts():
    rows = {"tile__BLOCK_C": 512}
    assert demand_of(NORM, "sm_80", **rows).fits is True
    few = demand_of(NORM, "sm_80", **rows, tile__BLOCK_M=28)
    assert (few.total, few.converted) == (112, 240)
    assert few.fits is True
    assert demand_of(NORM, "sm_80", **rows, tile__BLOCK_M=32).fits is False


def test_eight_bits_stay_converted():
    eight = {"tensors__x__dtype": "float8_e4m3fn", "tensors__y__dtype": "float8_e4m3fn", "tile__BLOCK_C": 512}
    assert demand_of(NORM, "sm_90a", **eight).total == 8 * 1024 // 128
