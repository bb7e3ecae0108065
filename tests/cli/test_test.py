"""`tilegen test` runs the golden tests of a generated tree and says what it cannot run."""

import json

import pytest
from click.testing import CliRunner

from tilegen.cli import main

GOLDEN = "def test_it_on_the_cpu():\n    assert {}\n"


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps({"kernels": {"good": {}, "bad": {}}}))
    for name, holds in (("good", True), ("bad", False)):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"test_{name}.py").write_text(GOLDEN.format(holds))
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(main, ["test", *map(str, arguments)])


def test_it_exits_0_where_all_pass_and_1_where_one_fails(tree):
    assert run("good", "--out", tree, "--format", "json").exit_code == 0
    result = run("--out", tree, "--format", "json")
    assert result.exit_code == 1
    assert json.loads(result.output) == {
        "good": {"passed": True, "exit_code": 0},
        "bad": {"passed": False, "exit_code": 1},
    }


def test_it_lists_the_kernels_of_the_tree(tree):
    assert run("--out", tree, "--list").output.split() == ["good", "bad"]


def test_a_selection_without_tests_passes(tree):
    assert run("bad", "--out", tree, "--gpu-only", "--format", "json").exit_code == 0


def test_an_unknown_kernel_or_a_tree_that_is_not_there_is_misuse(tree, tmp_path):
    result = run("other", "--out", tree)
    assert (result.exit_code, "there are good, bad" in result.output) == (2, True)
    assert "does not exist" in run("--out", tmp_path / "nowhere").output
    (tree / "manifest.json").write_text("{")
    assert "cannot be read" in run("--out", tree).output
