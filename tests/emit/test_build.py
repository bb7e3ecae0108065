"""`tilegen build` from end to end on a small spec: what it writes, when it writes nothing, and what it says."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilegen.cli import main
from tilegen.emit import artefacts
from tilegen.emit.tree import read_tree

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
eps = 1e-5
y = "x * rstd"

[tile]
BLOCK_C = 64
BLOCK_M = 16
threads = 128

[target.sm_80]
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with one spec and its generated tree."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "specs").mkdir()
    (folder / "specs" / "row_scale.toml").write_text(SPEC)
    result = tilegen(folder, "build")
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture
def project(built, tmp_path):
    """A copy of the built project that a test may change."""
    shutil.copytree(built, tmp_path / "project")
    return tmp_path / "project"


def tilegen(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tilegen", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def test_the_tree_holds_the_kernel_its_wrapper_tests_goldens_and_a_manifest(built):
    files = read_tree(built / "generated")
    assert sorted(files) == [
        "manifest.json",
        "row_scale/__init__.py",
        "row_scale/_compiled.py",
        "row_scale/_golden.py",
        "row_scale/_launching.py",
        "row_scale/_runtime.py",
        "row_scale/api.py",
        "row_scale/dispatch.py",
        "row_scale/golden/facts.json",
        "row_scale/golden/float16-M5-C64.npy",
        "row_scale/kernel.py",
        "row_scale/module.py",
        "row_scale/reference.py",
        "row_scale/test_row_scale.py",
        "row_scale/test_row_scale_in_torch.py",
    ]
    entry = json.loads(files["manifest.json"])["kernels"]["row_scale"]
    assert entry["targets"] == ["sm_80"]
    assert entry["compile_keys"] == [
        {
            "arch": "sm_80",
            "dtype": "float16",
            "C": 64,
            "BLOCK_C": 64,
            "BLOCK_M": 16,
            "threads": 128,
            "preload": True,
            "blocks_per_sm": 1,
            "schedule": "one_pass",
        }
    ]
    assert entry["files"].keys() == {name.removeprefix("row_scale/") for name in files if "/" in name}


def test_a_second_build_changes_no_byte_and_says_so(project):
    before = {path: path.stat().st_mtime_ns for path in (project / "generated").rglob("*")}
    result = tilegen(project, "build")
    assert result.returncode == 0
    assert result.stdout == "generated: up to date\n"
    assert {path: path.stat().st_mtime_ns for path in (project / "generated").rglob("*")} == before


def test_check_passes_on_what_the_specs_give_and_names_what_was_edited(project):
    assert tilegen(project, "build", "--check").returncode == 0
    kernel = project / "generated" / "row_scale" / "kernel.py"
    kernel.write_text(kernel.read_text() + "# edited\n")
    result = tilegen(project, "build", "--check")
    assert result.returncode == 1
    assert "different: generated/row_scale/kernel.py" in result.stdout
    assert kernel.read_text().endswith("# edited\n")


def test_check_names_missing_files_and_files_that_no_spec_gives(project):
    (project / "generated" / "row_scale" / "api.py").unlink()
    (project / "generated" / "stray.py").write_text("")
    result = tilegen(project, "build", "--check")
    assert result.returncode == 1
    assert "missing: generated/row_scale/api.py" in result.stdout
    assert "not from a spec: generated/stray.py" in result.stdout


def test_a_build_that_fails_changes_nothing(project):
    before = read_tree(project / "generated")
    spec = project / "specs" / "row_scale.toml"
    spec.write_text(SPEC.replace("threads = 128", "threads = 100"))
    result = tilegen(project, "build")
    assert result.returncode == 1
    assert "TG-A3" in result.stderr
    assert "Traceback" not in result.stderr
    assert read_tree(project / "generated") == before


def test_a_dry_run_writes_nothing(project):
    kernel = project / "generated" / "row_scale" / "kernel.py"
    kernel.write_text(kernel.read_text() + "# edited\n")
    before = read_tree(project / "generated")
    result = tilegen(project, "build", "--dry-run")
    assert result.returncode == 0
    assert "different: generated/row_scale/kernel.py" in result.stdout
    assert read_tree(project / "generated") == before


@pytest.mark.slow
def test_the_emitted_tests_pass_where_the_folder_lies_without_tilegen(built, tmp_path):
    shutil.copytree(built / "generated", tmp_path / "vendored")
    code = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'tilegen':\n"
        "            raise ImportError('tilegen is not installed here')\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "import pytest\n"
        "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', 'row_scale']))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "vendored", capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "passed" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["build", "no_such_folder"], "no_such_folder does not exist"),
        (["build", "."], "holds no spec"),
        (["build", "specs", "--only", "other"], "no spec declares kernel other; there are row_scale"),
        (["build", "specs", "--target", "sm_90a"], "no spec has [target.sm_90a]; there are sm_80"),
        (["build", "--jobs", "0"], "0 is not in the range"),
    ],
)
def test_misuse_is_one_clear_line_and_exit_code_2(project, monkeypatch, arguments, says):
    monkeypatch.chdir(project)
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert says in result.output


@pytest.mark.parametrize(
    ("out", "says"),
    [
        (".", "specs/row_scale.toml lies in ., and a build removes from there"),
        ("notes", "notes holds files and no manifest.json"),
        ("pipe", "pipe is no folder"),
    ],
)
def test_a_build_goes_nowhere_where_it_would_remove_what_is_not_its_own(project, monkeypatch, out, says):
    (project / "notes").mkdir()
    (project / "notes" / "mine.txt").write_text("mine")
    os.mkfifo(project / "pipe")
    monkeypatch.chdir(project)
    result = CliRunner().invoke(main, ["build", "--out", out])
    assert (result.exit_code, says in result.output) == (2, True), result.output
    assert (project / "notes" / "mine.txt").read_text() == "mine"
    assert (project / "pipe").is_fifo()
    assert (project / "specs" / "row_scale.toml").exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"kernels": []}', '{"kernels": {"row_scale": []}}'])
def test_a_part_is_not_built_into_a_tree_whose_manifest_is_damaged(project, monkeypatch, text):
    """The kernels that it leaves alone would be lost from it."""
    (project / "generated" / "manifest.json").write_text(text)
    before = read_tree(project / "generated")
    monkeypatch.setattr("tilegen.emit.build._verify", lambda specs, *_: ({spec.kernel: [] for spec in specs}, {}))
    monkeypatch.chdir(project)
    result = CliRunner().invoke(main, ["build", "--only", "row_scale"], catch_exceptions=False)
    assert (result.exit_code, "manifest.json is damaged: build all specs" in result.output) == (1, True), result.output
    assert read_tree(project / "generated") == before


@pytest.mark.parametrize("recorded", [b"{", b"[]", b'{"files": []}', b'{"files": {"kernel.py": "K"}, "lowering": [1]}'])
def test_damaged_facts_are_recorded_anew(recorded):
    kernel = "0" * 64
    recorded = recorded.replace(b'"K"', f'"{kernel}", "x": ""'.encode()).replace(
        b'"lowering"', f'"tilelang": "{artefacts.TILELANG_VERSION}", "lowering"'.encode()
    )
    assert artefacts._recorded_lowering(recorded, kernel) == {}


@pytest.mark.slow
def test_every_instance_can_be_lowered_and_the_tree_stays_the_same(project):
    spec = project / "specs" / "row_scale.toml"
    spec.write_text(SPEC.replace("values = [64]", "values = [64, 96]"))
    assert tilegen(project, "build").returncode == 0
    result = tilegen(project, "build", "--check", "--verify", "all")
    assert result.returncode == 0, result.stdout + result.stderr
    facts = json.loads((project / "generated" / "row_scale" / "golden" / "facts.json").read_text())
    assert len(facts["lowering"]) == 1


@pytest.mark.slow
def test_one_target_alone_keeps_the_facts_of_the_others_or_says_why_not(project):
    spec = project / "specs" / "row_scale.toml"
    spec.write_text(SPEC + "[target.sm_86]\n")
    result = tilegen(project, "build", "--target", "sm_86")
    assert result.returncode == 1
    assert "row_scale is new or changed: build it for all of its targets" in result.stderr
    assert tilegen(project, "build").returncode == 0
    whole = read_tree(project / "generated")
    assert tilegen(project, "build", "--check", "--target", "sm_86").returncode == 0
    assert read_tree(project / "generated") == whole
