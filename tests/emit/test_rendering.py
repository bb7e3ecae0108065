"""What is printed: deterministic, formatted, and the same rules as the spec's."""

import ast
import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tilegen.emit.format import call_text, dict_text, domain_entry, tuple_text
from tilegen.emit.rendering import cases_by_arch, render
from tilegen.expr import evaluate
from tilegen.spec import load
from tilegen.spec.find import lock_path, specs_in
from tilegen.targets import target

ROOT = Path(__file__).parent.parent.parent
SPECS = specs_in(ROOT / "specs")
IDS = [path.stem for path in SPECS]


@pytest.fixture(scope="module", params=SPECS, ids=IDS)
def spec(request):
    return load(request.param)


def function(source: str, name: str):
    """One function of a Python source, without running the rest of it."""
    node = next(node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == name)
    scope: dict = {}
    exec(compile(ast.Module([node], []), name, "exec"), scope)
    return scope[name]


def test_the_printed_tile_rules_choose_what_the_cases_of_the_plan_say(spec):
    tiles = function(render(spec).files["kernel.py"], "tiles")
    samples = [sample(dim) for dim in spec.dims]
    for arch, cases in cases_by_arch(spec).items():
        sm_count = target(arch).part.sm_count
        for values in itertools.product(*samples):
            dims = {dim.name: value for dim, value in zip(spec.dims, values, strict=True)}
            env = {**dims, "sm_count": sm_count}
            case = next(case for case in cases if evaluate(case.condition, env))
            for name, value in tiles(arch, *values, sm_count).items():
                wanted = case.tiles[name]
                assert value == (evaluate(wanted, env) if hasattr(wanted, "free_symbols") else wanted)


def sample(dim):
    """Values of a dim on both sides of what tile rules usually ask."""
    candidates = (
        *dim.values,
        1,
        2,
        16,
        17,
        32,
        63,
        64,
        65,
        96,
        128,
        129,
        160,
        255,
        256,
        257,
        1024,
        1056,
        4064,
        4096,
        10_000,
    )
    return sorted({value for value in candidates if dim.contains(value)})


@pytest.mark.slow
def test_rendering_does_not_depend_on_the_order_of_hashes():
    code = (
        "import sys, hashlib\nfrom pathlib import Path\nfrom tilegen.spec import load\n"
        "from tilegen.emit.rendering import render\n"
        "for path in sys.argv[1:]:\n"
        "    files = render(load(Path(path))).files\n"
        "    print(path, hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest())"
    )
    first, second = (
        subprocess.run(
            [sys.executable, "-c", code, *SPECS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for seed in ("1", "4242")
    )
    assert first == second
    assert len(first) == len(SPECS)


def test_the_header_names_the_spec_its_hash_and_the_versions(spec):
    header = ast.get_docstring(ast.parse(render(spec).files["kernel.py"]))
    assert f"{spec.kernel}:" in header
    assert spec.sha256[:16] in header
    assert "tilelang 0.1.15" in header
    assert "SPDX-License-Identifier: Apache-2.0" in header
    for arch in (chip.arch for chip in spec.targets):
        assert f"Budget on {arch}" in header


@pytest.mark.parametrize("depth", ["near", "deep/" * 18])
def test_rendered_code_passes_the_linter_and_the_formatter(spec, tmp_path, depth):
    """From a spec that is named by a short path or a long one."""
    ruff = Path(sys.executable).parent / "ruff"
    if not ruff.exists():
        pytest.skip("ruff is not installed beside this Python")
    folder = tmp_path / spec.kernel
    folder.mkdir()
    specs = tmp_path / depth
    specs.mkdir(parents=True)
    for file in (Path(spec.path), lock_path(Path(spec.path))):
        if file.exists():
            shutil.copy(file, specs)
    for name, text in render(load(specs / Path(spec.path).name)).files.items():
        (folder / name).write_text(text)
    for command in (["check"], ["format", "--check"]):
        result = subprocess.run(
            [ruff, *command, "--config", ROOT / "pyproject.toml", "--no-cache", folder], capture_output=True, text=True
        )
        assert result.returncode == 0, result.stdout + result.stderr


def test_long_calls_and_tables_are_broken_as_the_formatter_would():
    assert tuple_text(["a"]) == '("a",)'
    assert dict_text([("a", "1")], 4) == "dict(a=1)"
    assert dict_text([("a" * 60, "1"), ("b" * 60, "2")], 4).count("\n") == 3
    assert call_text("f", ["a", "b"], "", 0) == "f(a, b)"
    assert call_text("f", ["a" * 70, "b" * 70], "", 0).count("\n") == 3
    assert domain_entry("C", "C in " + "1, " * 50, "words").count("\n") == 3
