"""The tolerance that a spec gives is the one that its golden tests hold the kernel to."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import pytest
import torch

from tests.review.history import LINEAR, NORM
from tilegen.emit.rendering import render
from tilegen.spec.loading import load_bytes

ROOT = Path(__file__).parents[2]
GIVEN = '\n[tolerance]\natol = 1e-3\nrtol = 0.02\nreason = "measured"\n'


def rendered(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    """The ``reference`` module of a spec, imported from a folder of its own, and its text."""
    files = render(load_bytes(text.encode(), "specs/x.toml")).files
    package = folder / "given"
    package.mkdir()
    for name, content in files.items():
        ast.parse(content)
        (package / name).write_text(content)
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(folder))
    for name in [name for name in sys.modules if name == "given" or name.startswith("given.")]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module("given.reference"), files["reference.py"]


def test_gemm_takes_both_parts(tmp_path, monkeypatch):
    module, _ = rendered(LINEAR + GIVEN, tmp_path, monkeypatch)
    c, tolerance = module.reference(torch.randn(4, 8).half(), torch.randn(8, 4).half())
    assert torch.equal(tolerance, 1e-3 + 0.02 * c.abs())
    assert not torch.equal(tolerance, module.derived(torch.randn(4, 8).half(), torch.randn(8, 4).half())[1])


def test_an_absolute_part_alone_is_the_same_everywhere(tmp_path, monkeypatch):
    module, _ = rendered(LINEAR + GIVEN.replace("rtol = 0.02\n", ""), tmp_path, monkeypatch)
    c, tolerance = module.reference(torch.randn(4, 8).half(), torch.randn(8, 4).half())
    assert torch.equal(tolerance, torch.full_like(c, 1e-3))


def test_a_row_norm_adds_no_rounding_to_it(tmp_path, monkeypatch):
    module, _ = rendered(NORM + GIVEN, tmp_path, monkeypatch)
    y, tolerance = module.reference(torch.randn(4, 256).half(), torch.randn(256).half())
    assert torch.equal(module.rounded(y, tolerance, torch.float16), 1e-3 + 0.02 * y.abs())


def test_decode_takes_it_for_both_outputs(tmp_path, monkeypatch):
    text = (ROOT / "specs" / "mla_decode.toml").read_text() + GIVEN
    module, _ = rendered(text, tmp_path, monkeypatch)
    q, pe, kv = torch.randn(1, 16, 512).half(), torch.randn(1, 16, 64).half(), torch.randn(1, 5, 576).half()
    out, tolerance, lse, of_lse = module.reference(q, pe, kv)
    assert torch.equal(tolerance, 1e-3 + 0.02 * out.abs())
    assert torch.equal(of_lse, 1e-3 + 0.02 * lse.abs())


@pytest.mark.parametrize("text", [LINEAR, NORM])
def test_without_one_the_derived_tolerance_stands(text, tmp_path, monkeypatch):
    module, source = rendered(text, tmp_path, monkeypatch)
    assert not hasattr(module, "derived")
    assert "spec gives" not in source
