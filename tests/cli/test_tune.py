"""`tilegen tune` with a machine of the tests: the command, its lock and its second run."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilegen.bench.cuda import gpu_problem
from tilegen.cli._tune import Request, run
from tilegen.cli.tune import command
from tilegen.spec import load
from tilegen.spec.find import lock_path
from tilegen.targets import target
from tilegen.tune.session import Machine

ROOT = Path(__file__).parent.parent.parent
SHAPE = ("--dim", "M=256", "--dim", "N=8192", "--dim", "K=8192")
no_gpu = pytest.mark.skipif(not gpu_problem(), reason="there is a GPU")


def tune(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_a_dry_run_lists_the_default_and_the_candidates():
    done = tune(ROOT / "specs/gemm_relu.toml", *SHAPE, "--dry-run", "--candidates", 3, "--format", "json")
    found = json.loads(done.stdout)
    assert done.exit_code == 0
    assert found["when"] == "129 <= M <= 256 and N == 8192 and K == 8192"
    assert len(found["candidates"]) == 4


@no_gpu
def test_without_a_gpu_it_says_so_and_fails():
    done = tune(ROOT / "specs/gemm_relu.toml", *SHAPE)
    assert done.exit_code == 1
    assert "tuning needs a GPU" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--when", "M == 1"), "does not hold for M = 256"),
        (("--when", "Q == 1"), "--when Q == 1"),
        (("--dtype", "int8"), "is not built for int8"),
        (("--target", "sm_70", "--dry-run"), "has no target sm_70"),
    ],
)
def test_what_cannot_be_done_is_a_usage_error(arguments, message):
    done = tune(
        ROOT / "specs/gemm_relu.toml", *SHAPE, *arguments, *(() if "--dry-run" in arguments else ("--dry-run",))
    )
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_search_writes_the_lock_and_the_next_one_finds_the_same(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path / "cache"))
    spec = tmp_path / "gemm_relu.toml"
    shutil.copy(ROOT / "specs/gemm_relu.toml", spec)
    facts = {"card": "a card of the tests", "tilelang": "0", "sm_count": 132}
    bench = "tests.tune.planted:Bench"
    machine = Machine("sm_90a", target("sm_90a").part, facts, bench, bench, jobs=2)
    # There the spec has four stages, and the planted times want seven.
    request = Request(str(spec), ("M=4096", "N=4096", "K=4096"), None, None, 60.0, 6, None, False, False, None, "text")
    assert run(request, machine) == 0
    said = capsys.readouterr().out
    (winner,) = load(spec).lock.winners
    assert "winner: " in said
    assert winner.card == "a card of the tests"
    assert winner.ratio > 1
    first = lock_path(spec).read_bytes()
    assert run(request, machine) == 0
    assert lock_path(spec).read_bytes() == first
