"""tilegen why, and tilegen explain of a kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tilegen.cli import main

PLAIN = str(Path(__file__).parents[1] / "check" / "plain_gemm.toml")
ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


def answers(*arguments: str) -> list[dict[str, object]]:
    found = run("why", *arguments, "--format", "json")
    assert found.exit_code == 0, found.output
    parsed: list[dict[str, object]] = json.loads(found.output)
    return parsed


def test_the_line_that_chose_a_value_is_named() -> None:
    (part,) = answers(PLAIN, "BLOCK_N", "--try", "128")
    assert (part["value"], part["chosen_by"]) == (256, "use = 256")
    assert str(part["chosen_at"]).endswith(f"plain_gemm.toml:{_line('BLOCK_N = 256')}")


def _line(text: str) -> int:
    lines = Path(PLAIN).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.startswith(text))


def test_alternatives_are_legal_slow_or_refused_with_the_rule() -> None:
    (part,) = answers(PLAIN, "BLOCK_N", "--try", "128", "--try", "100", "--try", "320")
    found = {entry["value"]: entry for entry in part["alternatives"]}  # type: ignore[attr-defined, index]
    assert found[128]["legal"]
    assert found[128]["objections"] == []
    assert not found[100]["legal"]
    assert "TG-D4" in [objection["rule"] for objection in found[100]["objections"]]


def test_each_entry_of_a_rule_list_answers_for_its_part() -> None:
    found = run("why", str(ROOT / "specs" / "rms_silu.toml"), "threads", "--try", "256")
    assert "entry 1 of 2: use = max(32, BLOCK_C // 8) when M <= 1024" in " ".join(found.output.split())
    assert "threads = 128" in found.output
    assert "entry 2 of 2: use = 128" in found.output


def test_a_derived_value_says_so() -> None:
    (part,) = answers(str(ROOT / "specs" / "mla_decode.toml"), "policy", "--target", "sm_80", "--try", "square")[:1]
    assert part["value"] == "full_col"
    assert "warp" in " ".join(part["arithmetic"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((PLAIN, "BLOCK_X"), "has no tile parameter BLOCK_X"),
        ((PLAIN, "BLOCK_N", "--target", "sm_70"), "has no target sm_70"),
        (("nowhere", "BLOCK_N"), "there is no"),
    ],
)
def test_misuse_exits_2_and_says_why(arguments: tuple[str, ...], says: str) -> None:
    found = run("why", *arguments)
    assert found.exit_code == 2
    assert says in found.output


def test_explain_of_a_kernel_reproduces_the_argument() -> None:
    found = run("explain", str(ROOT / "specs" / "mla_decode.toml"))
    text = " ".join(found.output.split())
    assert found.exit_code == 0
    assert "the least that a warp group may own" in text
    assert "64 x 512 float32 over 128 threads is 256 registers a thread" in text
    assert "hence 2 warp groups at least" in text
    assert "side by side along the columns: policy full_col" in text


def test_explain_still_explains_rules() -> None:
    assert "tma-box-256" in run("explain", "TG-C2").output
    assert run("explain", "nonsense").exit_code == 2
