"""The workspaces of generated kernels: one for each stream, zero counters, and none kept from a graph capture."""

import types

import pytest
import torch

from tilegen.emit.support import runtime

CPU = torch.device("cpu")


@pytest.fixture
def cuda(monkeypatch):
    """The state of CUDA that a workspace asks for."""
    state = types.SimpleNamespace(stream=1, capturing=False)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: state.capturing)
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda device=None: types.SimpleNamespace(cuda_stream=state.stream)
    )
    return state


def test_launches_of_one_stream_share_a_workspace_and_those_of_two_do_not(cuda):
    workspaces = runtime.Workspaces()
    partial, arrived = workspaces.get(CPU, (8, 4, 4))
    assert workspaces.get(CPU, (8, 4, 4)) == (partial, arrived)
    assert (partial.shape, arrived.shape, arrived.sum()) == ((8, 4, 4), (4,), 0)
    cuda.stream = 2
    other, counters = workspaces.get(CPU, (8, 4, 4))
    assert other.data_ptr() != partial.data_ptr()
    assert counters.data_ptr() != arrived.data_ptr()


def test_shapes_of_one_stream_share_memory(cuda):
    workspaces = runtime.Workspaces()
    wide, counters = workspaces.get(CPU, (8, 16, 4))
    small, fewer = workspaces.get(CPU, (4, 4, 4))
    assert small.data_ptr() == wide.data_ptr()
    assert fewer.data_ptr() == counters.data_ptr()


def test_a_workspace_that_grows_starts_with_zero_counters(cuda):
    workspaces = runtime.Workspaces()
    workspaces.get(CPU, (4, 2, 2))
    partial, arrived = workspaces.get(CPU, (64, 8, 8))
    assert partial.numel() == 64 * 64
    assert arrived.tolist() == [0] * 32


def test_a_captured_launch_takes_memory_of_its_graph(cuda):
    workspaces = runtime.Workspaces()
    kept, _ = workspaces.get(CPU, (8, 4, 4))
    cuda.capturing = True
    first, arrived = workspaces.get(CPU, (8, 4, 4))
    second, _ = workspaces.get(CPU, (8, 4, 4))
    assert len({kept.data_ptr(), first.data_ptr(), second.data_ptr()}) == 3
    assert arrived.tolist() == [0] * 4
    cuda.capturing = False
    assert workspaces.get(CPU, (8, 4, 4))[0].data_ptr() == kept.data_ptr()
