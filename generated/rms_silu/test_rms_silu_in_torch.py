"""rms_silu as a part of torch: fake tensors, export, compile, gradients, the module, threads, streams and devices.

Run with pytest where this folder lies. What needs no GPU is tested without one.
"""

import threading
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import _golden, api, kernel
from .api import rms_silu
from .dispatch import rms_silu_dispatch, rms_silu_eager
from .module import RmsSilu
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
        return rms_silu(*inputs)


@pytest.fixture(scope="module")
def gpu():
    return _golden.require_gpu(kernel.ARCHES)


def test_fake_tensors_and_export_need_no_gpu():
    inputs = small_inputs()
    with FakeTensorMode():
        fakes = like(inputs, lambda value: torch.empty(value.shape, dtype=value.dtype, device="cuda"))
        out = rms_silu(*fakes)
        exported = torch.export.export(Calls(), fakes)
    assert (out.shape, out.device.type) == (reference(*inputs)[0].shape, "cuda")
    assert any(node.target is api._op._opoverload for node in exported.graph.nodes)


def gradients(call, inputs):
    """Of a weighted sum of the result, for each tensor. The sum of squares of a normed row has none."""
    leaves = like(inputs, lambda value: value.detach().requires_grad_())
    out = call(*leaves).float()
    (out * torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out)).sum().backward()
    return [leaf.grad for leaf in leaves if isinstance(leaf, torch.Tensor)]


def assert_gradients_are_right(call, inputs):
    of_reference = gradients(lambda *args: reference(*args)[0], inputs)
    for found, expected in zip(gradients(call, inputs), of_reference, strict=True):
        error = (found.double() - expected.double()).norm() / expected.double().norm()
        # The result and its gradient are rounded, and so is what their products add up to.
        assert error < 8 * _golden.ROUND_OFF[found.dtype], f"off by {error:.3g}"


@pytest.fixture
def kernel_by_torch(monkeypatch):
    """The launch of the kernel replaced by plain torch: what is left is what torch sees of it."""

    def direct(*arguments):
        return rms_silu_eager(*arguments[:-1], out=arguments[-1])

    # The op calls the launch of the copy of this kernel that was imported first.
    monkeypatch.setattr(api._op.calls.__globals__["_launch"], "direct", direct)


def test_the_gradient_is_that_of_the_reference(kernel_by_torch):
    inputs = small_inputs()
    assert_gradients_are_right(rms_silu, inputs)


def test_a_compiled_function_has_the_same_gradient(kernel_by_torch):
    inputs = small_inputs()
    compiled = torch.compile(rms_silu, fullgraph=True, backend="aot_eager")
    for found, expected in zip(gradients(compiled, inputs), gradients(rms_silu, inputs), strict=True):
        assert torch.equal(found, expected)


def test_out_is_refused_where_autograd_would_have_to_follow_it(kernel_by_torch):
    first, *rest = small_inputs()
    out = torch.empty_like(rms_silu_eager(first, *rest))
    with pytest.raises(RuntimeError, match="autograd cannot follow"):
        rms_silu(first.requires_grad_(), *rest, out=out)


def test_the_module_is_the_function_with_its_parameters():
    inputs = small_inputs()
    arguments = dict(zip(("x", "gamma"), inputs, strict=True))
    sizes = (GOLDEN["dims"]["C"],)
    module = RmsSilu(*sizes, dtype=inputs[0].dtype)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(arguments["b" if name == "weight" else name])
    out = module(*(arguments[name] for name in ("x",)))
    assert torch.equal(out, rms_silu_dispatch(*inputs))
    parameters = list(module.parameters())
    if parameters:
        out.float().sum().backward()
    assert all(parameter.grad is not None for parameter in parameters)
    assert repr(module) == f"RmsSilu({', '.join(map(str, sizes))})"


def test_gradients_on_the_gpu(gpu):
    inputs = small_inputs("cuda")
    assert_gradients_are_right(rms_silu, inputs)
    assert_gradients_are_right(torch.compile(rms_silu, fullgraph=True), inputs)


def test_an_exported_program_runs_on_the_gpu(gpu):
    inputs = small_inputs("cuda")
    exported = torch.export.export(Calls(), inputs)
    assert torch.equal(exported.module()(*inputs), rms_silu(*inputs))


def test_threads_and_their_streams_on_the_gpu(gpu):
    inputs = small_inputs("cuda")
    expected = rms_silu(*inputs)
    outs = []

    def work():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.default_stream())
        with torch.cuda.stream(stream):
            outs.extend(rms_silu(*inputs) for _ in range(20))
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
    expected = rms_silu(*inputs)
    out = torch.full_like(expected, torch.nan)
    torch.cuda.synchronize()
    thread = threading.Thread(target=lambda: rms_silu(*inputs, out=out))
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert torch.equal(out, expected)


def test_each_device_runs_its_own_tensors_on_the_gpu(gpu):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU on this machine")
    outs = [rms_silu(*small_inputs(f"cuda:{index}")) for index in range(torch.cuda.device_count())]
    assert [out.device.index for out in outs] == list(range(len(outs)))
    assert all(torch.equal(out.cpu(), outs[0].cpu()) for out in outs)
