"""Golden tests of gemm_relu: its source, its lowering, its numbers on the CPU where tilegen is
installed, and its numbers on the GPU where there is one.

Run with pytest where this folder lies; torch and tilelang are all it needs.
"""

from pathlib import Path

import numpy
import pytest
import torch

from . import _golden, _runtime, api, kernel
from .api import _kernels, gemm_relu
from .dispatch import explain_dispatch, gemm_relu_dispatch
from .reference import random_inputs, reference

FOLDER = Path(__file__).parent
FACTS = _golden.load_facts(FOLDER)
SHAPES = kernel.SHAPES
ROWS = (1, 2, 16, 17, 63, 64, 65, 127, 256, 1024, 4097)
RANDOM = [(dtype, *shape) for dtype in kernel.DTYPES for shape in SHAPES]


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


def test_the_rows_of_these_tests_take_every_schedule():
    arch = kernel.ARCHES[0]
    taken = {kernel.tiles(arch, M, N, K, kernel.SM_COUNT[arch])["schedule"] for M in ROWS for N, K in SHAPES}
    assert taken == {key["schedule"] for key in kernel.compile_keys(arch, kernel.SM_COUNT[arch])}


@pytest.fixture(params=kernel.ARCHES)
def on_cpu(request, monkeypatch):
    _golden.interpret(monkeypatch, api, request.param)


@pytest.mark.parametrize("golden", FACTS["outputs"], ids=lambda golden: golden["name"])
def test_the_interpreter_gives_the_golden_output_on_the_cpu(on_cpu, golden):
    inputs = random_inputs(**golden["dims"], dtype=getattr(torch, golden["dtype"]), seed=golden["seed"])
    _, tolerance = reference(*inputs)
    expected = torch.from_numpy(_golden.load_output(FOLDER, golden["name"]))
    _golden.assert_close(gemm_relu(*inputs), expected, tolerance, golden["name"])


@pytest.fixture(scope="module")
def gpu():
    arch = _golden.require_gpu(kernel.ARCHES)
    sm_count = _runtime.sm_count_of(torch.cuda.current_device())
    keys = []
    for dtype, N, K in RANDOM:
        for M in ROWS:
            key = dict(arch=arch, dtype=dtype, N=N, K=K, **kernel.tiles(arch, M, N, K, sm_count))
            if key not in keys:
                keys.append(key)
    _runtime.warm_up(_kernels, keys, jobs=8)
    return arch


def close(inputs, what):
    out = gemm_relu(*inputs).fill_(torch.nan)
    gemm_relu(*inputs, out=out)
    expected, tolerance = reference(*inputs)
    _golden.assert_close(out, expected, tolerance, what)


@pytest.mark.parametrize(("dtype", "N", "K"), RANDOM)
@pytest.mark.parametrize("M", ROWS)
def test_random_inputs_on_the_gpu(gpu, dtype, N, K, M):
    inputs = random_inputs(M, N, K, getattr(torch, dtype), device="cuda", draw=_golden.normal_on_gpu)
    close(inputs, f"{dtype} M={M} N={N} K={K}")


@pytest.mark.parametrize("golden", FACTS["outputs"], ids=lambda golden: golden["name"])
def test_the_gpu_gives_the_golden_output(gpu, golden):
    inputs = random_inputs(**golden["dims"], dtype=getattr(torch, golden["dtype"]), seed=golden["seed"], device="cuda")
    _, tolerance = reference(*inputs)
    expected = torch.from_numpy(_golden.load_output(FOLDER, golden["name"]))
    _golden.assert_close(gemm_relu(*inputs), expected, tolerance, golden["name"])


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


def test_torch_compile_on_the_gpu(gpu):
    inputs = random_inputs(65, *SHAPES[0], torch.float16, device="cuda")
    compiled = torch.compile(lambda *inputs: gemm_relu(*inputs) * 2, fullgraph=True)
    assert torch.equal(compiled(*inputs), gemm_relu(*inputs) * 2)


@pytest.mark.parametrize("M", [1, 64, 65])
def test_a_cuda_graph_on_the_gpu(gpu, M):
    inputs = random_inputs(M, *SHAPES[0], torch.float16, device="cuda")
    eager = gemm_relu(*inputs)
    graph, out = torch.cuda.CUDAGraph(), torch.empty_like(eager)
    with torch.cuda.graph(graph):
        gemm_relu(*inputs, out=out)
        again = gemm_relu(*inputs)
    for _ in range(3):
        out.fill_(torch.nan)
        again.fill_(torch.nan)
        graph.replay()
        gemm_relu(*inputs)
        assert torch.equal(out, eager)
        assert torch.equal(again, eager)


@pytest.mark.parametrize("M", [1, 64, 256])
def test_launches_on_several_streams_on_the_gpu(gpu, M):
    inputs = random_inputs(M, *SHAPES[0], torch.float16, device="cuda")
    expected = gemm_relu(*inputs)
    streams = [torch.cuda.Stream() for _ in range(4)]
    outs = [torch.full_like(expected, torch.nan) for _ in streams]
    torch.cuda.synchronize()
    for _ in range(25):
        for stream, out in zip(streams, outs, strict=True):
            with torch.cuda.stream(stream):
                gemm_relu(*inputs, out=out)
    torch.cuda.synchronize()
    assert all(torch.equal(out, expected) for out in outs)


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


def test_dispatch_serves_a_cpu_by_plain_torch_and_says_why():
    golden = FACTS["outputs"][0]
    inputs = random_inputs(**golden["dims"], dtype=getattr(torch, golden["dtype"]), seed=golden["seed"])
    assert explain_dispatch(*inputs).startswith("plain torch: `a` is not on a GPU")
    expected, tolerance = reference(*inputs)[:2]
    out = gemm_relu_dispatch(*inputs)
    _golden.assert_close(out, expected, tolerance, "plain torch")
    assert torch.equal(gemm_relu_dispatch(*inputs, out=torch.empty_like(out)), out)


def test_dispatch_takes_the_kernel_where_it_serves_on_the_gpu(gpu):
    golden = FACTS["outputs"][0]
    dtype = getattr(torch, golden["dtype"])
    inputs = random_inputs(**golden["dims"], dtype=dtype, seed=golden["seed"], device="cuda")
    assert explain_dispatch(*inputs).startswith("the generated kernel")
    assert torch.equal(gemm_relu_dispatch(*inputs), gemm_relu(*inputs))
