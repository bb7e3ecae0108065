import pytest

from tilegen.lowering.instruction import (
    GemmPath,
    GemmRefusal,
    accumulator_ok,
    gemm_path,
    operand_continuity,
    wgmma_n,
)
from tilegen.lowering.partition import Partition
from tilegen.targets import target


def path(m, n, k, threads, chip="sm_90a", policy="square", operand="float16", accumulator="float32", **flags):
    return gemm_path(target(chip), m, n, k, threads, policy, operand, accumulator, **flags)


@pytest.mark.parametrize(
    ("columns", "n"),
    [(256, 256), (192, 192), (160, 160), (96, 96), (272, 16), (512, 256), (24, 8), (104, 8), (320, 160)],
)
def test_width_of_wgmma(columns, n):
    assert wgmma_n(columns) == n


def test_hopper_takes_wgmma():
    assert path(128, 256, 64, 256) == GemmPath("wgmma", 128, 16, Partition(4, 2), "")
    assert path(64, 512, 64, 256, policy="full_col").n == 256


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ({"m": 32, "n": 64, "k": 64, "threads": 128}, "M = 32"),
        ({"m": 128, "n": 64, "k": 64, "threads": 64}, "64 threads"),
        ({"m": 128, "n": 64, "k": 8, "threads": 128}, "K = 8"),
        ({"m": 128, "n": 64, "k": 64, "threads": 128, "operand": "float32"}, "float32"),
        ({"m": 128, "n": 64, "k": 64, "threads": 128, "operand": "float8_e4m3fn"}, "B transposed"),
        ({"m": 128, "n": 64, "k": 64, "threads": 128, "b_in_shared": False}, "shared"),
    ],
)
def test_what_drops_hopper_to_mma(case, why):
    found = path(**case)
    assert isinstance(found, GemmPath)
    assert found.instruction == "mma.sync"
    assert why in found.slower_because


def test_fp8_with_b_transposed_takes_wgmma():
    assert path(128, 128, 64, 128, operand="float8_e4m3fn", transpose_b=True).instruction == "wgmma"


@pytest.mark.parametrize("chip", ["sm_80", "sm_86", "sm_89", "sm_120a"])
def test_mma_is_the_fastest_where_there_is_nothing_else(chip):
    assert path(128, 128, 64, 128, chip=chip) == GemmPath("mma.sync", 8, 16, Partition(2, 2), "")


def test_a_fragment_accumulator_keeps_blackwell_off_tcgen05():
    found = path(128, 128, 64, 128, chip="sm_100a")
    assert found.instruction == "mma.sync"
    assert "tensor memory" in found.slower_because


def test_amd_takes_mfma_of_sixteen():
    assert path(128, 64, 64, 256, chip="gfx942").instruction == "mfma"
    assert path(128, 64, 64, 32, chip="gfx942").rule == "I1"
    assert path(128, 24, 64, 256, chip="gfx942").rule == "D4"


@pytest.mark.parametrize(
    ("case", "stage", "rule"),
    [
        ({"m": 96, "n": 128, "k": 64, "threads": 128}, "lowering", "D3"),
        ({"m": 40, "n": 128, "k": 64, "threads": 128}, "lowering", "D4"),
        ({"m": 128, "n": 24, "k": 64, "threads": 128}, "lowering", "D5"),
        ({"m": 128, "n": 48, "k": 64, "threads": 256, "policy": "full_col"}, "lowering", "D5"),
        ({"m": 128, "n": 128, "k": 24, "threads": 128}, "lowering", "D8"),
        ({"m": 128, "n": 128, "k": 16, "threads": 128, "operand": "float8_e4m3fn", "transpose_b": True}, "nvcc", "D8"),
        ({"m": 128, "n": 128, "k": 64, "threads": 128, "operand": "bfloat16", "accumulator": "bfloat16"}, "nvcc", "D9"),
        ({"m": 128, "n": 128, "k": 64, "threads": 128, "chip": "sm_80", "operand": "float8_e4m3fn"}, "run", "D11"),
        ({"m": 192, "n": 16, "k": 32, "threads": 512, "chip": "gfx942"}, "run", "I3"),
    ],
)
def test_what_is_refused(case, stage, rule):
    found = path(**case)
    assert isinstance(found, GemmRefusal)
    assert (found.stage, found.rule) == (stage, rule)


def test_accumulators():
    chip = target("sm_90a")
    assert accumulator_ok(chip, "float16", "float16")
    assert not accumulator_ok(chip, "bfloat16", "float16")
    assert accumulator_ok(chip, "int8", "int32")
    assert not accumulator_ok(chip, "int8", "float32")


def test_the_swizzle_of_a_row_along_n_stops_at_one_instruction():
    hopper = path(64, 128, 64, 512, policy="full_row")  # four warps along N, 32 columns each
    assert operand_continuity(hopper, "B", 128, transposed=False) == 32
    assert operand_continuity(hopper, "B", 64, transposed=True) == 64
    assert operand_continuity(hopper, "A", 64, transposed=False) == 64
    assert operand_continuity(path(256, 128, 64, 128), "A", 256, transposed=True) == 64
    assert operand_continuity(path(128, 128, 64, 128, chip="sm_80"), "B", 128, transposed=False) == 128
