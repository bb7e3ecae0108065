"""Every rule has examples that obey it and examples that break it, and the checker agrees with all of them."""

from __future__ import annotations

import pytest

from tests.check.rule_cases import faults
from tilegen.check.checker import check
from tilegen.check.examples import Example, all_examples, examples
from tilegen.check.rule import catalogue
from tilegen.spec import Severity, load_bytes


def _id(example: Example) -> str:
    number = examples(example.rule).index(example)
    return f"{example.rule}-{'fail' if example.fails else 'pass'}-{number}"


@pytest.mark.parametrize("example", all_examples(), ids=_id)
def test_the_checker_agrees_with_an_example(example: Example) -> None:
    verdict = check(load_bytes(example.spec(), "example.toml"))
    found = [diagnostic for diagnostic in verdict.diagnostics if diagnostic.code == f"TG-{example.rule}"]
    if example.fails:
        assert found, f"no finding of TG-{example.rule}; found {[d.code for d in verdict.diagnostics]}"
        assert any(example.says in diagnostic.label.replace("\n", " ") for diagnostic in found), found
        assert example.says
    else:
        assert not found
        assert not [d for d in verdict.diagnostics if d.severity is Severity.ERROR]
        assert verdict.rules[f"TG-{example.rule}"]["proved"] > 0, "the rule says nothing of this example"


@pytest.mark.parametrize("example", all_examples(), ids=_id)
def test_a_rule_alone_agrees_with_an_example_and_points_where_it_says(example: Example) -> None:
    assert faults(catalogue()[example.rule], example) == []


@pytest.mark.parametrize("rule", catalogue())
def test_a_rule_has_examples_of_both_kinds(rule: str) -> None:
    # What the plans of the families keep by themselves no spec can break: tests/check/test_family_rules.py breaks them.
    wanted = {False} if catalogue()[rule].of_family else {True, False}
    assert {example.fails for example in examples(rule)} == wanted


def test_every_example_is_of_a_rule() -> None:
    assert {example.rule for example in all_examples()} <= catalogue().keys()
