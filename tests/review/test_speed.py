"""A comparison of thirty specs takes less than two seconds of an idle machine of two cores.

Python calls are counted, for seconds depend on what else the machine does: a million take about 0.4 s of a core. Beside them
stand 0.7 s of imports, and what is compared is shared out over the cores.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.check import thirty as seven_chips
from tests.review import history
from tests.review.test_markdown import thirty
from tilegen.check.report import import_ahead
from tilegen.review.diff import Side, kernel_diff

ROOT = Path(__file__).parents[2]
LINEAR = history.LINEAR.replace("stages = 3", "stages = 4")


def side(path: str, text: str) -> Side:
    return Side(path, Path(path).stem, text.encode(), None, {})


def calls(changed: Iterable[tuple[str, str, str]]) -> int:
    """Python calls that it takes to compare specs, each a path with both texts, with no verdict known."""
    import_ahead()
    kernel_diff(side("warm.toml", history.LINEAR), side("warm.toml", LINEAR), False)  # compiles the templates
    profile = cProfile.Profile()
    profile.enable()
    found = [kernel_diff(side(path, old), side(path, new), False) for path, old, new in changed]
    profile.disable()
    assert all(kernel.changes and kernel.files for kernel in found)
    total: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    return total


def test_one_changed_of_thirty_is_a_matter_of_imports() -> None:
    old = history.LINEAR.replace('"linear"', '"k7"')
    assert calls([("specs/k7.toml", old, old.replace("stages = 3", "stages = 2"))]) < 80_000


def test_thirty_changed_take_so_many_calls() -> None:
    before, everywhere = thirty(history.COMMITS["tile_that_halves_occupancy"])
    after = dict(before)
    everywhere(after)
    assert calls((path, before[path], after[path]) for path in before) < 1_750_000


@pytest.mark.slow
def test_thirty_changed_on_seven_chips_take_so_many_calls(tmp_path: Path) -> None:
    texts = {path.name: path.read_text() for path in seven_chips.write(tmp_path)}
    edits = {
        "gemm": ("stages = 3", "stages = 2"),
        "norm": ("use = 256", "use = 128"),
        "decode": ("BLOCK_N = 32", "BLOCK_N = 64"),
    }
    # The wider ones of decode are over the shared memory of some chips, so that mends are looked for.

    def edited(name: str, text: str) -> str:
        return text.replace(*edits[name.partition("_")[0]])

    assert calls((name, text, edited(name, text)) for name, text in texts.items()) < 12_700_000


def test_a_known_comparison_needs_neither_sympy_nor_the_checker(tmp_path: Path) -> None:
    files, everywhere = thirty(history.COMMITS["tile_that_halves_occupancy"])
    few = {path: files[path] for path in list(files)[:2]}
    repository = tmp_path / "repository"
    repository.mkdir()
    history.build(repository, few, {"all": everywhere})
    code = (
        "import sys; from tilegen.cli import main; main(['diff', 'start', 'all'], standalone_mode=False); "
        "print([m for m in ('sympy', 'z3', 'pydantic', 'jinja2', 'tilegen.check.checker') if m in sys.modules])"
    )
    environment = {**os.environ, "TILEGEN_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    said = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=repository, env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert "sympy" in said[0].splitlines()[-1]
    assert said[1].splitlines()[-1] == "[]"
    assert said[0].splitlines()[:-1] == said[1].splitlines()[:-1]
