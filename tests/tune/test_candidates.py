"""Which tilings are proposed: proved ones alone, the most promising first, the same in every run."""

from pathlib import Path

import pytest

from tilegen.plan.cost import Work, predicted_s
from tilegen.plan.roofline import Roof
from tilegen.spec import load
from tilegen.targets import target
from tilegen.tune.candidate import Goal, class_of, condition_of, default, holds, proposals, proved, ranked

SPECS = Path(__file__).parent.parent.parent / "specs"
PART = target("sm_90a").part
SHAPES = {
    "gemm_relu": {"M": 256, "N": 8192, "K": 8192},
    "rms_silu": {"M": 419430, "C": 320},
    "mla_decode": {"B": 64, "H": 128, "S": 4096, "D_nope": 512, "D_rope": 64},
}


def goal_of(kernel, dims=None, arch="sm_90a"):
    spec, dims = load(SPECS / f"{kernel}.toml"), dims or SHAPES[kernel]
    text = class_of(spec, dims)
    return Goal(
        spec, arch, spec.dtypes(spec.tensors[0].name)[0], dims, condition_of(spec, text), text, target(arch).part
    )


@pytest.mark.parametrize("kernel", SHAPES)
def test_every_proposal_is_proved_for_its_whole_class_and_comes_in_the_order_of_the_model(kernel):
    goal = goal_of(kernel)
    found = proposals(goal, 6)
    assert found
    assert all(proved(goal, candidate) for candidate in found)
    assert [c.predicted_s for c in found] == sorted(c.predicted_s for c in found)
    assert [c.key for c in found] == [c.key for c in proposals(goal, 6)]


@pytest.mark.parametrize(
    ("kernel", "dims", "near"),
    [
        ("gemm_relu", {"M": 4096, "N": 4096, "K": 4096}, 6),
        ("gemm_relu", {"M": 1, "N": 14336, "K": 4096}, 24),
        ("gemm_relu", {"M": 64, "N": 8192, "K": 8192}, 24),
        ("mla_decode", SHAPES["mla_decode"], 2),
    ],
)
def test_the_model_puts_what_was_measured_to_be_best_among_the_first(kernel, dims, near):
    goal = goal_of(kernel, dims)
    best = default(goal)
    same = [
        {n: c.tiles[n] for n in c.tiles if n.startswith("BLOCK_") or n == "schedule"} for c in proposals(goal, near)
    ]
    assert {n: v for n, v in best.tiles.items() if n.startswith("BLOCK_") or n == "schedule"} in same


def test_a_tiling_that_is_illegal_or_slow_somewhere_in_the_class_is_not_proved():
    goal = goal_of("gemm_relu", {"M": 4096, "N": 4096, "K": 4096})
    good = default(goal)
    assert proved(goal, good)
    for change in ({"BLOCK_N": 248}, {"stages": 40}, {"BLOCK_M": 96}):
        assert not proved(goal, type(good)({**good.tiles, **change}, 0.0)), change


def test_the_default_is_what_the_rules_of_the_spec_give():
    tiles = default(goal_of("gemm_relu")).tiles
    assert (tiles["schedule"], tiles["BLOCK_M"], tiles["BLOCK_N"], tiles["stages"]) == ("stream_k", 128, 128, 6)


def test_schedules_of_another_chip_are_not_offered():
    found = ranked(goal_of("gemm_relu", arch="sm_80"))
    assert {candidate.tiles["schedule"] for candidate in found} == {"plain"}


def test_a_class_fixes_static_dims_and_takes_dynamic_ones_by_powers_of_two():
    spec = load(SPECS / "gemm_relu.toml")
    assert class_of(spec, {"M": 256, "N": 8192, "K": 1024}) == "129 <= M <= 256 and N == 8192 and K == 1024"
    assert class_of(spec, {"M": 257, "N": 8192, "K": 1024}).startswith("257 <= M <= 512 and")
    assert class_of(spec, {"M": 1, "N": 8192, "K": 1024}).startswith("M == 1 and")
    assert class_of(spec, {"M": 2, "N": 8192, "K": 1024}).startswith("2 <= M <= 2 and")
    assert all(holds(goal_of("gemm_relu", {"M": m, "N": 8192, "K": 1024})) for m in (1, 2, 3, 255, 256, 257))


def test_the_model_counts_waves_bytes_in_flight_and_blocks_that_do_not_fit():
    roof = Roof(flops=0, bytes_moved=1e9, compute_s=0, memory_s=0)

    def seconds(**change):
        base = {"blocks": 132, "resident": 1, "clocks": 1e6, "loaded": 0, "in_flight": 64 * 1024}
        return predicted_s(Work(**{**base, **change}), roof, PART, 132)

    assert seconds(blocks=133) > 1.8 * seconds(), "one block more than SMs is a second wave"
    assert seconds(clocks=1, in_flight=4096) > 4 * seconds(clocks=1), "few bytes in flight leave DRAM idle"
    assert seconds(resident=0) == float("inf")
