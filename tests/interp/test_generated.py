"""Golden tier 3 beyond the golden inputs: the kernels that the specs render to, wrappers included, without a GPU.

The wrapper of a generated kernel is called as it is; only its compiled kernels are replaced by the interpreter, and its
questions about the device are answered for an H200 or an A100, as in the golden tests that stand beside each kernel.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from tilegen.emit.rendering import render
from tilegen.interp import InterpretedKernel
from tilegen.spec.find import specs_in
from tilegen.spec.loading import load

torch = pytest.importorskip("torch")
SPECS = Path(__file__).parents[2] / "specs"


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """Every spec of the repository, rendered into one folder that can be imported from."""
    folder = tmp_path_factory.mktemp("rendered")
    for path in specs_in(SPECS):
        spec = load(path)
        place = folder / spec.kernel
        place.mkdir()
        for name, content in render(spec).files.items():
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        if not (place / "__init__.py").exists():
            (place / "__init__.py").write_text("")
        golden = place / "golden"
        golden.mkdir(exist_ok=True)
        (golden / "facts.json").write_text(json.dumps({"files": {}, "lowering": [], "outputs": []}))
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture
def on_cpu(rendered, monkeypatch):
    """``on_cpu("rms_silu", "sm_90a")`` gives the kernel's package, whose functions now take CPU tensors."""

    def go(kernel, arch):
        package = importlib.import_module(kernel)
        golden = importlib.import_module(f"{kernel}._golden")
        api = importlib.import_module(f"{kernel}.api")
        golden.interpret(monkeypatch, api, arch)
        return (
            package,
            api,
            importlib.import_module(f"{kernel}.reference"),
            golden,
        )

    return go


CASES = [
    ("gemm_relu", {"M": 200, "N": 1024, "K": 1024}),
    ("gemm_relu", {"M": 1, "N": 1024, "K": 1024}),
    ("gemm_relu", {"M": 65, "N": 1024, "K": 4096}),
    ("rms_silu", {"M": 65, "C": 160}),
    ("rms_silu", {"M": 7, "C": 1024}),
    ("rms_norm_wide", {"M": 2, "C": 8200}),
    ("mla_decode", {"B": 2, "H": 16, "S": 65, "D_nope": 512, "D_rope": 64}),
    ("mla_decode", {"B": 1, "H": 128, "S": 300, "D_nope": 512, "D_rope": 64}),
]


#: Each shape once on each chip; the golden tests beside the kernels have both dtypes on small shapes.
DTYPES = {"sm_90a": "float16", "sm_80": "bfloat16"}
RUNS = [
    pytest.param(*case, arch, dtype, marks=() if DTYPES[arch] == dtype else (pytest.mark.slow, pytest.mark.nightly))
    for case in CASES
    for arch in DTYPES
    for dtype in DTYPES.values()
]


@pytest.mark.parametrize(
    ("kernel", "dims", "arch", "dtype"),
    RUNS,
    ids=[
        f"{run.values[0]}-{'-'.join(map(str, run.values[1].values()))}-{run.values[3]}-{run.values[2]}" for run in RUNS
    ],
)
def test_a_generated_kernel_gives_the_right_numbers_on_the_cpu(on_cpu, kernel, dims, arch, dtype):
    _, api, references, golden = on_cpu(kernel, arch)
    inputs = references.random_inputs(**dims, dtype=getattr(torch, dtype), seed=0)
    out = getattr(api, kernel)(*inputs)
    expected, tolerance = references.reference(*inputs)[:2]
    if hasattr(references, "rounded"):
        tolerance = references.rounded(expected, tolerance, out.dtype)
    golden.assert_close(out, expected, tolerance, kernel)


@pytest.mark.parametrize("num_split", [1, 2, 5])
@pytest.mark.parametrize("seq_lens", [None, [150, 0, 70]], ids=["whole", "ragged"])
def test_every_number_of_splits_of_mla_decode_gives_the_same(on_cpu, num_split, seq_lens):
    _, api, references, golden = on_cpu("mla_decode", "sm_90a")
    inputs = references.random_inputs(B=3, H=16, S=150, D_nope=512, D_rope=64, dtype=torch.float16, seed=1)
    lengths = None if seq_lens is None else torch.tensor(seq_lens, dtype=torch.int32)
    out, lse = api.mla_decode(*inputs, seq_lens=lengths, num_split=num_split, return_lse=True)
    expected, tolerance, expected_lse, lse_tolerance = references.reference(*inputs, lengths, None)
    golden.assert_close(out, expected, tolerance, "mla_decode")
    empty = expected_lse.isneginf()
    assert torch.equal(lse.isneginf(), empty)
    golden.assert_close(lse[~empty], expected_lse[~empty], lse_tolerance[~empty], "lse")


