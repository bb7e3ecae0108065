"""The cases of a spec: which ways through its tile rules some declared shape takes."""

from __future__ import annotations

from tilegen.check.checker import spec_findings
from tilegen.check.examples import Example
from tilegen.expr import to_text
from tilegen.plan.cases import cases
from tilegen.plan.model import Case
from tilegen.spec import Spec, load_bytes


def gemm(**change: object) -> Spec:
    return load_bytes(Example("", True, "gemm", change, "").spec(), "cases.toml")


def found(spec: Spec, *names: str) -> list[tuple[object, ...]]:
    return [(*(case.tiles[name] for name in names), condition(case)) for case in cases(spec, "sm_90a")]


def condition(case: Case) -> str:
    return "" if case.condition is True else to_text(case.condition)


def rules(*entries: tuple[object, str]) -> list[dict[str, object]]:
    return [{"use": use, "when": when} if when else {"use": use} for use, when in entries]


def test_a_plain_value_is_one_case_everywhere() -> None:
    assert found(gemm(), "BLOCK_N") == [(256, "")]


def test_each_rule_that_some_shape_takes_is_a_case() -> None:
    spec = gemm(dims={"N": {"values": [1000, 4096]}}, tile={"BLOCK_N": rules((256, "N >= 4096"), (128, ""))})
    assert found(spec, "BLOCK_N") == [(256, "N >= 4096"), (128, "N < 4096")]


def test_a_rule_that_no_declared_shape_takes_is_no_case() -> None:
    spec = gemm(tile={"BLOCK_N": rules((512, "N > 10_000"), (256, ""))})
    assert [entry[0] for entry in found(spec, "BLOCK_N")] == [256]


def test_an_earlier_rule_shadows_a_later_one() -> None:
    spec = gemm(tile={"BLOCK_N": rules((256, "N >= 1024"), (128, "N == 4096"), (64, ""))})
    assert [entry[0] for entry in found(spec, "BLOCK_N")] == [256]


def test_a_value_that_depends_on_another_is_worked_out_in_each_case() -> None:
    spec = gemm(tile={"BLOCK_M": rules((64, "N == 4096"), (128, "")), "threads": "2 * BLOCK_M"})
    assert [entry[:2] for entry in found(spec, "BLOCK_M", "threads")] == [(64, 128), (128, 256)]


def test_two_lists_that_exclude_each_other_make_no_impossible_case() -> None:
    spec = gemm(tile={"BLOCK_M": rules((64, "N == 4096"), (128, "")), "stages": rules((2, "N == 4096"), (3, ""))})
    assert [entry[:2] for entry in found(spec, "BLOCK_M", "stages")] == [(64, 2), (128, 3)]


def test_a_condition_on_a_tile_value_is_decided_in_the_case() -> None:
    spec = gemm(tile={"BLOCK_M": rules((64, "N == 4096"), (128, "")), "stages": rules((4, "BLOCK_M == 64"), (3, ""))})
    assert [entry[:2] for entry in found(spec, "BLOCK_M", "stages")] == [(64, 4), (128, 3)]


def test_a_target_s_own_value_replaces_the_common_one() -> None:
    spec = gemm(target={"sm_90a": {"tile": {"stages": 2}}, "sm_80": {}})
    assert [case.tiles["stages"] for arch in ("sm_90a", "sm_80") for case in cases(spec, arch)] == [2, 3]


def test_a_list_is_total_where_its_conditions_cover_the_domain() -> None:
    covered = gemm(tile={"BLOCK_N": rules((256, "N % 8192 == 0"), (128, "N % 4096 == 0"))})
    assert not spec_findings(covered)


def test_a_list_that_leaves_a_gap_is_told_with_the_least_shape_in_it() -> None:
    spec = gemm(dims={"N": {"also": "N % 64 == 0 and N <= 4096"}}, tile={"BLOCK_N": rules((256, "N % 128 == 0"))})
    (gap,) = spec_findings(spec)
    assert (gap.code, gap.label) == ("TG-T2", "no rule matches N = 64")


def test_totality_over_a_range_that_cannot_be_enumerated_is_proved() -> None:
    spec = gemm(
        dims={"N": {"min": 8, "max": 1_000_000_000, "multiple_of": 8}},
        tile={"BLOCK_N": rules((256, "N % 16 == 0"), (128, "N % 16 == 8"))},
    )
    assert not spec_findings(spec)
