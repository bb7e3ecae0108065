"""The two-pass schedule of row norms: its plan, its rule, and its numbers through the interpreter."""

import importlib
from pathlib import Path

import pytest

from tilegen.check.checker import check
from tilegen.check.rule import find_rule
from tilegen.expr import evaluate
from tilegen.plan.build import dtype_bindings, plan_of
from tilegen.plan.cases import cases
from tilegen.plan.model import Loop, Reduce
from tilegen.plan.resources import shared_bytes
from tilegen.spec import load_bytes

SPEC = (Path(__file__).parent.parent.parent / "specs/rms_norm_wide.toml").read_text()
DOMAIN = 'values = [8192, 16_384, 65_536], also = "C % 8 == 0 and 4096 <= C <= 1_048_576"'
FORMULAS = {
    "rms": "x * rstd * gamma",
    "l2": "x * rstd * gamma",
    "layer": "(x - mean) * rstd * gamma",
    "softmax": "exp(x - row_max) / row_sum",
}


def spec_of(norm="rms", **tiles):
    text = SPEC.replace(DOMAIN, 'values = [1024], also = "C % 8 == 0 and C <= 1_048_576"')
    text = text.replace('norm = "rms"', f'norm = "{norm}"').replace(FORMULAS["rms"], FORMULAS[norm])
    for name, (old, new) in {"BLOCK_C": ("4096 ", "512 "), "threads": ("256", "32"), **tiles}.items():
        text = text.replace(f"{name} = {old}", f"{name} = {new}")
    if norm == "softmax":
        lines = [line for line in text.splitlines() if not line.startswith(("eps", "gamma"))]
        text = "\n".join(lines)
    return load_bytes(text.encode(), f"{norm}.toml")


def plan_for(spec, arch="sm_90a"):
    (case,) = cases(spec, arch)
    return plan_of(spec, arch, dtype_bindings(spec)[0], case)


@pytest.mark.parametrize(("norm", "readings"), [("rms", 2), ("l2", 2), ("layer", 3), ("softmax", 3)])
def test_a_row_is_read_once_for_each_statistic_and_once_for_y(norm, readings):
    (kernel,) = plan_for(spec_of(norm)).kernels
    loops = [op for op, _ in kernel.find(Loop)]
    assert len(loops) == readings
    assert len(list(kernel.find(Reduce))) == readings - 1
    assert [evaluate(loop.trips, {"C": 1032}) for loop in loops] == [3] * readings


@pytest.mark.parametrize("norm", FORMULAS)
def test_every_norm_is_proved_for_rows_of_any_length(norm):
    assert [d.code for d in check(spec_of(norm)).diagnostics] == []


def test_a_reduction_over_several_warps_has_one_float_a_thread():
    plan = plan_for(load_bytes(SPEC.encode(), "wide.toml"))
    assert shared_bytes(plan.kernels[0], plan.target) == 256 * 4
    assert plan_for(spec_of()).kernels[0].row_passes[0].chunk == 512


def test_a_chunk_that_is_no_whole_number_of_sweeps_is_refused_with_the_nearest():
    verdict = check(spec_of(BLOCK_C=("4096 ", "384 ")))
    (found,) = [d for d in verdict.diagnostics if d.severity == "error"]
    assert found.code == find_rule("F18").code
    assert found.label == "32 threads take 256 columns in one sweep, 16 bytes each; a chunk is 384"
    assert "256 and 512 are the nearest legal values of BLOCK_C" in found.help


@pytest.mark.parametrize("C", [8, 1024, 1032, 2000])
@pytest.mark.parametrize("norm", FORMULAS)
def test_the_interpreter_gives_the_reference_of_every_norm(tmp_path, norm, C):
    torch = pytest.importorskip("torch")
    from tilegen.bench.rendered import imported, write_package
    from tilegen.interp import InterpretedKernel

    write_package(spec_of(norm), tmp_path)
    with imported("rms_norm_wide", tmp_path) as modules:
        reference = importlib.import_module("rms_norm_wide.reference")
        inputs = reference.random_inputs(2, C, torch.float16)
        out = torch.full((2, C), torch.nan, dtype=torch.float16)
        kernel = modules.kernel
        InterpretedKernel(kernel.build("sm_90a", "float16", C, **kernel.tiles("sm_90a", 2, C, 132)))(*inputs, out)
        assert float(modules.bench.error(inputs, out)) <= 1
