"""`tilegen bench` on a machine without a GPU, and what it refuses."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilegen.bench.cuda import gpu_problem
from tilegen.cli.bench import command

ROOT = Path(__file__).parent.parent.parent
RMS = str(ROOT / "specs/rms_silu.toml")
no_gpu = pytest.mark.skipif(not gpu_problem(), reason="there is a GPU")


def bench(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


@no_gpu
def test_without_a_gpu_it_says_so_and_prints_the_roofline():
    done = bench(RMS, "--dim", "C=320", "--dim", "M=1024", "--dtype", "float16")
    assert done.exit_code == 0
    assert "no GPU here" in done.stderr
    assert "roofline of H200 SXM" in done.stdout
    assert "1.311" in done.stdout, "MB: 2 * 1024 * 320 * 2 bytes and 640 of gamma"


@no_gpu
def test_the_roofline_of_another_target_is_printed_on_demand():
    assert "A100" in bench(RMS, "--dim", "C=320", "--target", "sm_80").stdout
    assert "has no target sm_89" in bench(RMS, "--target", "sm_89").stderr


@no_gpu
def test_results_are_written_as_json_and_markdown_and_shown_again(tmp_path):
    saved, page = tmp_path / "r.json", tmp_path / "r.md"
    assert bench(RMS, "--dim", "C=32:96:32", "-o", saved, "-o", page).exit_code == 0
    assert len(json.loads(saved.read_text())["rows"]) == 6
    again = bench(RMS, "--results", saved)
    assert again.exit_code == 0
    assert "roofline" in again.stdout
    assert page.read_text().startswith("# rms_silu\n")


@pytest.mark.parametrize("suite", sorted(ROOT.glob("bench/*.toml")), ids=lambda path: path.stem)
def test_every_suite_of_the_repository_is_in_the_domain_of_its_kernel(suite):
    from tilegen.bench.suite import read_suite
    from tilegen.spec import load
    from tilegen.spec.find import specs_in

    kernel = suite.read_text().split('kernel = "')[1].split('"')[0]
    (spec,) = [spec for path in specs_in(ROOT / "specs") if (spec := load(path)).kernel == kernel]
    assert read_suite(suite, spec).shapes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--against", "torhc"), "`torhc` is no peer"),
        (("--against", "os:system()"), "is no peer"),
        (("--dim", "C"), "as NAME=SIZES"),
        (("--dim", "C=100"), "outside the domain"),
        (("--dtype", "float64"), "is not built for float64"),
        (("-o", "x.pdf"), "--output is a .json, .md, .png, .svg file"),
        (("--results", "/nonexistent.json"), "cannot read"),
    ],
)
def test_what_cannot_be_done_is_a_usage_error(arguments, message):
    done = bench(RMS, *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_bad_suite_is_refused_at_its_line(tmp_path):
    suite = tmp_path / "s.toml"
    suite.write_text('kernel = "rms_silu"\nagainst = "copy"\n\n[[shapes]]\nC = 100\n\n[[shapes]]\nD = 1\n')
    done = bench(RMS, "--suite", suite)
    assert done.exit_code == 1
    assert "s.toml:4:1" in done.stderr
    assert "s.toml:8:1" in done.stderr


@no_gpu
def test_profiling_needs_a_gpu():
    done = bench(RMS, "--profile", "memcheck")
    assert done.exit_code == 1
    assert "needs a GPU" in done.stderr
