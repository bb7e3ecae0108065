"""A project with two small kernels, built once; each test that changes something gets a copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilegen.cli import main
from tilegen.emit.artefacts import kernel_folder, manifest, manifest_entry
from tilegen.emit.rendering import factory_parameters, render
from tilegen.emit.tree import replace_tree
from tilegen.families.family import family_of
from tilegen.spec import load_bytes

ROOT = Path(__file__).parents[2]
ROW = """\
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
[target.sm_86]
"""
GEMM = """\
kernel = "small_gemm"
family = "gemm"

[dims]
M = { dynamic = true, max = 4096 }
N = { values = [128] }
K = { values = [64] }

[tensors]
a = { shape = "M K", dtype = "float16" }
b = { shape = "K N", dtype = "same_as(a)" }
c = { shape = "M N", dtype = "same_as(a)" }

[compute]
accum = "float32"
c = "relu(acc)"

[target.sm_80]
"""


class Project:
    """A folder with specs and what they generate, and the command line run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def generated(self) -> Path:
        return self.folder / "generated"

    def tilegen(self, *arguments: object, code: int = 0, cwd: Path | None = None) -> str:
        """The output of a command, which must exit with ``code``; without a traceback in any case."""
        result = subprocess.run(
            [sys.executable, "-m", "tilegen", *map(str, arguments)],
            cwd=cwd or self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        output = result.stdout + result.stderr
        assert "Traceback" not in output, output
        assert result.returncode == code, output
        return output

    def upgrade(self, old: str, new: str, spec: str = "row_scale", lowered: bool = True) -> None:
        """Changes a spec and builds again; without ``lowered``, only what follows from the spec alone."""
        path = self.folder / "specs" / f"{spec}.toml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        if lowered:
            self.tilegen("build", "--jobs", 1)
        else:
            replace_tree(self.generated, self._printed())

    def _printed(self) -> dict[str, bytes]:
        """The tree with neither lowering facts nor golden numbers, which need TileLang and torch."""
        folders, entries = {}, {}
        for path in sorted((self.folder / "specs").glob("*.toml")):
            spec = load_bytes(path.read_bytes(), f"specs/{path.name}")
            cases = family_of(spec).golden_cases(spec)
            folders[spec.kernel] = kernel_folder(
                spec, render(spec), [], cases, {case["name"]: b"" for case in cases}, None
            )
            parameters = factory_parameters(spec)
            entries[spec.kernel] = manifest_entry(spec, parameters)
        tree = {f"{kernel}/{name}": content for kernel, files in folders.items() for name, content in files.items()}
        return {**tree, "manifest.json": manifest(folders, entries)}


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("vendor") / "project")
    (project.folder / "specs").mkdir(parents=True)
    (project.folder / "NOTICE").write_text("Acme kernels, by the Acme authors\n")
    (project.folder / "specs" / "row_scale.toml").write_text(ROW)
    (project.folder / "specs" / "small_gemm.toml").write_text(GEMM)
    project.tilegen("build", "--jobs", 1)  # one worker: to start takes longer than these few kernels
    return project


@pytest.fixture
def project(built, tmp_path):
    shutil.copytree(built.folder, tmp_path / "project")
    return Project(tmp_path / "project")


class Upstream(Project):
    """A project of printed kernels, without lowering facts or golden numbers; commands run in this process."""

    def __init__(self, folder: Path, **specs: str) -> None:
        super().__init__(folder)
        (folder / "specs").mkdir(parents=True)
        for name, text in specs.items():
            (folder / "specs" / f"{name}.toml").write_text(text)
        self.build()

    def build(self) -> None:
        replace_tree(self.generated, self._printed())

    def vendor(self, *arguments: object, code: int = 0) -> str:
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            result = CliRunner().invoke(main, ["vendor", *map(str, arguments)], catch_exceptions=False)
        finally:
            os.chdir(before)
        assert result.exit_code == code, result.output
        return result.output

    def grown(self) -> None:
        self.upgrade("BLOCK_M = 16", "BLOCK_M = 32", lowered=False)


@pytest.fixture(scope="module")
def _printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Upstream(tmp_path_factory.mktemp("up") / "project", row_scale=ROW, small_gemm=GEMM).folder


@pytest.fixture
def upstream(_printed: Path, tmp_path: Path) -> Upstream:
    shutil.copytree(_printed, tmp_path / "project")
    found = Upstream.__new__(Upstream)
    Project.__init__(found, tmp_path / "project")
    return found


@pytest.fixture
def kernels(upstream: Upstream, tmp_path: Path) -> Path:
    """A folder with `row_scale`."""
    folder = tmp_path / "engine" / "kernels"
    upstream.vendor(folder, "--kernels", "row_scale")
    return folder
