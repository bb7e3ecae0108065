"""Plans of the gemm schedules against figures worked out by hand."""

import pytest

from tests.families.gemm import by_rules, gemm
from tilegen.check.checker import check
from tilegen.expr import evaluate
from tilegen.plan.build import dtype_bindings, plan_of
from tilegen.plan.cases import cases
from tilegen.plan.model import Gemm
from tilegen.plan.resources import fragment_registers, shared_bytes, static_shared_bytes


def plan(spec):
    (case,) = cases(spec, "sm_90a")
    return plan_of(spec, "sm_90a", dtype_bindings(spec)[0], case)


def kernel(schedule, lines):
    found = plan(gemm((schedule, lines), n=4096, k=4096))
    return found.kernels[0], found.target


def test_a_persistent_tile_of_two_groups() -> None:
    found, chip = kernel("persistent", "BLOCK_M = 128\nBLOCK_N = 256\nBLOCK_K = 64\nstages = 4")
    # Four stages of (128 + 256) x 64 float16, and two halves of 64 x 128 on their way out.
    assert shared_bytes(found, chip) == 4 * 384 * 64 * 2 + 2 * 64 * 128 * 2 == 229_376
    assert static_shared_bytes(found) == 1024
    assert (found.launch.threads, found.launch.block_threads) == (256, 384)
    assert [(g.acc, g.m, g.n, g.k, g.threads) for g, _ in found.find(Gemm)] == [
        ("acc_upper", 64, 256, 64, 128),
        ("acc_lower", 64, 256, 64, 128),
    ]
    assert fragment_registers(found, found.buffer("acc_lower")) == 128


def test_a_persistent_tile_of_one_group() -> None:
    found, chip = kernel("persistent", "BLOCK_M = 64\nBLOCK_N = 128\nBLOCK_K = 64\nstages = 8")
    assert shared_bytes(found, chip) == 8 * 192 * 64 * 2 + 64 * 128 * 2
    assert found.launch.block_threads == 256
    assert [g.acc for g, _ in found.find(Gemm)] == ["acc_upper"]


def test_a_persistent_grid_is_one_block_for_each_sm_and_no_more_than_the_tiles() -> None:
    found, _ = kernel("persistent", "BLOCK_M = 128\nBLOCK_N = 256\nBLOCK_K = 64\nstages = 4")
    grid = found.launch.grid[0]
    assert evaluate(grid, {"M": 128, "N": 4096, "sm_count": 132}) == 16
    assert evaluate(grid, {"M": 4096, "N": 4096, "sm_count": 132}) == 132


def test_a_stream_k_tile() -> None:
    found, chip = kernel("stream_k", "BLOCK_M = 64\nBLOCK_N = 64\nBLOCK_K = 128\nstages = 6")
    # Six stages, 64 x 64 on its way out, and the ticket of four bytes, rounded up to 16.
    assert shared_bytes(found, chip) == 6 * 128 * 128 * 2 + 64 * 64 * 2 + 16
    assert found.launch.block_threads == 256
    assert evaluate(found.buffer("partial").elements, {"sm_count": 132}) == 2 * 132 * 64 * 64


def test_a_skinny_tile_is_swapped() -> None:
    found, chip = kernel("skinny", "BLOCK_M = 16\nBLOCK_N = 128\nBLOCK_K = 128\nstages = 5")
    assert shared_bytes(found, chip) == 5 * 144 * 128 * 2 + 16 * 128 * 2 + 16
    ((product, _),) = found.find(Gemm)
    assert (product.a, product.b, product.m, product.n) == ("b_shared", "a_shared", 128, 16)
    assert (product.transpose_a, product.transpose_b, product.policy) == (True, True, "full_row")
    assert found.buffer("acc").shape == (128, 16)


def test_what_a_spec_leaves_out_is_derived_for_the_schedule() -> None:
    wide = plan(gemm(("persistent", "BLOCK_N = 256"), n=4096, k=4096)).tiles
    assert (wide["BLOCK_M"], wide["STORE_N"], wide["stages"], wide["group_m"]) == (128, 128, 4, 8)
    assert "threads" not in wide
    odd = plan(gemm(("persistent", "BLOCK_N = 224"), n=4096, k=4096)).tiles
    assert odd["STORE_N"] == 112
    thin = plan(gemm(("skinny", ""), n=4096, k=4096)).tiles
    assert (thin["BLOCK_M"], thin["BLOCK_N"], thin["threads"]) == (16, 64, 128)
    tall = plan(gemm(("stream_k", "BLOCK_M = 128"), n=4096, k=4096)).tiles
    assert (tall["threads"], tall["evict_b"]) == (256, False)


