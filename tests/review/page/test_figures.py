"""The tile picture, ownership, the shared-memory bar, banks and the roofline."""

from __future__ import annotations

import pytest

from tests.review.page.conftest import PROJECT, main, model, spec, view, with_tiles
from tilegen.lowering.shared_memory import static_bytes
from tilegen.plan.model import Scope
from tilegen.plan.resources import shared_bytes
from tilegen.review.page.measured import Measurement, parse
from tilegen.review.page.memory import shared_bar
from tilegen.review.page.ownership import accumulators, exchanges, row_share
from tilegen.review.page.roofline import rooflines
from tilegen.review.page.tiles import OUTPUT, tile_picture, tones_of
from tilegen.review.page.views import View


def test_every_buffer_has_a_box_of_its_extents() -> None:
    for name in ("gemm_relu", "mla_decode", "rms_silu"):
        for entry in model(name).drawn:
            for figures, kernel in zip(entry.kernels, entry.view.plan.kernels, strict=True):
                if figures.name != kernel.name:
                    continue
                named = {part for level in figures.tiles.levels for box in level.boxes for part in box.name.split(", ")}
                assert named == {buffer.name for buffer in kernel.buffers}


def test_stages_lie_behind_one_another_whether_tilelang_or_the_source_makes_them() -> None:
    for arch, columns, expected in (("sm_90a", 256, (256, 64, 4)), ("sm_80", 128, (128, 32, 4))):
        seen = with_tiles("gemm_relu", arch, BLOCK_N=columns, stages=4)
        box = next(box for level in tile_picture(*main(seen)).levels for box in level.boxes if box.name == "b_shared")
        assert (box.width, box.height, box.stages) == expected


def test_a_tile_has_the_colour_of_its_tensor_and_an_accumulator_that_of_the_output() -> None:
    _, kernel = main(view("mla_decode", "sm_90a-4"))
    tones = tones_of(kernel)
    assert tones["q_shared"] == tones["q_nope"] != tones["kv"]
    # The rotary tile of the keys holds P later; it keeps the colour of what it was loaded from.
    assert tones["kv_shared"] == tones["k_pe_shared"] == tones["kv"]
    assert tones["acc_left"] == tones["out"] == OUTPUT


def test_the_moves_name_the_instruction_that_carries_them() -> None:
    hopper = {
        step.text: step.how for level in _levels(with_tiles("gemm_relu", "sm_90a", BLOCK_N=256)) for step in level
    }
    ampere = {step.text: step.how for level in _levels(with_tiles("gemm_relu", "sm_80", BLOCK_N=128)) for step in level}
    assert hopper["a → a_shared"] == "TMA"
    assert hopper["c_upper → c"] == "TMA store"
    assert hopper["acc_upper += a_shared · b_shared"] == "WGMMA m64n256k16"
    assert ampere["a → a_shared"] == "cp.async"
    assert ampere["acc += a_shared · b_shared"] == "mma.sync m16n8k16"


def _levels(seen: View) -> list[tuple]:  # type: ignore[type-arg]
    return [level.steps for level in tile_picture(*main(seen)).levels]


def test_delayed_gives_each_warp_group_half_of_the_output() -> None:
    sized, kernel = main(view("mla_decode", "sm_90a-4"))
    output = next(entry for entry in accumulators(sized, kernel) if len(entry.names) == 3)
    assert (output.rows, output.columns) == (64, 512)
    assert [(share.owner, share.x, share.width, share.height) for share in output.shares] == [
        ("warp group 0", 0, 256, 64),
        ("warp group 1", 256, 128, 64),
        ("warp group 1", 384, 128, 64),
    ]
    # A warp has 16 of the 64 rows of its group.
    assert output.shares[0].stripes == ((0, 16), (16, 16), (32, 16), (48, 16))
    assert [(entry.giver, entry.buffer, entry.taker, entry.barrier) for entry in exchanges(kernel)] == [
        ("warp group 0", "k_pe_shared", "warp group 1", "P_READY"),
        ("warp group 0", "factor_shared", "warp group 1", ""),
        ("warp group 0", "sum_shared", "warp group 1", ""),
    ]


def test_persistent_stacks_the_rows_of_its_consumers() -> None:
    (output,) = accumulators(*main(view("gemm_relu", "sm_90a-9")))
    assert [(share.accumulator, share.y, share.height) for share in output.shares] == [
        ("acc_upper", 0, 64),
        ("acc_lower", 64, 64),
    ]


def test_shares_cover_every_accumulator_once() -> None:
    for name in ("gemm_relu", "mla_decode"):
        for entry in model(name).drawn:
            for figures in entry.kernels:
                for accumulator in figures.accumulators:
                    area = sum(share.width * share.height for share in accumulator.shares)
                    assert area == accumulator.rows * accumulator.columns
                    corners = {(share.x, share.y) for share in accumulator.shares}
                    assert len(corners) == len(accumulator.shares)


def test_plain_mla_hands_p_between_its_warps() -> None:
    _, kernel = main(view("mla_decode", "sm_80-3"))
    assert [entry.buffer for entry in exchanges(kernel)] == ["p_shared"]


