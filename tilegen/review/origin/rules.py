"""The rules behind a line: those that speak of what it does, and of the spec lines that decide it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.check.checker import settle
from tilegen.check.findings import located

if TYPE_CHECKING:
    from tilegen.check.result import Result
    from tilegen.check.rule import Rule
    from tilegen.review.origin.lines import Origin
    from tilegen.spec.model import Spec


@dataclass(frozen=True)
class RuleBehind:
    """A rule with how its obligations on these spec lines were settled, and the arithmetic of one of them."""

    rule: Rule
    settled: Counter[str]
    arithmetic: str


def rules_behind(spec: Spec, origin: Origin) -> list[RuleBehind]:
    """The rules over plans that hold the spec lines of an origin. Where the line does something on the chip, only those
    that speak of such a thing; where it is a value of the spec, all.
    """
    paths = {cause.path for cause in origin.causes}
    lists = {path.partition("[")[0] for path in paths}
    subjects = None if origin.construct is None else set(origin.construct.subjects)
    found: dict[str, RuleBehind] = {}
    for plan, results in settle(spec):
        if origin.schedule and plan.schedule != origin.schedule:
            continue
        for result in results:
            if subjects is not None and _subject(result.rule) not in subjects:
                continue
            if _mentions(spec, result, paths, lists):
                entry = found.get(result.rule.code)
                if entry is None:
                    label = (
                        result.obligation.explain(result.outcome.counterexample)
                        if result.outcome.counterexample
                        else ""
                    )
                    entry = found[result.rule.code] = RuleBehind(result.rule, Counter(), label)
                entry.settled[result.outcome.status.value] += 1
    return [found[code] for code in sorted(found)]


def _subject(rule: Rule) -> str:
    return rule.obligations.__module__.rpartition(".")[2]


def _mentions(spec: Spec, result: Result, paths: set[str], lists: set[str]) -> bool:
    """Whether an obligation points at one of the paths, as it is or as the rule of its list that was chosen. One that
    points at a whole list is meant where any of its rules is.
    """
    for path in (result.obligation.at, *result.obligation.related):
        found = located(spec, path, result).removesuffix(".use")
        if found in paths or path in paths or ("[" not in found and found in lists):
            return True
    return False
