"""``tilegen package``: a wheel of generated code alone, installed and imported in a fresh environment."""

from __future__ import annotations

import email
import os
import subprocess
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest


def test_the_wheel_holds_generated_code_and_depends_on_torch_and_tilelang_alone(project):
    project.tilegen("package", "--name", "acme-kernels", "--version", "1.2.0")
    path = project.folder / "dist" / "acme_kernels-1.2.0-py3-none-any.whl"
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        metadata = email.message_from_bytes(archive.read("acme_kernels-1.2.0.dist-info/METADATA"))
        api = archive.read("acme_kernels/row_scale/api.py")
    assert {name.split("/")[0] for name in names} == {"acme_kernels", "acme_kernels-1.2.0.dist-info"}
    assert {"acme_kernels/row_scale/test_row_scale.py", "acme_kernels/small_gemm/golden/facts.json"} <= names
    assert {name.rsplit("/", 1)[1] for name in names if "/licenses/" in name} == {"LICENSE", "NOTICE"}
    assert api == (project.generated / "row_scale" / "api.py").read_bytes()
    needs = [entry for entry in metadata.get_all("Requires-Dist") if "extra ==" not in entry]
    assert sorted(entry.split(">")[0] for entry in needs) == ["tilelang", "torch"]
    assert metadata["License-Expression"] == "Apache-2.0"


def test_the_same_kernels_give_the_same_wheel_and_other_kernels_another_version(project):
    first = project.tilegen("package", "--name", "acme", "row_scale")
    name = first.split(":")[0]
    content = (project.folder / name).read_bytes()
    assert project.tilegen("package", "--name", "acme", "row_scale") == first
    assert (project.folder / name).read_bytes() == content
    project.upgrade("BLOCK_M = 16", "BLOCK_M = 32", lowered=False)
    assert project.tilegen("package", "--name", "acme", "row_scale").split(":")[0] != name


def test_wrong_names_are_refused(project):
    assert "cannot name a distribution" in project.tilegen("package", "--name", "../x", code=1)
    assert "is not a version" in project.tilegen("package", "--name", "x", "--version", "one", code=1)
    assert "holds no kernel nothing" in project.tilegen("package", "nothing", "--name", "x", code=1)
    assert "does not exist" in project.tilegen("package", "--name", "x", "--from", "nowhere", code=2)
    assert not (project.folder / "dist").exists()


@pytest.mark.slow
def test_the_wheel_installs_in_a_fresh_environment_and_its_golden_tests_pass_without_tilegen(project, tmp_path):
    """torch and tilelang come from the environment that runs the tests; tilegen cannot be imported."""
    project.tilegen("package", "--name", "acme-kernels", "--version", "1.0")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    paths = {"base": str(tmp_path / "env"), "platbase": str(tmp_path / "env")}
    site = Path(sysconfig.get_path("purelib", "venv", paths))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    wheel = project.folder / "dist" / "acme_kernels-1.0-py3-none-any.whl"
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(install, cwd=tmp_path, env=environment, check=True, capture_output=True)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (site / "refuse.py").write_text(
        "import sys\n\n\nclass Refuse:\n    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'tilegen':\n            raise ImportError('tilegen is not installed here')\n\n\n"
        "sys.meta_path.insert(0, Refuse())\n"
    )
    code = (
        "import refuse, sys, pytest, acme_kernels\nfrom acme_kernels.row_scale import row_scale_dispatch\n"
        "import torch\nassert row_scale_dispatch(torch.ones(3, 64)).shape == (3, 64)\n"
        "assert acme_kernels.__version__ == '1.0'\n"
        "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '--pyargs', 'acme_kernels']))"
    )
    result = subprocess.run([python, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert " passed" in result.stdout
