"""`tilegen show`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilegen.cli.show import command

PROJECT = Path(__file__).parent / "project"
BROKEN = Path(__file__).parents[1] / "check" / "broken"


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)


def test_plan_budget_and_proofs_are_shown() -> None:
    code, text = run("gemm_relu")
    assert code == 0
    assert text.startswith("gemm_relu on sm_90a, float16: case 1\n")
    assert "for k in ceildiv(K, 64) trips, pipelined, 3 stages:\n" in text
    assert "gemm acc += a_shared @ b_shared, (128, 256, 64), float16 into float32, square\n" in text
    # 3 x (128 x 64 + 64 x 256) x 2 B
    assert "147,456 B" in text
    assert "TG-A5   grid-limits                   2 proved by intervals\n" in text


def test_another_target_and_a_case_can_be_asked_for() -> None:
    assert run("gemm_relu", "--target", "sm_80")[1].startswith("gemm_relu on sm_80")
    assert run("rms_silu", "--case", "2")[1].count("case 2, where") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gemm_relu", "--target", "sm_70"), "gemm_relu has no target sm_70; it has sm_90a, sm_80"),
        (("gemm_relu", "--case", "2"), "gemm_relu has 1 cases on sm_90a"),
        (("gemm_relu", "--dtype", "int8"), "no tensor of int8; it has bfloat16, float16"),
        (("gemm_relu", "--layout", "x"), "no shared buffer `x` on sm_90a; it has a_shared, b_shared, c_shared"),
        (("gemm_relu", "--layout", "a_shared", "--output", "a.jpg"), "--output is a .png or .svg file"),
        (("gemm_relu", "--layout", "a_shared", "--output", "/nonexistent/a.svg"), "cannot write /nonexistent/a.svg"),
        (("specs",), "holds"),
        (("nothing",), "there is no file, folder or kernel `nothing`"),
    ],
)
def test_misuse_is_told_and_exits_2(arguments: tuple[str, ...], message: str) -> None:
    code, text = run(*arguments)
    assert code == 2
    assert message in text


def test_a_spec_whose_rules_leave_a_gap_has_no_plan_to_show() -> None:
    code, text = run(str(BROKEN / "rule_list_not_total.toml"))
    assert code == 1
    assert "error[TG-T2]" in text


def test_what_is_refuted_is_shown_with_its_arithmetic() -> None:
    code, text = run(str(BROKEN / "threads_1024_warp_specialised.toml"))
    assert code == 0
    assert "refuted: 1024 threads + 128 of the producer warp group = 1152" in text


def test_json_has_the_claim_and_the_method_of_every_proof() -> None:
    (plan,) = json.loads(run("gemm_relu", "--format", "json")[1])
    grid = [proof for proof in plan["proofs"] if proof["rule"] == "TG-A5"]
    assert set(grid[1]["claim"].split(" and ")) == {"ceildiv(M, 128) >= 1", "ceildiv(M, 128) <= 65535"}
    assert grid[1]["method"] == "intervals"


@pytest.mark.parametrize("ending", [".svg", ".png"])
def test_a_layout_is_drawn_and_the_same_each_time(tmp_path: Path, ending: str) -> None:
    pytest.importorskip("matplotlib")
    first, second = tmp_path / f"1{ending}", tmp_path / f"2{ending}"
    code, text = run("gemm_relu", "--layout", "a_shared", "--output", str(first))
    assert code == 0
    assert "a_shared (128, 64) float16, 128-byte swizzle; 8 rows x 16 bytes: no bank conflict" in text
    run("gemm_relu", "--layout", "a_shared", "--output", str(second))
    assert first.read_bytes() == second.read_bytes()
    assert len(first.read_bytes()) > 1000


def test_without_matplotlib_a_layout_asks_for_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("matplotlib") or name.endswith("_layout_picture")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, text = run("gemm_relu", "--layout", "a_shared", "--output", str(tmp_path / "a.svg"))
    assert code == 2
    assert "pip install 'tilegen[plot]'" in text


def test_a_page_is_written_whole(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code, text = run("gemm_relu", "--html", str(page))
    assert (code, text) == (0, f"{page}: {page.stat().st_size:,} bytes\n")
    assert page.read_text().startswith("<!doctype html>\n")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--html", "/nonexistent/page.html"), "cannot write /nonexistent/page.html"),
        (("--html", "page.html", "--format", "json"), "--html stands alone"),
        (("--html", "page.html", "--target", "sm_70"), "gemm_relu has no target sm_70; it has sm_90a, sm_80"),
    ],
)
def test_a_page_that_cannot_be_is_refused(arguments: tuple[str, ...], message: str) -> None:
    code, text = run("gemm_relu", *arguments)
    assert code == 2
    assert message in text
    assert not Path("page.html").exists()
