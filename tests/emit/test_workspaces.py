"""The workspaces of generated kernels: one for each stream, zero counters, and none kept from a graph capture."""

import functools
import threading
import types

import pytest
import torch

CPU = torch.device("cpu")


@pytest.fixture
def layout(launching):
    """Partial sums, and a counter for every two of them."""

    @functools.cache
    def make(slots, rows, columns):
        return launching.Layout((((slots, rows, columns), torch.float32), ((slots // 2,), torch.int32)))

    return make


@pytest.fixture
def launching(support):
    return support("launching")


@pytest.fixture
def cuda(monkeypatch, launching):
    """The state of CUDA that a workspace asks for."""
    state = types.SimpleNamespace(stream=1, capturing=False)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: state.capturing)
    monkeypatch.setattr(launching, "raw_stream", lambda _device: state.stream)
    return state


def test_launches_of_one_stream_share_a_workspace_and_those_of_two_do_not(cuda, launching, layout):
    workspaces = launching.Workspaces()
    partial, arrived = workspaces.get(CPU, layout(8, 4, 4))
    again = workspaces.get(CPU, layout(8, 4, 4))
    assert [tensor.data_ptr() for tensor in again] == [partial.data_ptr(), arrived.data_ptr()]
    assert (partial.shape, arrived.shape, arrived.sum()) == ((8, 4, 4), (4,), 0)
    cuda.stream = 2
    other, counters = workspaces.get(CPU, layout(8, 4, 4))
    assert other.data_ptr() != partial.data_ptr()
    assert counters.data_ptr() != arrived.data_ptr()


def test_shapes_of_one_stream_share_memory(cuda, launching, layout):
    workspaces = launching.Workspaces()
    wide, counters = workspaces.get(CPU, layout(8, 16, 4))
    small, fewer = workspaces.get(CPU, layout(4, 4, 4))
    assert small.data_ptr() == wide.data_ptr()
    assert fewer.data_ptr() == counters.data_ptr()


def test_a_workspace_that_grows_starts_with_zero_counters(cuda, launching, layout):
    workspaces = launching.Workspaces()
    workspaces.get(CPU, layout(4, 2, 2))
    partial, arrived = workspaces.get(CPU, layout(64, 8, 8))
    assert partial.numel() == 64 * 64
    assert arrived.tolist() == [0] * 32


def test_a_captured_launch_takes_memory_of_its_graph(cuda, launching, layout):
    workspaces = launching.Workspaces()
    kept, _ = workspaces.get(CPU, layout(8, 4, 4))
    cuda.capturing = True
    first, arrived = workspaces.get(CPU, layout(8, 4, 4))
    second, _ = workspaces.get(CPU, layout(8, 4, 4))
    assert len({kept.data_ptr(), first.data_ptr(), second.data_ptr()}) == 3
    assert arrived.tolist() == [0] * 4
    cuda.capturing = False
    assert workspaces.get(CPU, layout(8, 4, 4))[0].data_ptr() == kept.data_ptr()


def test_each_thread_has_a_workspace_of_its_own(cuda, launching, layout):
    workspaces = launching.Workspaces()
    here, _ = workspaces.get(CPU, layout(8, 4, 4))
    found = []
    thread = threading.Thread(target=lambda: found.append(workspaces.get(CPU, layout(8, 4, 4))[0]))
    thread.start()
    thread.join()
    assert found[0].data_ptr() != here.data_ptr()
