"""The rule tests notice nearly every change to a rule, and the page of mutants says how many."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.check.mutants import mutants
from tests.check.mutation import ENOUGH, EQUIVALENT, FOLDER, Judgement, excuse, judge, page

PAGE = Path(__file__).parents[2] / "docs" / "truth" / "mutation.md"


@cache
def judged() -> Judgement:
    return judge()


@pytest.mark.slow
def test_nineteen_of_twenty_mutants_are_killed_as_the_page_says() -> None:
    assert judged().share >= ENOUGH >= 0.95
    assert _counts(page(judged())) == _counts(PAGE.read_text(encoding="utf-8"))


def test_the_page_names_as_many_mutants_as_the_rules_have() -> None:
    """An edit of a rule tells in seconds that the page must be written anew; what is killed takes the slow test."""
    named = {
        file: int(count) for file, count in re.findall(r"^\| (\w+\.py) \| (\d+) \|", PAGE.read_text("utf-8"), re.M)
    }
    counted = {file.name: sum(1 for _ in mutants(file)) for file in FOLDER.glob("*.py")}
    assert named == {file: count for file, count in counted.items() if count}


def _counts(text: str) -> list[str]:
    """What was killed of how many, file by file; the lines of those that live move with every edit."""
    return re.findall(r"^\*\*.*\*\*$|^\| \w+\.py \|.*$", text, re.M)


@pytest.mark.slow
def test_every_excuse_is_of_one_mutant_that_lives() -> None:
    assert sorted(filter(None, map(excuse, judged().living))) == sorted(why for _, why in EQUIVALENT.values())


@pytest.mark.slow
def test_every_function_of_the_rules_is_reached_by_a_rule_of_its_own_file() -> None:
    """A mutant is asked of the rules of its own file: one of none would live unseen."""
    unreached = [
        f"{mutant.file}:{mutant.line}" for file in FOLDER.glob("*.py") for mutant in mutants(file) if not mutant.rules
    ]
    assert not unreached
