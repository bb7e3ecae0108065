"""What measures on the GPU, with the interpreter in place of the compiled kernels and a clock of the test."""

import functools
from pathlib import Path

import pytest

from tilegen.bench.rendered import write_package
from tilegen.interp import InterpretedKernel
from tilegen.spec import load
from tilegen.targets import target
from tilegen.tune.candidate import Goal, class_of, condition_of, default, plain, proposals
from tilegen.tune.gpu import Compiler, GpuBench
from tilegen.tune.session import holding

torch = pytest.importorskip("torch")
SPECS = Path(__file__).parent.parent.parent / "specs"
DIMS = {"M": 5, "C": 160}


@pytest.fixture
def goal():
    spec, text = load(SPECS / "rms_silu.toml"), class_of(load(SPECS / "rms_silu.toml"), DIMS)
    return Goal(spec, "sm_90a", "float16", DIMS, condition_of(spec, text), text, target("sm_90a").part)


@pytest.fixture
def config(goal, tmp_path):
    context = write_package(holding(goal.spec, "sm_90a", [default(goal), *proposals(goal, 2)]), tmp_path)
    return {
        "folder": str(tmp_path),
        "kernel": "rms_silu",
        "arch": "sm_90a",
        "dtype": "float16",
        "dims": DIMS,
        "sm_count": 132,
        "taken": ["schedule", *context["factory_parameters"]],
        "seed": 0,
    }


class Clock:
    def samples(self, call, *, cold, count):
        call()
        return [1e-3] * count


@pytest.fixture
def bench(config, monkeypatch):
    """A GpuBench whose kernels are interpreted; ``built`` lists the keys of those that were made."""
    made = GpuBench.__new__(GpuBench)
    Compiler.__init__(made, config)
    api, runtime = made.modules.api, made.modules.runtime
    made.built = []

    def get(cache, **key):
        made.built.append(key)
        return api._compiled.Jitted(InterpretedKernel(cache.build(**key)))

    monkeypatch.setattr(api._compiled.KernelCache, "get", get)
    monkeypatch.setattr(runtime, "check_tensor", lambda *_arguments, **_options: None)
    monkeypatch.setattr(runtime, "check_arch", lambda *_arguments: "sm_90a")
    monkeypatch.setattr(runtime, "sm_count_of", lambda _index: 132)
    monkeypatch.setattr(api._compiled, "current_device", lambda: -1)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    made.inputs = functools.partial(made.modules.bench.inputs, device="cpu")(**DIMS, dtype=torch.float16)
    made.out = made.modules.bench.output(*made.inputs)
    made.timer = Clock()
    yield made
    made._package.__exit__(None, None, None)


def test_each_tiling_is_built_checked_and_called_through_the_public_function(goal, bench):
    tilings = [plain(c.tiles) for c in (default(goal), *proposals(goal, 2))]
    rows = bench.measure(tilings, rounds=2)
    assert rows == [[1e-3, 1e-3]] * 3
    assert [key["BLOCK_C"] for key in bench.built] == [tiles["BLOCK_C"] for tiles in tilings], "each once, and its own"


def test_a_wrong_result_is_an_error_that_says_how_wrong(goal, bench, monkeypatch):
    monkeypatch.setattr(bench.modules.bench, "error", lambda *_: 12.5)
    with pytest.raises(ArithmeticError, match=r"wrong: 12\.5 times the tolerance"):
        bench.measure([plain(default(goal).tiles)], rounds=1)


def test_the_key_of_a_tiling_is_what_the_wrapper_would_compile(goal, bench):
    tiles = plain(proposals(goal, 1)[0].tiles)
    bench.measure([tiles], rounds=1)
    assert bench.key(tiles) == bench.built[0]
