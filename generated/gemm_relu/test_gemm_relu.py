"""Golden tests of gemm_relu: its source, its lowering, and its numbers where there is a GPU.

Run with pytest where this folder lies; torch and tilelang are all it needs.
"""

import itertools
from pathlib import Path

import numpy
import pytest
import torch

from . import _golden, kernel
from .api import gemm_relu, warm_up
from .reference import random_inputs, reference

FOLDER = Path(__file__).parent
FACTS = _golden.load_facts(FOLDER)
SHAPES = list(itertools.product((1024, 4096, 8192), (1024, 4096, 8192)))
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


@pytest.fixture(scope="module")
def gpu():
    arch = _golden.require_gpu(kernel.ARCHES)
    warm_up(jobs=8)
    return arch


def close(inputs, what):
    out = gemm_relu(*inputs).fill_(torch.nan)
    gemm_relu(*inputs, out=out)
    expected, tolerance = reference(*inputs)
    _golden.assert_close(out, expected.cpu(), tolerance.cpu(), what)


@pytest.mark.parametrize("dtype", kernel.DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"N{shape[0]}-K{shape[1]}")
@pytest.mark.parametrize("M", ROWS)
def test_random_inputs_on_the_gpu(gpu, dtype, shape, M):
    inputs = random_inputs(M, *shape, getattr(torch, dtype), device="cuda")
    close(inputs, f"{dtype} M={M} N={shape[0]} K={shape[1]}")


@pytest.mark.parametrize("golden", FACTS["outputs"], ids=lambda golden: golden["name"])
def test_the_gpu_gives_the_golden_output(gpu, golden):
    inputs = random_inputs(**golden["dims"], dtype=getattr(torch, golden["dtype"]), seed=golden["seed"], device="cuda")
    _, tolerance = reference(*inputs)
    expected = torch.from_numpy(_golden.load_output(FOLDER, golden["name"]))
    _golden.assert_close(gemm_relu(*inputs), expected, tolerance.cpu(), golden["name"])


@pytest.mark.parametrize("dtype", kernel.DTYPES)
@pytest.mark.parametrize("fill", [0.0, -1.0, 3.0], ids=["zeros", "minus-ones", "threes"])
def test_constant_inputs_on_the_gpu(gpu, dtype, fill):
    inputs = random_inputs(65, *SHAPES[0], getattr(torch, dtype), device="cuda")
    close([torch.full_like(tensor, fill) for tensor in inputs], f"{dtype} filled with {fill}")


def test_leading_axes_and_no_rows_on_the_gpu(gpu):
    a, b = random_inputs(12, *SHAPES[0], torch.float16, device="cuda")
    whole = gemm_relu(a, b)
    assert torch.equal(gemm_relu(a.view(3, 4, -1), b).view_as(whole), whole)
    none = gemm_relu(a[:0], b)
    assert none.shape == (0, SHAPES[0][0])


def test_torch_compile_and_cuda_graph_on_the_gpu(gpu):
    inputs = random_inputs(65, *SHAPES[0], torch.float16, device="cuda")
    eager = gemm_relu(*inputs)
    compiled = torch.compile(lambda *inputs: gemm_relu(*inputs) * 2, fullgraph=True)
    assert torch.equal(compiled(*inputs), eager * 2)
    graph, out = torch.cuda.CUDAGraph(), torch.empty_like(eager)
    with torch.cuda.graph(graph):
        gemm_relu(*inputs, out=out)
    out.fill_(torch.nan)
    graph.replay()
    assert torch.equal(out, eager)


def test_wrong_arguments_raise_clear_errors_on_the_gpu(gpu):
    a, b = random_inputs(64, *SHAPES[0], torch.float16, device="cuda")
    rest = (b,)
    with pytest.raises(TypeError, match="has dtype float64"):
        gemm_relu(a.double(), *rest)
    with pytest.raises(ValueError, match="must be on a GPU"):
        gemm_relu(a.cpu(), *rest)
    with pytest.raises(ValueError, match="has shape"):
        gemm_relu(a, b[: b.shape[0] // 2], *rest[1:])
    with pytest.raises(ValueError, match="contiguous"):
        gemm_relu(a, b.t().contiguous().t(), *rest[1:])
    with pytest.raises(ValueError, match="outside the domain"):
        gemm_relu(*(a.new_empty(shape) for shape in ((64, 24), (24, 40))))
    with pytest.raises(TypeError, match=r"must be a torch.Tensor"):
        gemm_relu(a.tolist(), *rest)
