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
def vendored(tmp_path, monkeypatch):
    """``vendored("ours")`` imports ``rms_silu`` of the package ``ours``; with ``edit`` its files are changed first."""
    # A spec of its own, so that the op is not that of generated/rms_silu, which other tests of this process call.
    unlike = f"# copied to {tmp_path}\n".encode()
    files = render(load_bytes(SPEC.read_bytes() + unlike, "rms_silu.toml")).files
    monkeypatch.syspath_prepend(tmp_path)

    def vendor(package, edit=lambda folder: None):
        folder = tmp_path / package / "rms_silu"
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").write_text("")
        for name, text in files.items():
            (folder / name).write_text(text)
        edit(folder)
        return importlib.import_module(f"{package}.rms_silu.api")

    yield vendor
    for name in [name for name in sys.modules if name.split(".")[0] in ("ours", "theirs")]:
        del sys.modules[name]


@pytest.fixture
def copies(vendored):
    """``rms_silu`` of the packages ``ours`` and ``theirs``."""
    return [vendored("ours"), vendored("theirs")]


def served(copy):
    """The copy whose code a compiled call of ``copy`` runs."""
    return copy._op.calls.__globals__["__name__"].partition(".")[0]


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


def replaced(name, old, new):
    def edit(folder):
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return edit


def with_libraries(folder):
    (folder / "aot").mkdir()
    (folder / "aot" / "manifest.json").write_text("{}")


@pytest.mark.parametrize(
    "edit",
    [
        replaced("kernel.py", "1e-05", "2e-05"),
        replaced("dispatch.py", "rstd", "scale"),
        replaced("_runtime.py", "tensor.is_contiguous()", "True"),
        with_libraries,
    ],
    ids=["kernel", "gradient", "checks", "libraries"],
)
def test_a_copy_that_computes_in_another_way_has_an_op_of_its_own(vendored, edit):
    """Its compiled calls would end in the first one's code, while its eager calls take its own."""
    first, edited = vendored("ours"), vendored("theirs", edit)
    assert (served(first), served(edited)) == ("ours", "theirs")
    assert edited._op._qualname.startswith(first._op._qualname + "_")
    op = edited._op
    assert importlib.reload(edited)._op is op


def test_a_copy_that_is_edited_and_imported_again_runs_what_it_says_now(vendored, tmp_path):
    before = vendored("ours")
    replaced("kernel.py", "1e-05", "2e-05")(tmp_path / "ours" / "rms_silu")
    for name in [name for name in sys.modules if name.split(".")[0] == "ours"]:
        del sys.modules[name]
    importlib.invalidate_caches()
    after = importlib.import_module("ours.rms_silu.api")
    assert after._op.calls.__globals__ is vars(after)
    assert before._op.calls.__globals__ is vars(before)


def test_the_gradient_of_the_second_copy_is_registered_once_and_right(copies, monkeypatch):
    first = copies[0]
    eager = importlib.import_module("ours.rms_silu.dispatch").rms_silu_eager
    monkeypatch.setattr(first._launch, "direct", lambda x, gamma, out: eager(x, gamma))
    x, gamma = torch.randn(3, 160, requires_grad=True), torch.randn(160, requires_grad=True)
    for copy in copies:
        found = torch.autograd.grad(copy._op(x, gamma).sum(), (x, gamma))
        expected = torch.autograd.grad(eager(x, gamma).sum(), (x, gamma))
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_an_op_of_an_older_copy_is_left_to_it(vendored, monkeypatch):
    """Copies made before ops knew their content registered them under the same names."""
    name = vendored("ours")._op._qualname
    monkeypatch.setitem(sys.modules["_tilegen_ops"].__dict__, name, object())
    newer = vendored("theirs")
    assert newer._op._qualname.startswith(f"{name}_")


def test_files_that_cannot_be_read_are_a_content_of_their_own(vendored, monkeypatch):
    copy = vendored("ours")
    launching = importlib.import_module("ours.rms_silu._launching")
    contents = set()
    for place in ("a.zip", "b.zip"):
        monkeypatch.setattr(launching, "__file__", f"/nowhere/{place}/rms_silu/_launching.py")
        contents.add(launching._content())
    assert len(contents | {copy._op.content}) == 3
