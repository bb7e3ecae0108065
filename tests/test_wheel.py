"""The wheel holds all that tilegen needs, and works where the source tree is not."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.mark.slow
def test_the_wheel_holds_templates_chips_and_the_licence(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in ("gemm/kernel.py.jinja", "row_norm/one_pass.jinja", "attention/kernel.py.jinja"):
        assert f"tilegen/families/{name}" in names
    assert {"tilegen/targets/sm_90a.toml", "tilegen/emit/templates/header.jinja", "tilegen/py.typed"} <= names
    assert {"tilegen/emit/support/runtime.py", "tilegen/emit/support/golden.py"} <= names
    pages = {f"tilegen/review/page/templates/{name}" for name in ("page.html.jinja", "page.css", "page.js")}
    assert pages <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("tests/", "generated/")) for name in names)


@pytest.mark.slow
def test_the_wheel_installs_in_a_fresh_environment_and_builds_a_spec(wheel, tmp_path):
    """The dependencies come from the environment that runs the tests: only tilegen itself is installed."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    paths = {"base": str(tmp_path / "env"), "platbase": str(tmp_path / "env")}
    site = Path(sysconfig.get_path("purelib", "venv", paths))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["TILEGEN_CACHE_DIR"] = str(tmp_path / "cache")
    # --ignore-installed: an editable tilegen among the dependencies is neither used nor touched.
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--ignore-installed", wheel]
    subprocess.run(install, cwd=tmp_path, env=environment, check=True, capture_output=True)
    where = subprocess.run(
        [python, "-c", "import tilegen; print(tilegen.__file__)"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert where.stdout.startswith(str(tmp_path))
    tilegen = tmp_path / "env" / "bin" / "tilegen"
    subprocess.run([tilegen, "new", "row_norm", "scale", "-o", "scale.toml"], cwd=tmp_path, env=environment, check=True)
    built = subprocess.run(
        [tilegen, "build", "scale.toml"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "generated" / "scale" / "kernel.py").exists()
