"""Two copies of one kernel in a process, as where two packages vendor it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tilegen.emit.rendering import render
from tilegen.spec import load_bytes

SPEC = Path(__file__).parents[2] / "specs" / "rms_silu.toml"


@pytest.fixture
def copies(tmp_path, monkeypatch):
    """``rms_silu`` of the packages ``ours`` and ``theirs``."""
    # A spec of its own, so that the op is not that of generated/rms_silu, which other tests of this process call.
    files = render(load_bytes(SPEC.read_bytes() + b"# copied\n", "rms_silu.toml")).files
    for package in ("ours", "theirs"):
        folder = tmp_path / package / "rms_silu"
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").write_text("")
        for name, text in files.items():
            (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield [importlib.import_module(f"{package}.rms_silu.api") for package in ("ours", "theirs")]
    for name in [name for name in sys.modules if name.split(".")[0] in ("ours", "theirs")]:
        del sys.modules[name]


class Calls(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)


def test_a_second_copy_leaves_the_op_of_the_first_alive(copies):
    """Registered again, the op would be freed while the first copy and what was exported from it still call it."""
    first, second = copies
    assert first._op is second._op
    assert first._op_out is second._op_out
    with FakeTensorMode():
        given = [torch.empty(shape, dtype=torch.float16, device="cuda") for shape in ((5, 160), (160,))]
        exported = [torch.export.export(Calls(copy.rms_silu), tuple(given)) for copy in (first, second, first)]
        assert first.rms_silu(*given).shape == (5, 160)
    ops = [[node.target for node in found.graph.nodes if node.op == "call_function"] for found in exported]
    assert ops[0] == ops[1] == ops[2]
    assert len(ops[0]) == 1


def test_an_imported_copy_can_be_loaded_anew(copies):
    first, _ = copies
    op = first._op
    assert importlib.reload(first)._op is op
