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
    # 160 columns are 20 vectors a row, which 128 threads do not share evenly: 10 accesses of 4 registers a thread.
    demand = demand_of(GEMM, "sm_80", tile__BLOCK_N=160)
    assert demand.beside == (64 + 80) // 4 + 24 + 10 * 4


def test_producers_copy_with_registers_of_their_own():
    assert demand_of(GEMM, "sm_90a", tile__BLOCK_N=160).beside == 26


def test_what_does_not_go_by_cp_async_passes_through_registers_a_batch_at_a_time():
    # Rows of b that start anywhere leave 64 scalars a thread, in even shares.
    odd = demand_of(GEMM, "sm_80", dims__N__values=[4095])
    assert odd.beside == 32 + 24 + 16
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
    # One warp group of consumers has as much from the launch.
    assert demand_of(GEMM, "sm_90a", **reads).beside == 26


def test_one_warp_group_of_consumers_reallocates_only_where_tilelang_does_it():
    tile = {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64, "stages": 4, "group_m": 8}
    assert demand_of(GEMM, "sm_90a", schedule="persistent", tile=tile).available == 255
    assert demand_of(GEMM, "sm_90a", schedule="persistent", tile={**tile, "BLOCK_M": 128}).available == 240
    assert demand_of(GEMM, "sm_90a").available == 240


def test_threads_without_a_row_hold_nothing_of_the_others():
    # 32 lanes a row: 128 threads hold 4 rows a pass, and with one row three warps are idle.
    assert demand_of(NORM, "sm_80").total == 8 * 1024 // 128 // 2
    assert demand_of(NORM, "sm_80", tile__BLOCK_M=1).total == 1024 // 32 // 2


def test_a_row_that_is_read_again_stays_converted_to_the_dtype_of_the_sum():
    layer = {"compute__norm": "layer", "compute__y": "(x - mean) * rstd"}
    assert demand_of(NORM, "sm_80", **layer).total == 8 * 1024 // 128
    assert demand_of(NORM, "sm_80", **layer, compute__accum="float64").total == 2 * 8 * 1024 // 128


def test_a_row_that_sum_and_result_convert_alike_stays_converted_but_for_some():
    assert demand_of(NORM, "sm_80").converted == 8 * 1024 // 128 - 16
    assert demand_of(NORM, "sm_80", tensors__x__dtype="float32", tile__BLOCK_C=512).converted == 0
    assert demand_of(NORM, "sm_80", compute__norm="layer", compute__y="(x - mean) * rstd").converted == 0


def test_a_row_spills_by_what_it_holds_or_by_what_it_converts():
    assert demand_of(NORM, "sm_80").fits is True
    few = demand_of(NORM, "sm_80", tile__BLOCK_M=32, dims__C__values=[1024])
    assert (few.total, few.converted) == (128, 240)
    assert few.fits is True
    assert demand_of(NORM, "sm_80", tile__BLOCK_M=36).fits is False


def test_eight_bits_stay_converted():
    eight = {"tensors__x__dtype": "float8_e4m3fn", "tensors__y__dtype": "float8_e4m3fn", "tile__BLOCK_C": 512}
    assert demand_of(NORM, "sm_90a", **eight).total == 8 * 1024 // 128
