"""`tilegen build --aot`: what is written beside a kernel, kept by a later build, and refused."""

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilegen.aot import compile
from tilegen.cli import main
from tilegen.emit import build, libraries
from tilegen.emit.libraries import LibrariesError, build_libraries
from tilegen.emit.tree import read_tree, replace_tree

KERNEL = """\
DOMAIN = {"M": None, "N": None}
SM_COUNT = {"sm_80": 108, "sm_90a": 132}
def compile_keys(arch, sm_count, **dims):
    return [dict(arch=arch, dtype="float16", N=n, stages=sm_count % 5) for n in dims.get("N", (64, 128))]
"""


class Inline:
    """A pool that works in this process."""

    def __init__(self, _workers):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def submit(self, function, *arguments):
        from concurrent.futures import Future

        future = Future()
        future.set_result(function(*arguments))
        return future


@pytest.fixture
def generated(tmp_path, monkeypatch):
    """A tree with one kernel, and a compiler that writes down what it is asked for."""
    monkeypatch.setattr("tilegen.verify.pipeline.pool", Inline)
    monkeypatch.setattr(libraries, "compile_library", compiled)
    replace_tree(tmp_path / "generated", {"scale/kernel.py": KERNEL.encode(), "manifest.json": b"{}"})
    return tmp_path / "generated"


def compiled(_source, key, label):
    if key["N"] == 13:
        return {"error": "TileLang cannot lower it: no such width"}
    return {"library": f"library {label}".encode(), "cu": "// cu", "c": "// c", "parameters": [["x", "pointer"]]}


def test_each_key_has_a_library_its_sources_and_an_entry(generated):
    assert build_libraries(["scale"], generated, ["sm_90a", "sm_80"]) == {"scale": 4}
    aot = generated / "scale" / "aot"
    files = {path.relative_to(aot).as_posix() for path in aot.rglob("*") if path.is_file()}
    stems = {f"{arch}/float16-N{n}-{stages}" for arch, stages in (("sm_80", 3), ("sm_90a", 2)) for n in (64, 128)}
    assert files == {"manifest.json"} | {f"{stem}.{end}" for stem in stems for end in ("so", "cu", "c")}
    manifest = json.loads((aot / "manifest.json").read_text())
    assert manifest["kernel_sha256"] == hashlib.sha256(KERNEL.encode()).hexdigest()
    for entry in manifest["libraries"]:
        assert hashlib.sha256((aot / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]
    assert {(entry["key"]["arch"], entry["key"]["N"]) for entry in manifest["libraries"]} == {
        ("sm_90a", 64),
        ("sm_90a", 128),
        ("sm_80", 64),
        ("sm_80", 128),
    }


def test_dims_limit_what_is_compiled_and_a_dim_of_another_kernel_does_not(generated):
    assert build_libraries(["scale"], generated, ["sm_80"], dims={"N": [256], "K": [1]}) == {"scale": 1}
    (entry,) = json.loads((generated / "scale/aot/manifest.json").read_text())["libraries"]
    assert entry["key"]["N"] == 256


def test_a_key_that_fails_leaves_what_was_there(generated):
    build_libraries(["scale"], generated, ["sm_80"])
    before = {path: path.read_bytes() for path in (generated / "scale/aot").rglob("*") if path.is_file()}
    with pytest.raises(LibrariesError, match="scale sm_80/float16-N13-3: TileLang cannot lower it"):
        build_libraries(["scale"], generated, ["sm_80"], dims={"N": [64, 13]})
    assert {path: path.read_bytes() for path in (generated / "scale/aot").rglob("*") if path.is_file()} == before


def test_a_kernel_that_lacks_the_target_is_left_alone(generated):
    build_libraries(["scale"], generated, ["sm_80"])
    before = {path: path.read_bytes() for path in (generated / "scale/aot").rglob("*") if path.is_file()}
    assert build_libraries(["scale"], generated, ["sm_86"]) == {"scale": 0}
    assert {path: path.read_bytes() for path in (generated / "scale/aot").rglob("*") if path.is_file()} == before
    assert build_libraries(["scale"], generated, ["sm_86", "sm_90a"]) == {"scale": 2}


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (PermissionError(13, "Permission denied", "generated"), "error: generated: Permission denied"),
        (BrokenProcessPool(), "error: a worker process was killed; where memory is short, --jobs 1 needs the least"),
    ],
)
@pytest.mark.parametrize("aot", [False, True], ids=["build", "aot"])
def test_what_the_machine_refuses_is_no_traceback(tmp_path, monkeypatch, raised, said, aot):
    def refused(*_arguments, **_options):
        raise raised

    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "row_scale.toml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    if aot:
        monkeypatch.setattr("tilegen.cli._build.run", lambda *_arguments: 0)
        monkeypatch.setattr("tilegen.verify.ptxas.nvcc", lambda: "nvcc")
    monkeypatch.setattr(libraries if aot else build, "build_libraries" if aot else "build", refused)
    result = CliRunner().invoke(main, ["build", *(["--aot", "sm_80"] if aot else [])], catch_exceptions=False)
    assert (result.exit_code, said in result.output) == (1, True), result.output


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (subprocess.TimeoutExpired("nvcc", 900), "nvcc did not finish in 900 seconds"),
        (FileNotFoundError(2, "No such file or directory"), "nvcc cannot be run"),
    ],
)
def test_a_compiler_that_hangs_or_is_gone_is_an_error_of_its_key(tmp_path, monkeypatch, raised, said):
    def refused(*_arguments, **_options):
        raise raised

    monkeypatch.setattr(subprocess, "run", refused)
    with pytest.raises(compile.CompileError, match=said):
        compile._run(["/usr/bin/nvcc", "x.cu"], tmp_path)