def test_a_row_is_shared_by_its_lanes_sixteen_bytes_each() -> None:
    sized, kernel = main(view("rms_silu", "sm_90a-8"))
    rows = row_share(sized, kernel)
    # C = 256 with BLOCK_C = 128: 16 lanes of 8 halves, twice.
    assert rows is not None
    assert (rows.length, rows.lanes, rows.vector, rows.sweeps, rows.covered) == (256, 16, 8, 2, 256)


def test_the_bar_is_the_allocators_own_arithmetic() -> None:
    for name in ("gemm_relu", "mla_decode", "rms_silu"):
        for entry in model(name).views:
            for kernel in entry.plan.kernels:
                bar = shared_bar(entry.sized, kernel, {})
                assert bar is not None
                dynamic = entry.sized.number(shared_bytes(kernel, entry.plan.target))
                assert dynamic is not None
                static = static_bytes(kernel.barriers) if kernel.barriers else 0
                assert bar.used == dynamic + static
                assert all(part.offset + part.size <= bar.used for part in bar.segments)


def test_buffers_that_share_bytes_stand_above_one_another() -> None:
    sized, kernel = main(view("gemm_relu", "sm_90a-1", PROJECT))
    bar = shared_bar(sized, kernel, {})
    assert bar is not None
    # Three stages of 128 x 64 and 64 x 256 halves, and C of 128 x 256 in the place that they leave.
    assert {part.name: (part.size, part.row) for part in bar.segments} == {
        "barriers": (1024, 0),
        "b_shared": (98_304, 0),
        "a_shared": (49_152, 0),
        "c_shared": (65_536, 1),
    }
    assert bar.used == 147_456 + 1024


def test_banks_show_a_conflict_and_where_there_is_none() -> None:
    pictures = {picture.names: picture for picture in model("mla_decode").banks if "sm_90a-4" in picture.used_by}
    row_major = pictures[("q_pe_shared",)]
    assert (row_major.down_ways, row_major.along_ways) == (8, 1)
    assert row_major.banks[1] == row_major.banks[0] == (0, 4, 8, 12, 16, 20, 24, 28)
    swizzled = pictures[("q_shared", "kv_shared")]
    # The 128-byte swizzle: row r has chunk c at c xor r.
    assert swizzled.banks == tuple(tuple((row ^ chunk) * 4 for chunk in range(8)) for row in range(8))
    assert swizzled.free


def test_the_roof_is_the_lower_of_memory_and_tensor_cores() -> None:
    roof = next(entry for entry in model("gemm_relu").rooflines if entry.arch == "sm_90a")
    assert roof.ridge == pytest.approx(989.4e12 / 4.8e12)
    point = next(entry for entry in roof.cases if entry.view == "sm_90a-9")
    shape = view("gemm_relu", "sm_90a-9").sized.shape
    m, n, k = (shape[name] for name in "MNK")
    assert point.shape == f"M = {m}, N = {n}, K = {k}"
    assert point.intensity == pytest.approx(m * n * k / (m * k + k * n + m * n))
    assert (point.attainable, point.bound) == (pytest.approx(989.4e12), "tensor cores")
    assert point.floor_us == pytest.approx(2 * m * n * k / 989.4e12 * 1e6)


def test_a_measured_shape_stands_where_its_time_puts_it() -> None:
    run = Measurement("sm_90a", "NVIDIA H200", {"M": 4096, "N": 4096, "K": 4096}, "float16", 2, 177.7e-6, "H200")
    found = rooflines(spec("gemm_relu"), list(model("gemm_relu").views), [run])
    points = {roof.arch: roof.measured for roof in found}
    assert points["sm_80"] == ()
    (point,) = points["sm_90a"]
    assert point.reached == pytest.approx(2 * 4096**3 / 177.7e-6)
    assert point.share == pytest.approx(2 * 4096**3 / 177.7e-6 / 989.4e12)
    assert view("gemm_relu", point.view).plan.tiles.items() >= {"schedule": "persistent", "BLOCK_N": 256}.items()


def test_results_of_other_kernels_and_other_files_are_passed_over() -> None:
    result = """{"format": 1, "kernel": "KERNEL", "machine": {"card": "NVIDIA H200", "arch": "sm_90a"}, "rows": [
        {"dims": {"M": 16, "N": 1024, "K": 1024}, "dtype": "float16",
         "times": {"cold": {"ours": {"seconds": {"median": 1e-5, "low": 1e-5, "high": 1e-5}, "ratio": null}}}}]}"""
    (found,) = parse(spec("gemm_relu"), result.replace("KERNEL", "gemm_relu"))
    assert (found.arch, found.seconds, found.dims["M"]) == ("sm_90a", 1e-5, 16)
    for text in (result, "", "[]", "{}", "null", '{"kernel": "gemm_relu"}', "not json"):
        assert parse(spec("gemm_relu"), text) == []


def test_every_shared_tile_of_two_rows_or_more_has_a_layout() -> None:
    for entry in model("gemm_relu").drawn:
        (kernel,) = entry.view.plan.kernels
        tiles = {buffer.name for buffer in kernel.scope(Scope.SHARED) if len(buffer.shape) > 1}
        shown = {
            name for picture in model("gemm_relu").banks if entry.view.id in picture.used_by for name in picture.names
        }
        assert shown == tiles
