"""mla_decode as a part of torch: fake tensors, export, compile, the refusal of gradients, threads, streams and devices.

Run with pytest where this folder lies. What needs no GPU is tested without one.
"""

import threading
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import _golden, api, kernel
from .api import mla_decode
from .reference import random_inputs, reference

GOLDEN = _golden.load_facts(Path(__file__).parent)["outputs"][0]


def small_inputs(device="cpu"):
    dtype = getattr(torch, GOLDEN["dtype"])
    return random_inputs(**GOLDEN["dims"], dtype=dtype, seed=GOLDEN["seed"], device=device)


def like(values, make):
    """The same arguments with other tensors."""
    return tuple(make(value) if isinstance(value, torch.Tensor) else value for value in values)


class Calls(torch.nn.Module):
    def forward(self, *inputs):
        return mla_decode(*inputs)


@pytest.fixture(scope="module")
def gpu():
    return _golden.require_gpu(kernel.ARCHES)


def test_fake_tensors_and_export_need_no_gpu():
    inputs = small_inputs()
    with FakeTensorMode():
        fakes = like(inputs, lambda value: torch.empty(value.shape, dtype=value.dtype, device="cuda"))
        out = mla_decode(*fakes)
        exported = torch.export.export(Calls(), fakes)
    assert (out.shape, out.device.type) == (reference(*inputs)[0].shape, "cuda")
    assert any(node.target is api._op._opoverload for node in exported.graph.nodes)


def test_a_gradient_is_refused():
    first, *rest = small_inputs()
    with pytest.raises(RuntimeError, match="no backward"):
        mla_decode(first.requires_grad_(), *rest)


def test_an_exported_program_runs_on_the_gpu(gpu):
    inputs = small_inputs("cuda")
    exported = torch.export.export(Calls(), inputs)
    assert torch.equal(exported.module()(*inputs), mla_decode(*inputs))


def test_threads_and_their_streams_on_the_gpu(gpu):
    inputs = small_inputs("cuda")
    expected = mla_decode(*inputs)
    outs = []

    def work():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.default_stream())
        with torch.cuda.stream(stream):
            outs.extend(mla_decode(*inputs) for _ in range(20))
        stream.synchronize()

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outs) == 160
    assert all(torch.equal(out, expected) for out in outs)


def test_a_thread_that_has_not_used_cuda_launches_on_the_gpu(gpu):
    inputs = small_inputs("cuda")
    expected = mla_decode(*inputs)
    out = torch.full_like(expected, torch.nan)
    torch.cuda.synchronize()
    thread = threading.Thread(target=lambda: mla_decode(*inputs, out=out))
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert torch.equal(out, expected)


def test_each_device_runs_its_own_tensors_on_the_gpu(gpu):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU on this machine")
    outs = [mla_decode(*small_inputs(f"cuda:{index}")) for index in range(torch.cuda.device_count())]
    assert [out.device.index for out in outs] == list(range(len(outs)))
    assert all(torch.equal(out.cpu(), outs[0].cpu()) for out in outs)
