"""A comparison of thirty specs takes less than two seconds of an idle machine."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.review import history
from tests.review.test_markdown import thirty

ROOT = Path(__file__).parents[2]
SECONDS = 2.0

IMPORT_SYMPY = 0.45
"""CPU seconds of `import sympy` on an idle machine of the kind that the limit is meant for."""


def cpu(*command: str, cwd: Path, cache: Path) -> float:
    """User and system seconds of a command and its workers: what else the machine does counts little."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TILEGEN_CACHE_DIR": str(cache)}
    result = subprocess.run([sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty gemms; then one changed; then all of them."""
    files, everywhere = thirty(history.COMMITS["tile_that_halves_occupancy"])

    def one(files: dict[str, str]) -> None:
        files["specs/k7.toml"] = files["specs/k7.toml"].replace("stages = 3", "stages = 2")

    return history.build(tmp_path_factory.mktemp("thirty"), files, {"one": one, "all": everywhere})


@pytest.fixture
def slowness(tmp_path: Path) -> float:
    """How many times as slow as an idle machine this one is just now."""
    return max(1.0, cpu("-c", "import sympy", cwd=tmp_path, cache=tmp_path) / IMPORT_SYMPY)


def diff(repository: Path, cache: Path, *revisions: str) -> float:
    return cpu("-m", "tilegen", "diff", *revisions, cwd=repository, cache=cache)


def test_one_changed_of_thirty_with_nothing_known(repository: Path, tmp_path: Path, slowness: float) -> None:
    assert diff(repository, tmp_path, "start", "one") < SECONDS * slowness


def test_all_changed_with_nothing_known_on_two_cores_and_then_again(
    repository: Path, tmp_path: Path, slowness: float
) -> None:
    assert diff(repository, tmp_path, "one", "all") < 2 * SECONDS * slowness
    assert diff(repository, tmp_path, "one", "all") < SECONDS / 4 * slowness
