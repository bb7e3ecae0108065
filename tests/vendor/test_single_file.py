"""The single-file form: nothing but what is reached, no name lost on the way, and the numbers of the golden tests."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tilegen.vendor.single_file import SECTIONS, single_file

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "generated"
KERNELS = ("gemm_relu", "mla_decode", "rms_silu")
SM_COUNT = 132


@pytest.fixture(scope="session")
def joined(tmp_path_factory):
    """Every kernel of the repository as one file."""
    folder = tmp_path_factory.mktemp("joined")
    for kernel in KERNELS:
        modules = {path.name: path.read_text() for path in (GENERATED / kernel).glob("*.py")}
        (folder / f"{kernel}.py").write_text(single_file(kernel, modules))
    return folder


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_single_file_imports_nothing_beside_it_and_reads_like_the_package(joined, kernel):
    text = (joined / f"{kernel}.py").read_text()
    tree = ast.parse(text)
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, ast.unparse(node)
            imported.add(node.module.split(".")[0])
        elif isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
    assert imported - set(sys.stdlib_module_names) == {"numpy", "tilelang", "torch"}
    package = "".join(path.read_text() for path in (GENERATED / kernel).glob("*.py"))
    comments = {line.strip() for line in text.splitlines() if line.strip().startswith("#")}
    assert sum(comment in package for comment in comments) >= len(comments) - len(SECTIONS), "comments come along"
    assert ast.get_docstring(tree).count("Budget on") == ast.get_docstring(
        ast.parse((GENERATED / kernel / "kernel.py").read_text())
    ).count("Budget on")
    assert "SPDX-License-Identifier" in text


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_single_file_registers_the_ops_of_the_package(joined, kernel):
    text, api = (joined / f"{kernel}.py").read_text(), (GENERATED / kernel / "api.py").read_text()
    names = re.findall(r"@_launching(\.custom_op\(.*\))", api)
    assert len(names) == 2
    assert all(f"@custom_op{name.removeprefix('.custom_op')}" in text for name in names)


def test_what_a_module_registers_comes_along():
    registering = "\n\nTABLE = {}\n\n\n@TABLE.setdefault\ndef _(n):\n    return n\n\n\nTABLE.update(a=1)\n"
    registering += "OTHER = {}\nOTHER.update(b=2)\n"
    used = PACKAGE["api.py"].replace('"""Calls."""', '"""Calls."""\n    assert TABLE') + registering
    text = single_file("k", PACKAGE | {"api.py": used})
    assert "@TABLE.setdefault\ndef _(n):" in text
    assert "TABLE.update(a=1)" in text
    assert "OTHER" not in text


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_single_file_passes_the_linter(joined, kernel):
    ruff = Path(sys.executable).parent / "ruff"
    if not ruff.exists():
        pytest.skip("ruff is not installed beside this Python")
    command = [ruff, "check", "--config", ROOT / "pyproject.toml", "--no-cache", joined / f"{kernel}.py"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_what_the_public_functions_do_not_reach_is_left_out(joined):
    text = (joined / "rms_silu.py").read_text()
    assert "class Workspaces" not in text
    assert "def lowering_facts" not in text
    assert "def reference(" not in text
    assert "class Workspaces" in (joined / "gemm_relu.py").read_text()


CASES = [(kernel, index) for kernel in KERNELS for index in range(2)]


@pytest.mark.parametrize(("kernel", "index"), CASES, ids=[f"{kernel}-{index}" for kernel, index in CASES])
def test_a_single_file_gives_the_golden_numbers(joined, monkeypatch, kernel, index):
    """On the CPU: only the compiled kernel is replaced by the interpreter, and the device answers as an H200."""
    torch = pytest.importorskip("torch")
    from tilegen.interp import InterpretedKernel

    module = loaded(joined / f"{kernel}.py")
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    monkeypatch.setattr(module, "check_tensor", lambda *_arguments, **_options: None)
    monkeypatch.setattr(module, "check_arch", lambda *_arguments: "sm_90a")
    monkeypatch.setattr(module, "sm_count_of", lambda _index: SM_COUNT)
    monkeypatch.setattr(
        module.KernelCache, "get", lambda self, **key: module.Jitted(InterpretedKernel(self.build(**key)))
    )
    monkeypatch.setattr(module.Launcher, "__call__", lambda self, *arguments: self._prepare(*arguments)(*arguments))
    monkeypatch.syspath_prepend(GENERATED)
    reference = importlib.import_module(f"{kernel}.reference")
    golden = importlib.import_module(f"{kernel}._golden")
    case = json.loads((GENERATED / kernel / "golden" / "facts.json").read_text())["outputs"][index]
    dtype = getattr(torch, case["dtype"])
    inputs = reference.random_inputs(**case["dims"], dtype=dtype, seed=case["seed"])
    expected, tolerance = reference.reference(*inputs)[:2]
    if hasattr(reference, "rounded"):
        tolerance = reference.rounded(expected, tolerance, dtype)
    out = getattr(module, kernel)(*inputs)
    expected = torch.from_numpy(golden.load_output(GENERATED / kernel, case["name"]))
    golden.assert_close(out, expected, tolerance, case["name"])


def loaded(path):
    spec = importlib.util.spec_from_file_location(f"joined_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PACKAGE = {
    "__init__.py": "from .api import call, warm_up\n",
    "kernel.py": (
        '"""k: a kernel.\n\nFrom a spec.\n"""\n\nLIMIT = 4\n\n\n'
        "def tiles(n):\n    return n % LIMIT\n\n\ndef unused():\n    return 1\n"
    ),
    "_runtime.py": "import math\nimport os\n\n\ndef warm_up(n):\n    return math.sqrt(n)\n\n\ndef gone():\n    return os.sep\n",
    "api.py": (
        "from . import _runtime, kernel\n\n\ndef call(n):\n"
        '    """Calls."""\n    from ._runtime import warm_up as warmed\n\n    tiles = kernel.tiles(n)\n'
        '    return f"{tiles} of {kernel.LIMIT}", warmed(n), dict(tiles=n, LIMIT=kernel.LIMIT)["tiles"]\n\n\n'
        "def warm_up(kernel=None):\n    return _runtime.warm_up(9), kernel\n"
    ),
}


def test_names_that_clash_or_are_hidden_get_the_name_of_their_module(tmp_path):
    text = single_file("k", PACKAGE)
    path = tmp_path / "k.py"
    path.write_text(text)
    module = loaded(path)
    assert module.call(7) == ("3 of 4", 7**0.5, 7)
    assert module.warm_up() == (3.0, None)
    assert module.__all__ == ["call", "warm_up"]
    assert "def kernel_tiles(n):" in text
    assert "def runtime_warm_up(n):" in text
    assert "unused" not in text
    assert "import os" not in text
    assert '    """Calls."""\n    tiles = kernel_tiles(n)\n' in text
