"""The rule tests notice nearly every change to a rule, and the page of mutants says how many."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.check.mutation import report

PAGE = Path(__file__).parents[2] / "docs" / "truth" / "mutation.md"


@pytest.mark.slow
def test_nine_of_ten_mutants_are_killed_as_the_page_says() -> None:
    page, share = report()
    assert share >= 0.91
    assert _counts(page) == _counts(PAGE.read_text(encoding="utf-8"))


def _counts(page: str) -> list[str]:
    """What was killed of how many, file by file; the lines of those that live move with every edit."""
    return re.findall(r"^\*\*.*\*\*$|^\| \w+\.py \|.*$", page, re.M)
