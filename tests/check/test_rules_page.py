"""docs/rules.md lists every rule as the code has it, and every constraint has a rule or a reason."""

from __future__ import annotations

import re
from pathlib import Path

from tilegen.check.reference import GROUPS, page_with_tables
from tilegen.check.rule import catalogue

PAGE = (Path(__file__).parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")

# How many constraints of each kind were found in TileLang 0.1.15 and on its chips.
CONSTRAINTS = {"A": 8, "B": 8, "C": 13, "D": 23, "E": 10, "F": 16, "G": 8, "H": 3, "I": 6, "J": 7}


def without_a_rule() -> set[str]:
    table = PAGE.partition("## Constraints without a rule of their own")[2]
    return {id for row in re.findall(r"^\| ([A-J][A-J0-9 ]*) \|", table, re.M) for id in row.split()}


def test_the_page_is_what_the_catalogue_gives() -> None:
    assert page_with_tables(PAGE) == PAGE


def test_every_rule_belongs_to_a_group() -> None:
    assert {rule[0] for rule in catalogue()} == set(GROUPS)


def test_every_constraint_has_a_rule_or_a_reason_and_not_both() -> None:
    known = {f"{letter}{number}" for letter, most in CONSTRAINTS.items() for number in range(1, most + 1)}
    assert known - catalogue().keys() == without_a_rule()


def test_a_reason_names_rules_that_exist() -> None:
    table = PAGE.partition("## Constraints without a rule of their own")[2]
    assert set(re.findall(r"TG-([A-Z]\d+)", table)) <= catalogue().keys()
