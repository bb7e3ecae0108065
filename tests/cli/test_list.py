"""`tilegen list`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilegen.cli.list import command

PROJECT = Path(__file__).parent / "project"
BROKEN = Path(__file__).parents[1] / "check" / "broken"


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)


def test_a_kernel_is_listed_with_its_domain_its_cases_and_its_compile_keys() -> None:
    code, text = run("gemm_relu")
    assert code == 0
    assert text.startswith("gemm_relu  gemm  specs/gemm_relu.toml\n")
    assert "  M       dynamic, up to 1048576 (rows of a)\n" in text
    assert "  N       1024, 4096, 8192\n" in text
    # 2 dtypes x 3 values of N x 3 of K
    assert "  sm_90a: 18 compile keys, 1 case of the tile rules\n" in text


def test_each_case_of_a_rule_list_is_listed_with_its_condition() -> None:
    _, text = run("rms_silu")
    assert "C % 32 == 0 and C <= 1024" in text
    assert "  where C % 128 == 0\n" in text


def test_the_count_is_one_line_for_each_target() -> None:
    assert run("gemm_relu", "--count") == (0, "gemm_relu sm_90a 18\ngemm_relu sm_80 18\n")


def test_json_has_every_compile_key() -> None:
    (kernel,) = json.loads(run("gemm_relu", "--format", "json")[1])
    (target, _) = kernel["targets"]
    keys = target["compile_keys"]
    assert len(keys) == 18
    assert {(key["dims"]["N"], key["dims"]["K"]) for key in keys} == {(n, k) for n in NS for k in NS}
    assert keys[0]["tiles"]["swizzle"] == {"panel": 10, "order": "row"}


NS = (1024, 4096, 8192)


def test_a_broken_spec_is_a_finding_and_an_unknown_one_misuse() -> None:
    assert run(str(BROKEN / "unknown_key.toml"))[0] == 1
    assert run("no_such_kernel")[0] == 2
