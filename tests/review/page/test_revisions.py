"""``tilegen diff --html``: a page of two states for each kernel whose spec changed."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from click.testing import CliRunner

from tests.review import history
from tests.review.page.test_page import Outline
from tilegen.cli import main


def pages(name: str, folder: Path) -> dict[str, str]:
    result = CliRunner().invoke(main, ["diff", f"{name}~1", name, "--html", str(folder)], catch_exceptions=False)
    assert result.exit_code in (0, 1)
    found = {path.name: path.read_text() for path in folder.iterdir()}
    for text in found.values():
        assert all(after <= before + 1 for before, after in itertools.pairwise(Outline(text).headings))
    assert len(result.stderr.splitlines()) == len(found)
    return found


def test_a_changed_tile_stands_beside_what_it_was(repository: Path, tmp_path: Path) -> None:
    (text,) = pages("tile_that_halves_occupancy", tmp_path / "out").values()
    assert "<mark>BLOCK_K 64</mark>" in text
    assert "<mark>BLOCK_K 128</mark>" in text
    # 64 x 64 + 64 x 128 halves in 3 stages, and with 128 twice that; 1,024 more for the barriers.
    assert "<mark>74,752</mark>" in text
    assert "<mark>148,480</mark>" in text


def test_what_is_said_of_the_change_stands_first_and_agrees_with_the_numbers(repository: Path, tmp_path: Path) -> None:
    (text,) = pages("tile_that_halves_occupancy", tmp_path / "out").values()
    said = text.index("blocks an SM: 2 → 1 (halved), limited by shared memory")
    assert said < text.index('<section id="spec"')
    blocks = re.findall(r"<dt>Blocks an SM</dt>.*?<mark>(\d+)</mark>", text, re.DOTALL)
    assert blocks == ["2", "1"]


def test_a_refuted_rule_stands_with_its_arithmetic(repository: Path, tmp_path: Path) -> None:
    (text,) = pages("domain_widened_past_a_proof", tmp_path / "out").values()
    assert "grid.y = ceildiv(M, 64) = 65536, allowed are 1 to 65535" in text
    assert ">refuted</span>" in text
    assert "There is no source to compare: after, the spec fails its checks." in text


def test_a_spec_that_cannot_be_read_shows_why_and_a_deleted_one_is_gone(repository: Path, tmp_path: Path) -> None:
    (text,) = pages("illegal_policy", tmp_path / "a").values()
    assert "The spec cannot be read." in text
    assert "policy" in text
    (text,) = pages("spec_deleted", tmp_path / "b").values()
    assert "The kernel is not there." in text


def test_a_winner_that_changed_is_drawn_with_the_tiles_of_both(repository: Path, tmp_path: Path) -> None:
    (text,) = pages("tuned_lock_changed", tmp_path / "out").values()
    assert "<mark>BLOCK_C 64</mark>" in text
    assert "<mark>BLOCK_C 128</mark>" in text
    assert 'class="removed"' in text.partition("Winners of tuning")[2].partition("</section>")[0]


def test_a_kernel_whose_spec_is_the_same_has_no_page(repository: Path, tmp_path: Path) -> None:
    generated = repository / "generated" / "linear_relu"
    generated.mkdir(parents=True)
    (generated / "kernel.py").write_text("x = 1\n")
    result = CliRunner().invoke(main, ["diff", "--html", str(tmp_path / "out")], catch_exceptions=False)
    assert "1 kernel changed" in result.stdout
    assert list((tmp_path / "out").iterdir()) == []


def test_two_specs_of_one_kernel_have_a_page_each(repository: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (repository / f"specs/{name}.toml").write_text(history.NORM)
    CliRunner().invoke(main, ["diff", "--html", str(tmp_path / "out")], catch_exceptions=False)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["norm_silu-2.html", "norm_silu.html"]


def test_a_folder_that_cannot_be_made_is_told(repository: Path) -> None:
    result = CliRunner().invoke(main, ["diff", "comment_only~1", "comment_only", "--html", "specs/linear.toml/x"])
    assert result.exit_code == 2
    assert "cannot write into" in result.output
