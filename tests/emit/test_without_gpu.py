"""What the public functions of generated kernels say where there is no GPU, or where they are asked for another kernel."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch

GENERATED = Path(__file__).parents[2] / "generated"
SIZES = {
    "gemm_relu": {"M": 64, "N": 4096, "K": 4096},
    "mla_decode": {"B": 1, "H": 128, "S": 64},
    "rms_norm_wide": {"M": 3, "C": 8192},
    "rms_silu": {"M": 3, "C": 160},
}
KERNELS = sorted(SIZES)


@pytest.fixture(params=KERNELS)
def kernel(request, monkeypatch):
    """A kernel's package by its name, in a process whose torch has no GPU."""
    monkeypatch.syspath_prepend(GENERATED)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    yield request.param, importlib.import_module(request.param)
    for name in [name for name in sys.modules if name.split(".")[0] == request.param]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("versions", "mend"),
    [((None, None), "install a build of torch with CUDA"), (("13.0", None), "CUDA_VISIBLE_DEVICES")],
    ids=["torch-without-cuda", "no-gpu"],
)
def test_each_public_function_that_needs_a_gpu_says_what_is_missing(kernel, monkeypatch, versions, mend):
    name, package = kernel
    monkeypatch.setattr(torch.version, "cuda", versions[0])
    monkeypatch.setattr(torch.version, "hip", versions[1])
    with pytest.raises(RuntimeError, match=f"{name}: warm_up needs a GPU, and .*{mend}"):
        package.warm_up()
    with pytest.raises(RuntimeError, match=f"{name}_latency needs a GPU, and .*{mend}"):
        getattr(package, f"{name}_latency")(**SIZES[name])
    with pytest.raises(RuntimeError, match=f"{name}_kernel_source: there is no GPU .* arch='sm_90a' or 'sm_80'"):
        getattr(package, f"{name}_kernel_source")(**SIZES[name])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"arch": "sm_70"}, "arch must be 'sm_90a' or 'sm_80', got 'sm_70'"),
        ({"arch": "sm_80", "dtype": "float32"}, "dtype must be 'float16' or 'bfloat16', got 'float32'"),
        ({"arch": "sm_80", "first": 0}, "= 0 is outside the domain"),
    ],
    ids=["chip", "dtype", "size"],
)
def test_a_source_is_printed_only_for_what_was_proved(kernel, changes, said):
    name, package = kernel
    changes = dict(changes)
    sizes = dict(SIZES[name])
    if "first" in changes:
        sizes[next(iter(sizes))] = changes.pop("first")
    with pytest.raises(ValueError, match=said):
        getattr(package, f"{name}_kernel_source")(**sizes, **changes)


@pytest.mark.parametrize(
    ("dims", "error", "said"),
    [
        ({"Q": [1]}, TypeError, "there is no dim Q; there are "),
        ({0: 4096}, TypeError, "must be a list of sizes, got 4096"),
        ({0: [0]}, ValueError, "= 0 is outside the domain"),
    ],
    ids=["name", "number", "size"],
)
def test_warming_up_refuses_what_no_call_can_have(kernel, monkeypatch, dims, error, said):
    name, package = kernel
    runtime = importlib.import_module(f"{name}._runtime")
    monkeypatch.setattr(runtime, "current_chip", lambda _call, _arches: ("sm_80", 108))
    first = next(iter(SIZES[name]))
    with pytest.raises(error, match=said):
        package.warm_up(**{first if dim == 0 else dim: sizes for dim, sizes in dims.items()})


def test_a_gpu_of_another_kind_is_named_before_anything_is_compiled(kernel, monkeypatch):
    name, package = kernel
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _index: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _device: "a T4")
    with pytest.raises(RuntimeError, match=r"a T4 is sm_75; the kernel was proved for sm_90a, sm_80"):
        package.warm_up()
    with pytest.raises(RuntimeError, match=r"a T4 is sm_75"):
        getattr(package, f"{name}_kernel_source")(**SIZES[name])