def test_a_later_build_carries_the_libraries_of_the_kernels_that_it_keeps(generated):
    build_libraries(["scale"], generated, ["sm_80"])
    assert set(read_tree(generated)) == {"scale/kernel.py", "manifest.json"}
    replace_tree(generated, {"scale/kernel.py": b"changed"})
    assert (generated / "scale/aot/manifest.json").is_file()
    replace_tree(generated, {"other/kernel.py": b""})
    assert not (generated / "scale").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--aot", "sm_90a", "--check"], "does not go with --check"),
        (["--dims", "N=64"], "does nothing without"),
        (["--aot", " , "], "names the targets"),
        (["--aot", "sm_89"], "no spec has [target.sm_89]"),
        (["--aot", "sm_80", "--dims", "N"], "expected a dim and its sizes"),
        (["--aot", "sm_80", "--dims", "Q=1"], "no spec has the dim Q"),
        (["--aot", "sm_80", "--dims", "C=24"], "outside the domain"),
    ],
)
def test_misuse_is_said_before_anything_is_compiled(tmp_path, monkeypatch, arguments, said):
    (tmp_path / "specs").mkdir()
    spec = Path(__file__).parents[2] / "specs" / "rms_silu.toml"
    (tmp_path / "specs" / "rms_silu.toml").write_text(spec.read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tilegen.cli._build.run", lambda *_arguments: 0)
    result = CliRunner().invoke(main, ["build", *arguments])
    assert result.exit_code == 2, result.output
    assert said in result.output


ROOT = Path(__file__).parent.parent.parent
SPEC = """\
kernel = "row_scale"
family = "row_norm"
[dims]
M = { dynamic = true, max = 1_048_576 }
C = { values = [64] }
[tensors]
x = { shape = "M C", dtype = "float16" }
y = { shape = "M C", dtype = "same_as(x)" }
[compute]
norm = "rms"
y = "x * rstd"
[target.sm_80]
"""


@pytest.mark.slow
@pytest.mark.nightly
def test_a_library_is_built_without_a_gpu_and_found_by_a_process_without_tilelang(tmp_path):
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "row_scale.toml").write_text(SPEC)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tilegen", "build", "--aot", "sm_80"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    program = """
import sys, torch
sys.modules["tilelang"] = None
from row_scale import kernel, api, _compiled
keys = kernel.compile_keys("sm_80", 108)
api.use_libraries(missing="error")
print(len(keys), {type(api._kernels.get(**key)).__name__ for key in keys})
"""
    environment["PYTHONPATH"] = str(tmp_path / "generated")
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    count, kinds = done.stdout.split(maxsplit=1)
    assert int(count) >= 1
    assert kinds.strip() == "{'Library'}"