def test_a_tile_value_that_is_an_expression_leaves_threads_and_stages_to_be_derived() -> None:
    found = plan(gemm(("plain", 'BLOCK_N = "min(256, 16 * ceildiv(N, 16))"'), n=200)).tiles
    # 208 columns: 128 x 208 is over 128 x 128, and (128 + 208) x 64 float16 fit five times, of which four help.
    assert (found["threads"], found["stages"]) == (256, 4)
    whole = gemm(("plain", 'BLOCK_N = "min(256, 16 * ceildiv(N, 16))"'), n=4096)
    assert not [d for d in check(whole).diagnostics if d.severity == "error"]


@pytest.mark.parametrize("schedule", ["persistent", "stream_k", "skinny"])
def test_rows_that_tma_cannot_reach_are_an_error(schedule) -> None:
    verdict = check(gemm(schedule, n=204, k=260))
    assert {d.code for d in verdict.diagnostics if d.severity == "error"} == {"TG-C4"}


def test_parameters_of_other_schedules_are_no_part_of_a_case() -> None:
    lines = 'BLOCK_M = 64\nBLOCK_N = 64\nSTORE_N = 64\nthreads = 128\ngroup_m = [ { use = 4, when = "K > 100" }, { use = 8 } ]'
    assert "group_m" not in plan(gemm(("stream_k", lines))).tiles
    assert "STORE_N" not in plan(gemm(("plain", lines))).tiles
    assert plan(gemm(("persistent", lines))).tiles["group_m"] == 4


def test_the_schedule_by_rules_gives_a_case_for_each() -> None:
    spec = by_rules('[ { use = "stream_k", when = "M <= 64" }, { use = "persistent" } ]')
    assert [case.tiles["schedule"] for case in cases(spec, "sm_90a")] == ["stream_k", "persistent"]
    assert [case.chosen["schedule"] for case in cases(spec, "sm_90a")] == [0, 1]


def test_a_schedule_by_rules_must_cover_the_domain() -> None:
    verdict = check(by_rules('[ { use = "stream_k", when = "M <= 64" }, { use = "persistent", when = "M > 65" } ]'))
    (finding,) = (d for d in verdict.diagnostics if d.severity == "error")
    assert finding.code == "TG-T2"
    assert "no rule matches M = 65" in finding.label
    assert finding.span is not None
    assert finding.span.line == 3


def test_a_finding_about_a_schedule_points_at_its_rule() -> None:
    verdict = check(by_rules('[ { use = "plain", when = "M <= 64" }, { use = "persistent" } ]', arch="sm_80"))
    finding = next(d for d in verdict.diagnostics if d.code == "TG-S1")
    assert finding.span is not None
    assert (finding.span.line, finding.label) == (
        3,
        "`persistent` on sm_80, which has no TMA and WGMMA and setmaxnreg",
    )


@pytest.mark.parametrize(
    ("n", "k", "launched", "static"),
    [(200, 264, 256, 1024), (200, 265, 256, 1024), (201, 265, 128, 0)],
    ids=["both by TMA", "b alone", "neither"],
)
def test_a_plain_gemm_has_producers_and_barriers_only_where_tma_carries_a_tile(n, k, launched, static) -> None:
    kernel = plan(gemm("plain", n=n, k=k)).kernels[0]
    assert kernel.launch.block_threads == launched
    assert static_shared_bytes(kernel) == static


def test_producers_follow_the_shape_where_tma_carries_a_tile_of_some_shapes_only() -> None:
    kernel = plan(gemm("plain", n="200, 201", k=265)).kernels[0]
    assert [evaluate(kernel.launch.block_threads, {"N": n, "K": 265}) for n in (200, 201)] == [256, 128]
    assert [evaluate(static_shared_bytes(kernel), {"N": n, "K": 265}) for n in (200, 201)] == [1024, 0]
