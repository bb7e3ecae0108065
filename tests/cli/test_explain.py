"""`tilegen explain`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tilegen.check.rule import catalogue
from tilegen.cli.explain import command


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, arguments)
    return result.exit_code, result.output


@pytest.mark.parametrize("name", ["TG-C2", "tg-c2", "C2", "c2", "tma-box-256"])
def test_a_rule_is_found_by_id_and_by_name(name: str) -> None:
    code, text = run(name)
    assert code == 0
    assert text.startswith("TG-C2 tma-box-256 (error)\n")


def test_a_page_has_the_sentence_the_source_what_happens_without_it_and_examples() -> None:
    _, text = run("TG-C2")
    assert "The tile can be loaded by TMA in boxes of at most 256 elements a side." in text
    assert "source    tilelang src/cuda/op/copy.cc" in text
    assert 'stops in LowerBulk with "T.tma_copy() cannot fall back' in text
    accepted, refused = text.split("refused, in the example of gemm:")
    assert "BLOCK_N = 320" in accepted
    assert "BLOCK_N = 272" in refused
    assert "found: 272 rows exceed a box of 256" in refused


def test_a_measured_cost_is_shown() -> None:
    assert "596 TFLOPS at N = 4096, 144 at N = 4100" in run("TG-C4")[1]


@pytest.mark.parametrize("rule", catalogue().values(), ids=lambda rule: rule.id)
def test_every_rule_has_a_page(rule: object) -> None:
    code, text = run(rule.code)  # type: ignore[attr-defined]
    assert code == 0
    assert max(map(len, text.splitlines())) <= 200


def test_without_a_rule_all_are_listed() -> None:
    code, text = run()
    assert code == 0
    assert [line.split()[0] for line in text.splitlines()] == [rule.code for rule in catalogue().values()]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("tma-bx", "did you mean tma-box-256?"), ("TG-C99", "did you mean TG-"), ("\x1b[31m", "lists all rules")],
)
def test_an_unknown_rule_is_misuse_with_a_hint(name: str, hint: str) -> None:
    code, text = run(name)
    assert code == 2
    assert hint in text


def test_json_has_the_examples_of_every_rule() -> None:
    pages = json.loads(run("--format", "json")[1])
    assert [page["code"] for page in pages] == [rule.code for rule in catalogue().values()]
    assert all(page["sentence"] and page["source"] for page in pages)


def test_a_line_that_is_no_generated_python_is_told_so() -> None:
    code, text = run("specs/rms_silu.toml:3")
    assert code == 2
    assert "is no line of generated Python" in text
