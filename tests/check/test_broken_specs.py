"""What tilegen says of broken, slow and passing specs, word for word.

Each spec under ``broken``, ``slow`` and ``passing`` has its expected report beside it. The last line of a report,
which counts proofs, is left out. ``TILEGEN_UPDATE_EXPECTED=1`` writes them anew; read the difference then.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tilegen.cli import main

FOLDER = Path(__file__).parent
CODES = {"broken": (1, 1), "slow": (0, 1), "passing": (0, 0)}
"""Exit code of ``tilegen check``, and with ``--strict``."""

SPECS = sorted(path.relative_to(FOLDER) for kind in CODES for path in (FOLDER / kind).glob("*.toml"))


def run(spec: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["check", "--no-cache", str(spec), *options], catch_exceptions=False)


@pytest.fixture(autouse=True)
def _in_this_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_report_on_a_spec_is_the_expected_one(spec: Path) -> None:
    found = run(spec)
    report = found.output.rpartition("\n\n")[0] + "\n" if "\n\n" in found.output else ""
    expected = spec.with_suffix(".txt")
    if os.environ.get("TILEGEN_UPDATE_EXPECTED") and report:
        expected.write_text(report, encoding="utf-8")
    assert report == (expected.read_text(encoding="utf-8") if expected.exists() else "")
    assert found.exit_code == CODES[spec.parts[0]][0]


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.parts[0] != "broken"], ids=str)
def test_strict_refuses_what_is_slow_and_nothing_else(spec: Path) -> None:
    assert run(spec, "--strict").exit_code == CODES[spec.parts[0]][1]


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.parts[0] == "broken"], ids=str)
def test_an_error_names_rule_place_and_mend(spec: Path) -> None:
    lines = run(spec).output.splitlines()
    assert lines[0].startswith("error[")
    assert any(line.strip().startswith(f"--> {spec}:") for line in lines)
    assert any(line.strip().startswith("= help:") for line in lines)
