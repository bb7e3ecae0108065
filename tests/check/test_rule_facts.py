"""Each fact of rule_facts.py holds of the rule that it is of."""

from __future__ import annotations

import pytest

from tests.check.rule_facts import FACTS, Fact
from tilegen.check.rule import catalogue


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: f"{fact.rule} {fact.of} {fact.change}"[:120])
def test_a_rule_says_this_at_its_limits(fact: Fact) -> None:
    assert fact.is_true(catalogue()[fact.rule])
