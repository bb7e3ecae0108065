"""Golden tests of rms_norm_wide: its source, its lowering, its numbers on the CPU where tilegen is
installed, and its numbers on the GPU where there is one.

Run with pytest where this folder lies; torch and tilelang are all it needs.
"""

from pathlib import Path

import numpy
import pytest
import torch

from . import _golden, api, kernel
from .api import rms_norm_wide, warm_up
from .dispatch import explain_dispatch, rms_norm_wide_dispatch
from .reference import random_inputs, reference, rounded

FOLDER = Path(__file__).parent
FACTS = _golden.load_facts(FOLDER)
WIDTHS = (8192, 16384, 65536)
ROWS = (1, 2, 63, 64, 65, 127, 4097)


@pytest.mark.parametrize("name", sorted(FACTS["files"]))
def test_the_source_is_what_the_spec_renders_to(name):
    assert _golden.sha256(FOLDER / name) == FACTS["files"][name], f"{name} was edited; change the spec instead"


@pytest.mark.parametrize("golden", FACTS["lowering"], ids=lambda golden: golden["name"])
def test_lowering_gives_the_recorded_facts(golden):
    _golden.require_tilelang(FACTS["tilelang"])
    assert _golden.lowering_facts(kernel.build(**golden["key"]), golden["key"]["arch"]) == golden["facts"]


@pytest.mark.parametrize("golden", FACTS["outputs"], ids=lambda golden: golden["name"])
def test_the_reference_gives_the_golden_output(golden):
    inputs = random_inputs(**golden["dims"], dtype=getattr(torch, golden["dtype"]), seed=golden["seed"])
    expected, _ = reference(*inputs)
    numpy.testing.assert_allclose(expected.numpy(), _golden.load_output(FOLDER, golden["name"]), rtol=1e-6, atol=1e-6)


@pytest.fixture(params=kernel.ARCHES)
def on_cpu(request, monkeypatch):
    _golden.interpret(monkeypatch, api, request.param)


@pytest.mark.parametrize("golden", FACTS["outputs"], ids=lambda golden: golden["name"])
def test_the_interpreter_gives_the_golden_output_on_the_cpu(on_cpu, golden):
    inputs = random_inputs(**golden["dims"], dtype=getattr(torch, golden["dtype"]), seed=golden["seed"])
    expected, tolerance = reference(*inputs)
    out = rms_norm_wide(*inputs)
    golden_output = torch.from_numpy(_golden.load_output(FOLDER, golden["name"]))
    _golden.assert_close(out, golden_output, rounded(expected, tolerance, out.dtype), golden["name"])


@pytest.fixture(scope="module")
def gpu():
    arch = _golden.require_gpu(kernel.ARCHES)
    warm_up(jobs=8)
    return arch


def close(inputs, what):
    out = rms_norm_wide(*inputs).fill_(torch.nan)
    rms_norm_wide(*inputs, out=out)
    expected, tolerance = reference(*inputs)
    _golden.assert_close(out, expected.cpu(), rounded(expected, tolerance, out.dtype).cpu(), what)


@pytest.mark.parametrize("dtype", kernel.DTYPES)
@pytest.mark.parametrize("C", WIDTHS)
@pytest.mark.parametrize("M", ROWS)
def test_random_inputs_on_the_gpu(gpu, dtype, C, M):
    close(random_inputs(M, C, getattr(torch, dtype), device="cuda"), f"{dtype} M={M} C={C}")


@pytest.mark.parametrize("golden", FACTS["outputs"], ids=lambda golden: golden["name"])
def test_the_gpu_gives_the_golden_output(gpu, golden):
    inputs = random_inputs(**golden["dims"], dtype=getattr(torch, golden["dtype"]), seed=golden["seed"], device="cuda")
    expected, tolerance = reference(*inputs)
    out = rms_norm_wide(*inputs)
    golden_output = torch.from_numpy(_golden.load_output(FOLDER, golden["name"]))
    _golden.assert_close(out, golden_output, rounded(expected, tolerance, out.dtype).cpu(), golden["name"])


