"""The comment of a pull request: within the limit, what matters first, and nothing in a spec can steer it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.review import history
from tilegen.cli import main
from tilegen.review.as_markdown import LIMIT, as_markdown
from tilegen.review.as_text import as_text
from tilegen.review.change import Change, FileDiff, KernelDiff, Level, SpecDiff, Status


def thirty(edit: history.Edit) -> tuple[dict[str, str], history.Edit]:
    """Thirty gemms, and an edit of all of them."""
    files = {f"specs/k{i}.toml": history.LINEAR.replace('"linear"', f'"k{i}"') for i in range(30)}

    def everywhere(files: dict[str, str]) -> None:
        for path in list(files):
            one = {history.LINEAR_PATH: files[path]}
            edit(one)
            files[path] = one[history.LINEAR_PATH]

    return files, everywhere


@pytest.fixture
def comment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Thirty kernels whose tile changed, one of which lost its tolerance too."""
    files, edit = thirty(history.COMMITS["tile_that_halves_occupancy"])

    def all_of_it(files: dict[str, str]) -> None:
        edit(files)
        files["specs/k17.toml"] += '\n[tolerance]\natol = 1.0\nreason = "x"\n'

    history.build(tmp_path, files, {"change": all_of_it})
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["diff", "start", "change", "--format", "md"], catch_exceptions=False)
    assert result.exit_code == 1
    return result.stdout


def test_thirty_kernels_stay_under_the_limit_and_each_is_there(comment: str) -> None:
    assert len(comment) <= LIMIT
    assert all(f"<b>k{i}</b>" in comment for i in range(30))
    assert all(f"\n| k{i} |" in comment for i in range(30))


def test_it_leads_with_what_matters(comment: str) -> None:
    lines = comment.splitlines()
    assert lines[1] == "### Kernels: start → change: 30 kernels changed, 0 unchanged; 1 error and 30 warnings"
    assert lines[3:5] == ["> [!CAUTION]", lines[4]]
    assert lines[4].startswith("> - **k17**: tolerance no longer derived")
    warnings = comment.index("> [!WARNING]")
    table = comment.index("| kernel | target |")
    assert lines.index("> [!CAUTION]") < warnings < table < comment.index("<details>")
    assert comment.index("<b>k17</b>") < comment.index("<b>k0</b>")


def test_folds_are_closed_and_fences_are_paired(comment: str) -> None:
    assert comment.count("<details>") == comment.count("</details>")
    assert len(re.findall(r"^```", comment, re.MULTILINE)) % 2 == 0


def kernel(text: str, level: Level = Level.NOTE, details: tuple[str, ...] = ()) -> KernelDiff:
    return KernelDiff("k", "specs/k.toml", Status.CHANGED, changes=(Change(level, "tile", text, details=details),))


@pytest.mark.parametrize("limit", [800, 5_000, LIMIT])
def test_any_number_of_changes_stays_under_any_limit(limit: int) -> None:
    big = kernel("x" * 200, Level.ERROR, tuple("y" * 400 for _ in range(20)))
    found = SpecDiff("a", "b", tuple(replace(big, kernel=f"k{i}") for i in range(300)))
    text = as_markdown(found, limit=limit)
    assert len(text) <= limit
    assert text.count("<details>") == text.count("</details>")
    assert text.startswith("<!-- tilegen diff -->")
    assert "tilegen diff" in text.splitlines()[-1]


@pytest.mark.parametrize("text", ["@someone", "<img src=x>", "[a](http://b)", "**bold**", "a | b", "`", "# head"])
def test_text_of_a_spec_stays_text(text: str) -> None:
    shown = as_markdown(SpecDiff("a", "b", (kernel(f"doc: {text}"),)))
    body = shown.split("**tile**: ", 1)[1].splitlines()[0]
    bare = re.sub(r"\\.", "", body)
    assert not set(bare) & set("<>[]*|`#")
    assert "@s" not in bare


def test_an_error_leads_with_its_place_and_its_arithmetic() -> None:
    change = Change(
        Level.ERROR, "rule", "TG-B1 refuted", details=("64 x 3 = 192\ntogether 192 B, 9 over", "m"), line=26
    )
    shown = as_markdown(SpecDiff("a", "b", (KernelDiff("k", "specs/k.toml", Status.CHANGED, changes=(change,)),)))
    assert "> - **k**: TG-B1 refuted (specs/k.toml:26): 64 x 3 = 192; together 192 B, 9 over\n" in shown


def test_nothing_lost_is_said() -> None:
    assert "Nothing was lost" in as_markdown(SpecDiff("a", "b", (kernel("x"),)))


STEERING = "\x1b[2J\x9b\u202e\u2066\r"


@pytest.mark.parametrize("form", [as_markdown, as_text])
def test_nothing_that_steers_a_terminal_or_turns_letters_is_printed(form: Callable[[SpecDiff], str]) -> None:
    """A branch may come from a stranger, and a spec that cannot be read is shown line by line."""
    file = FileDiff("kernel.py", "code", 1, 0, (f"@@ -1 +1 @@\n+{STEERING}",))
    change = Change(Level.ERROR, "spec", STEERING, STEERING, details=(STEERING,), line=1, file=STEERING)
    found = KernelDiff(STEERING, STEERING, Status.RENAMED, STEERING, STEERING, (change,), (), (file,))
    shown = form(SpecDiff("a", "b", (found,)))
    assert not {c for c in STEERING if not c.isprintable()} & set(shown)
    assert "\N{REPLACEMENT CHARACTER}" in shown