EQUAL = [(B, S, num_split) for B in (1, 2, 3) for S in (1, 63, 64, 65, 1000) for num_split in (1, 3)]
QUICK = {(3, 1, 1), (2, 64, 3), (1, 65, 3), (2, 1000, 1), (3, 1000, 3)}


@pytest.mark.parametrize(
    ("B", "S", "num_split"),
    [
        entry if entry in QUICK else pytest.param(*entry, marks=[pytest.mark.slow, pytest.mark.nightly])
        for entry in EQUAL
    ],
)
def test_whole_and_cut_batches_of_equal_lengths_give_the_same_on_schedule_delayed(on_cpu, B, S, num_split):
    _, api, references, golden = on_cpu("mla_decode", "sm_90a")
    inputs = references.random_inputs(B=B, H=64, S=S, D_nope=512, D_rope=64, dtype=torch.float16, seed=2)
    cut = num_split > 1 and S > 64
    assert api._Delayed((num_split, B, S, 64, 64, 64, 132), False).split == ("even" if cut else False)
    out, lse = api.mla_decode(*inputs, num_split=num_split, return_lse=True)
    expected, tolerance, expected_lse, lse_tolerance = references.reference(*inputs)
    golden.assert_close(out, expected, tolerance, "mla_decode")
    golden.assert_close(lse, expected_lse, lse_tolerance, "lse")


@pytest.mark.parametrize("H", [48, 80, 128])
def test_sequences_of_one_part_follow_one_another_whether_or_not_the_heads_fill_a_block(on_cpu, H):
    _, api, references, golden = on_cpu("mla_decode", "sm_90a")
    inputs = references.random_inputs(B=3, H=H, S=130, D_nope=512, D_rope=64, dtype=torch.float16, seed=5)
    tiles = {"BLOCK_H": 64, "BLOCK_N": 64, "threads": 256, "stages": 2, "split": False}
    run = InterpretedKernel(api.kernel.build("sm_90a", "float16", H, 512, 64, "delayed", **tiles))
    out, lse = torch.full_like(inputs[0], torch.nan), torch.full((3, H), torch.nan)
    key_blocks = 3
    run(*inputs, out, lse, 576**-0.5 * api.kernel.LOG2_E, 1, 3 * key_blocks)
    expected, tolerance, expected_lse, lse_tolerance = references.reference(*inputs)
    golden.assert_close(out, expected, tolerance, "mla_decode")
    golden.assert_close(lse, expected_lse, lse_tolerance, "lse")


@pytest.mark.parametrize("seq_lens", [[150, 0, 70], [64, 64, 64]])
def test_lengths_give_the_right_numbers_on_schedule_delayed(on_cpu, seq_lens):
    _, api, references, golden = on_cpu("mla_decode", "sm_90a")
    inputs = references.random_inputs(B=3, H=64, S=150, D_nope=512, D_rope=64, dtype=torch.float16, seed=3)
    lengths = torch.tensor(seq_lens, dtype=torch.int32)
    for sequence, length in enumerate(seq_lens):
        inputs[2][sequence, length:] = torch.nan
    out, lse = api.mla_decode(*inputs, seq_lens=lengths, return_lse=True)
    expected, tolerance, expected_lse, lse_tolerance = references.reference(*inputs, lengths, None)
    golden.assert_close(out, expected, tolerance, "mla_decode")
    empty = expected_lse.isneginf()
    assert torch.equal(lse.isneginf(), empty)
    golden.assert_close(lse[~empty], expected_lse[~empty], lse_tolerance[~empty], "lse")


def test_a_stand_in_writes_its_outputs_in_place_and_refuses_findings(normal):
    from tests.interp.test_faults import row_norm
    from tilegen.interp import WrongKernelError

    x = torch.from_numpy(normal(40, 128, dtype="float16"))
    y = torch.empty_like(x)
    InterpretedKernel(row_norm())(x, y)
    assert torch.allclose(y.float(), torch.nn.functional.rms_norm(x.float(), (128,), eps=1e-5), atol=2e-3)
    with pytest.raises(WrongKernelError, match="uninitialised-read"):
        InterpretedKernel(row_norm("missing reduction"))(x, y)
