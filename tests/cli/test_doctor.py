"""`tilegen doctor`: what it finds, and when a build could not work."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tilegen.cli import doctor


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path / "cache"))
    # Importing tilelang takes seconds; what the command does with the answer is tested below.
    monkeypatch.setattr(doctor, "_import", lambda name, needed, mend: doctor.Finding(name, "ok", "works", needed))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(doctor.command, arguments)


def test_a_machine_that_can_build_exits_0_even_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    result = run()
    assert result.exit_code == 0, result.output
    assert "missing nvcc" in result.output
    assert "missing gpu" in result.output
    assert "install the CUDA toolkit" in result.output


def test_a_missing_package_stops_a_build_and_says_how_to_mend_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = metadata.version

    def version(name: str) -> str:
        if name == "tilelang":
            raise metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(metadata, "version", version)
    result = run()
    assert result.exit_code == 1
    assert "missing tilelang" in result.output
    assert "pip install 'tilelang>=0.1.15,<0.2'" in result.output


def test_a_package_outside_the_range_stops_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    found = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0.2.0" if name == "tilelang" else found(name))
    result = run("--format", "json")
    assert result.exit_code == 1
    value = json.loads(result.stdout)
    assert value["build_works"] is False
    (tilelang,) = [entry for entry in value["findings"] if entry["name"] == "tilelang" and entry["state"] == "broken"]
    assert tilelang["detail"] == "0.2.0; tilegen needs >=0.1.15,<0.2"


def test_a_cache_folder_that_cannot_be_written_is_told_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path / "file" / "below"))
    result = run()
    assert result.exit_code == 0
    assert "missing cache" in result.output


@pytest.mark.parametrize(
    ("version", "version_range", "fits"),
    [
        ("0.1.15", ">=0.1.15,<0.2", True),
        ("0.1.14", ">=0.1.15,<0.2", False),
        ("0.2.0", ">=0.1.15,<0.2", False),
        ("0.1.15.post1", ">=0.1.15,<0.2", True),
        ("2.13.0+cpu", ">=2.6", True),
        ("2.5", ">=2.6", False),
        ("10", ">=9.1", True),
        ("3.0", "", True),
    ],
)
def test_a_version_range_is_understood(version: str, version_range: str, fits: bool) -> None:
    assert doctor.fits(version, version_range) is fits


def test_what_tilegen_needs_is_read_from_its_own_declaration() -> None:
    assert doctor.required()["tilelang"].replace(" ", "") in (">=0.1.15,<0.2", "<0.2,>=0.1.15")
    assert "pytest" not in doctor.required()