@pytest.mark.parametrize("dtype", kernel.DTYPES)
@pytest.mark.parametrize("scale", [0.0, 2.0**-12, 200.0], ids=["zeros", "tiny", "large"])
def test_extreme_inputs_on_the_gpu(gpu, dtype, scale):
    x, *rest = random_inputs(65, WIDTHS[-1], getattr(torch, dtype), device="cuda")
    close((x * scale, *rest), f"{dtype} scaled by {scale}")


def test_leading_axes_in_place_and_no_rows_on_the_gpu(gpu):
    x, gamma = random_inputs(12, WIDTHS[0], torch.float16, device="cuda")
    whole = rms_norm_wide(x, gamma)
    assert torch.equal(rms_norm_wide(x.view(2, 2, 3, 1, -1), gamma).view_as(whole), whole)
    assert rms_norm_wide(x[:0], gamma).shape == (0, WIDTHS[0])
    assert torch.equal(rms_norm_wide(x, gamma, out=x), whole)


def test_torch_compile_and_cuda_graph_on_the_gpu(gpu):
    inputs = random_inputs(65, WIDTHS[0], torch.float16, device="cuda")
    eager = rms_norm_wide(*inputs)
    compiled = torch.compile(lambda *inputs: rms_norm_wide(*inputs) * 2, fullgraph=True)
    assert torch.equal(compiled(*inputs), eager * 2)
    graph, out = torch.cuda.CUDAGraph(), torch.empty_like(eager)
    with torch.cuda.graph(graph):
        rms_norm_wide(*inputs, out=out)
    out.fill_(torch.nan)
    graph.replay()
    assert torch.equal(out, eager)


def test_wrong_arguments_raise_clear_errors_on_the_gpu(gpu):
    x, *rest = random_inputs(64, WIDTHS[0], torch.float16, device="cuda")
    with pytest.raises(TypeError, match="has dtype float64"):
        rms_norm_wide(x.double(), *rest)
    with pytest.raises(ValueError, match="must be on a GPU"):
        rms_norm_wide(x.cpu(), *rest)
    with pytest.raises(ValueError, match="contiguous"):
        rms_norm_wide(x.t().contiguous().t(), *rest)
    with pytest.raises(ValueError, match="outside the domain"):
        rms_norm_wide(x.new_zeros((64, 24)), x.new_zeros(24))
    with pytest.raises(TypeError, match=r"must be a torch.Tensor"):
        rms_norm_wide(x.tolist(), *rest)
    with pytest.raises(ValueError, match="has shape"):
        rms_norm_wide(x, *(tensor[:-8] for tensor in rest))


def test_dispatch_serves_a_cpu_by_plain_torch_and_says_why():
    golden = FACTS["outputs"][0]
    inputs = random_inputs(**golden["dims"], dtype=getattr(torch, golden["dtype"]), seed=golden["seed"])
    assert explain_dispatch(*inputs).startswith("plain torch: `x` is not on a GPU")
    expected, tolerance = reference(*inputs)[:2]
    out = rms_norm_wide_dispatch(*inputs)
    _golden.assert_close(out, expected, rounded(expected, tolerance, out.dtype), "plain torch")
    assert torch.equal(rms_norm_wide_dispatch(*inputs, out=torch.empty_like(out)), out)


def test_dispatch_takes_the_kernel_where_it_serves_on_the_gpu(gpu):
    golden = FACTS["outputs"][0]
    dtype = getattr(torch, golden["dtype"])
    inputs = random_inputs(**golden["dims"], dtype=dtype, seed=golden["seed"], device="cuda")
    assert explain_dispatch(*inputs).startswith("the generated kernel")
    assert torch.equal(rms_norm_wide_dispatch(*inputs), rms_norm_wide(*inputs))
