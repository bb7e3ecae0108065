"""Golden tests of mla_decode: its source, its lowering, its numbers on the CPU where tilegen is
installed, and its numbers on the GPU where there is one.

Run with pytest where this folder lies; torch and tilelang are all it needs.
"""

import itertools
from pathlib import Path

import numpy
import pytest
import torch

from . import _golden, api, kernel
from .api import mla_decode, warm_up
from .dispatch import explain_dispatch, mla_decode_dispatch
from .reference import random_inputs, reference

FOLDER = Path(__file__).parent
FACTS = _golden.load_facts(FOLDER)
HEADS = (16, 64, 128)
WIDTHS = dict(D_nope=512, D_rope=64)
CONTEXTS = (1, 63, 64, 65, 1000, 8192)
BATCHES = (1, 3, 64)


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
    expected = reference(*inputs)[0]
    numpy.testing.assert_allclose(expected.numpy(), _golden.load_output(FOLDER, golden["name"]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("num_split", ["auto", 1, 2, 7, 10**6])
@pytest.mark.parametrize("S", CONTEXTS)
def test_no_split_is_empty_and_no_key_is_left_out(num_split, S):
    for B, H in itertools.product(BATCHES, HEADS):
        splits = kernel.split_count(num_split, B, S, H, BLOCK_H=16, BLOCK_N=64, sm_count=132)
        key_blocks = -(-S // 64)
        share = -(-key_blocks // splits)
        assert 1 <= splits <= min(key_blocks, kernel.MAX_SPLIT)
        assert (splits - 1) * share < key_blocks <= splits * share


@pytest.mark.parametrize("num_split", ["auto", 1, 2, 7, 10**6])
@pytest.mark.parametrize("S", CONTEXTS)
def test_no_part_is_empty_and_no_key_is_left_out(num_split, S):
    for B, H in itertools.product((*BATCHES, 133, 4096), HEADS):
        chunk = kernel.part_size(num_split, B, S, H, BLOCK_H=64, BLOCK_N=64, sm_count=132)
        key_blocks = B * -(-S // 64)
        parts = -(-key_blocks // chunk)
        assert 1 <= parts <= kernel.MAX_PARTS
        assert (parts - 1) * chunk < key_blocks <= parts * chunk
        assert num_split != 1 or chunk % -(-S // 64) == 0


@pytest.fixture(params=kernel.ARCHES)
def on_cpu(request, monkeypatch):
    _golden.interpret(monkeypatch, api, request.param)


@pytest.mark.parametrize("golden", FACTS["outputs"], ids=lambda golden: golden["name"])
def test_the_interpreter_gives_the_golden_output_on_the_cpu(on_cpu, golden):
    inputs = random_inputs(**golden["dims"], dtype=getattr(torch, golden["dtype"]), seed=golden["seed"])
    tolerance = reference(*inputs)[1]
    expected = torch.from_numpy(_golden.load_output(FOLDER, golden["name"]))
    _golden.assert_close(mla_decode(*inputs), expected, tolerance, golden["name"])


@pytest.fixture(scope="module")
def gpu():
    arch = _golden.require_gpu(kernel.ARCHES)
    warm_up(jobs=8)
    return arch


def gpu_inputs(B, H, S, dtype, seed=0):
    return random_inputs(B, H, S, **WIDTHS, dtype=getattr(torch, dtype), seed=seed, device="cuda")


def close(inputs, what, seq_lens=None, scale=None, num_split=None):
    out = torch.full_like(inputs[0], torch.nan)
    options = dict(seq_lens=seq_lens, scale=scale, num_split=num_split)
    _, lse = mla_decode(*inputs, **options, out=out, return_lse=True)
    expected, tolerance, expected_lse, lse_tolerance = reference(*inputs, seq_lens, scale)
    _golden.assert_close(out, expected, tolerance, what)
    empty = expected_lse.isneginf()
    assert torch.equal(lse.isneginf(), empty), f"{what}: lse is -inf elsewhere than where there are no keys"
    _golden.assert_close(lse[~empty], expected_lse[~empty], lse_tolerance[~empty], f"{what}, lse")


@pytest.mark.parametrize("dtype", kernel.DTYPES)
@pytest.mark.parametrize("H", HEADS)
@pytest.mark.parametrize("B", BATCHES)
@pytest.mark.parametrize("S", CONTEXTS)
def test_random_inputs_on_the_gpu(gpu, dtype, H, B, S):
    close(gpu_inputs(B, H, S, dtype), f"{dtype} B={B} H={H} S={S}")


@pytest.mark.parametrize("golden", FACTS["outputs"], ids=lambda golden: golden["name"])
def test_the_gpu_gives_the_golden_output(gpu, golden):
    inputs = random_inputs(**golden["dims"], dtype=getattr(torch, golden["dtype"]), seed=golden["seed"])
    tolerance = reference(*inputs)[1]
    expected = torch.from_numpy(_golden.load_output(FOLDER, golden["name"]))
    _golden.assert_close(mla_decode(*(part.cuda() for part in inputs)), expected, tolerance, golden["name"])


@pytest.mark.parametrize("H", HEADS)
@pytest.mark.parametrize("num_split", [1, 2, 5, None, 10**6])
@pytest.mark.parametrize("S", [1, 65, 1000, 4097])
def test_every_number_of_splits_gives_the_same_on_the_gpu(gpu, H, num_split, S):
    close(gpu_inputs(3, H, S, "float16"), f"H={H} S={S} num_split={num_split}", num_split=num_split)


@pytest.mark.parametrize("dtype", kernel.DTYPES)
@pytest.mark.parametrize("H", HEADS)
@pytest.mark.parametrize("num_split", [1, 3, None])
def test_ragged_lengths_on_the_gpu(gpu, dtype, H, num_split):
    lengths = [0, 1, 63, 64, 65, 700, 1000, 999]
    inputs = gpu_inputs(len(lengths), H, 1000, dtype)
    for b, length in enumerate(lengths):
        # A cache holds anything past the length.
        inputs[2][b, length:] = torch.nan
    seq_lens = torch.tensor(lengths, dtype=torch.int32, device="cuda")
    close(inputs, f"{dtype} H={H} num_split={num_split}", seq_lens, num_split=num_split)


@pytest.mark.parametrize("dtype", kernel.DTYPES)
@pytest.mark.parametrize("num_split", [1, None])
@pytest.mark.parametrize("kind", ["equal scores", "large scores", "one key dominates", "rising scores", "tiny values"])
def test_adversarial_inputs_on_the_gpu(gpu, dtype, num_split, kind):
    q_nope, q_pe, kv = gpu_inputs(2, HEADS[-1], 1000, dtype)
    if kind == "equal scores":
        q_nope, q_pe = torch.zeros_like(q_nope), torch.zeros_like(q_pe)
    elif kind == "large scores":
        q_nope, q_pe = q_nope * 40, q_pe * 40
    elif kind == "one key dominates":
        kv[:, 777] = torch.cat([q_nope[:, 0], q_pe[:, 0]], -1)
    elif kind == "rising scores":
        kv *= torch.linspace(0.01, 3, 1000, device="cuda", dtype=kv.dtype)[:, None]
    else:
        kv *= 2.0**-10
    close((q_nope, q_pe, kv), f"{dtype} {kind}", num_split=num_split)


def test_a_scale_of_the_caller_on_the_gpu(gpu):
    close(gpu_inputs(3, HEADS[0], 200, "float16"), "scale", scale=192**-0.5)


def test_no_sequences_on_the_gpu(gpu):
    q_nope, q_pe, kv = gpu_inputs(1, HEADS[0], 64, "float16")
    out, lse = mla_decode(q_nope[:0], q_pe[:0], kv[:0], return_lse=True)
    assert out.shape == (0, HEADS[0], WIDTHS["D_nope"])
    assert lse.shape == (0, HEADS[0])


@pytest.mark.parametrize(
    ("B", "ragged", "num_split"), [(3, True, None), (200, True, None), (3, False, 1), (2, False, 3)]
)
def test_torch_compile_and_cuda_graph_on_the_gpu(gpu, B, ragged, num_split):
    inputs = gpu_inputs(B, HEADS[-1], 300, "float16")
    seq_lens = torch.arange(1, B + 1, dtype=torch.int32, device="cuda") if ragged else None
    options = dict(seq_lens=seq_lens, num_split=num_split)
    eager, eager_lse = mla_decode(*inputs, **options, return_lse=True)

    def doubled(*inputs):
        out, lse = mla_decode(*inputs, **options, return_lse=True)
        return out * 2, lse

    compiled = torch.compile(doubled, fullgraph=True)(*inputs)
    assert torch.equal(compiled[0], eager * 2)
    assert torch.equal(compiled[1], eager_lse)
    graph, out = torch.cuda.CUDAGraph(), torch.empty_like(eager)
    with torch.cuda.graph(graph):
        mla_decode(*inputs, **options, out=out)
    out.fill_(torch.nan)
    graph.replay()
    assert torch.equal(out, eager)


def test_wrong_arguments_raise_clear_errors_on_the_gpu(gpu):
    q_nope, q_pe, kv = gpu_inputs(4, HEADS[0], 64, "float16")
    seq_lens = torch.full((4,), 64, dtype=torch.int32, device="cuda")
    with pytest.raises(TypeError, match="has dtype float64"):
        mla_decode(q_nope.double(), q_pe, kv)
    with pytest.raises(TypeError, match="`seq_lens` has dtype int64"):
        mla_decode(q_nope, q_pe, kv, seq_lens=seq_lens.long())
    with pytest.raises(ValueError, match="must be on a GPU"):
        mla_decode(q_nope.cpu(), q_pe, kv)
    with pytest.raises(ValueError, match="`kv` has shape"):
        mla_decode(q_nope, q_pe, kv[..., :-64].contiguous())
    with pytest.raises(ValueError, match="`seq_lens` has shape"):
        mla_decode(q_nope, q_pe, kv, seq_lens=seq_lens[:3])
    with pytest.raises(ValueError, match="contiguous"):
        mla_decode(q_nope.transpose(0, 1).contiguous().transpose(0, 1), q_pe, kv)
    with pytest.raises(ValueError, match="outside the domain"):
        mla_decode(q_nope[:, :7].contiguous(), q_pe[:, :7].contiguous(), kv)
    with pytest.raises(ValueError, match="num_split must be"):
        mla_decode(q_nope, q_pe, kv, num_split=0)
    with pytest.raises(ValueError, match="scale must be positive"):
        mla_decode(q_nope, q_pe, kv, scale=-1.0)
    with pytest.raises(TypeError, match=r"must be a torch.Tensor"):
        mla_decode(q_nope.tolist(), q_pe, kv)


def test_dispatch_serves_a_cpu_by_plain_torch_and_says_why():
    golden = FACTS["outputs"][0]
    inputs = random_inputs(**golden["dims"], dtype=getattr(torch, golden["dtype"]), seed=golden["seed"])
    assert explain_dispatch(*inputs).startswith("plain torch: `q_nope` is not on a GPU")
    expected, tolerance = reference(*inputs)[:2]
    out = mla_decode_dispatch(*inputs)
    _golden.assert_close(out, expected, tolerance, "plain torch")
    assert torch.equal(mla_decode_dispatch(*inputs, out=torch.empty_like(out)), out)


def test_dispatch_takes_the_kernel_where_it_serves_on_the_gpu(gpu):
    golden = FACTS["outputs"][0]
    dtype = getattr(torch, golden["dtype"])
    inputs = random_inputs(**golden["dims"], dtype=dtype, seed=golden["seed"], device="cuda")
    assert explain_dispatch(*inputs).startswith("the generated kernel")
    assert torch.equal(mla_decode_dispatch(*inputs), mla_decode(*inputs))
