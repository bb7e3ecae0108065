"""What the rule tests notice of the mutants of the rules: nearly all of them.

``python -m tests.check.mutation --write docs/truth/mutation.md`` tries all of them and writes the table. A mutant is
killed by what the tests of its rule assert: that the examples are judged as they say, with the arithmetic and the lines
that they say; that plans which are broken by hand are refuted; and what ``rule_facts`` holds of each rule.
"""

from __future__ import annotations

import argparse
import ast
import signal
import sys
import types
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tilegen.check.rule as registry
import tilegen.expr as expr
from tests.check.mutants import CALLS, Mutant, mutants, original
from tests.check.rule_cases import faults
from tests.check.rule_facts import FACTS
from tests.check.test_family_rules import BROKEN, holds
from tilegen.check.examples import examples
from tilegen.check.rule import Rule, catalogue

FOLDER = Path(registry.__file__).parent / "rules"
ENOUGH = 0.95

EQUIVALENT = {
    "D24": (
        "LtE to Lt",
        "what a WGMMA needs is even and no multiple of 8; what a launch leaves is one, or 255",
    ),
    "D7": ("64 to 63", "the n of a WGMMA is a multiple of 8"),
    "F1": ("at_most to less", "as many elements as threads are a multiple of them"),
}
"""By rule a change that changes nothing, and why."""


def excuse(mutant: Mutant) -> str:
    """Why a mutant does what the rule does; empty where it does not."""
    excuses = (EQUIVALENT.get(rule, ("", "")) for rule in sorted(mutant.rules))
    return next((why for what, why in excuses if what == mutant.what), "")


def alive(mutant: Mutant) -> bool:
    """Whether no test of the rules that a mutant concerns notices it."""
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    try:
        rules = _executed(mutant)
        return all(_obeys(rules[id]) for id in sorted(mutant.rules))
    except Exception:  # whatever a mutant raises, or a loop that does not end, the tests would see
        return False
    finally:
        signal.alarm(0)


SECONDS = 20
"""Longer than the tests of any rule take."""


NEGATED = ("divides", "equal")


def _negated(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: expr.negate(function(*arguments))


def _too_long(*_: object) -> None:
    raise TimeoutError


def _executed(mutant: Mutant) -> dict[str, Rule]:
    """The rules of a mutated file."""
    module = types.ModuleType(f"mutant_{mutant.file.removesuffix('.py')}")
    tree = ast.fix_missing_locations(mutant.tree)
    kept, registry._registry = registry._registry, {}
    try:
        sys.modules[module.__name__] = module
        module.__dict__.update(
            {name: getattr(expr, name) for group in CALLS.values() for name in group if hasattr(expr, name)}
        )
        module.__dict__.update({f"not_{name}": _negated(getattr(expr, name)) for name in NEGATED})
        exec(compile(tree, mutant.file, "exec"), module.__dict__)  # our own source, changed by one token
        return registry._registry
    finally:
        registry._registry = kept
        del sys.modules[module.__name__]


def _obeys(rule: Rule) -> bool:
    """Whether every test of a rule passes with this one in its place."""
    try:
        return (
            not any(faults(rule, example) for example in examples(rule.id))
            and all(holds(rule, plan) and not holds(rule, broken) for id, _, plan, broken in BROKEN if id == rule.id)
            and all(fact.is_true(rule) for fact in FACTS if fact.rule == rule.id)
        )
    except TimeoutError:
        raise
    except Exception:  # a test that raises fails
        return False


@dataclass(frozen=True)
class Judgement:
    """How many mutants each file has, and those that live."""

    counts: Mapping[str, int]
    living: tuple[Mutant, ...]

    @property
    def killed(self) -> int:
        return self.total - len(self.living)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def share(self) -> float:
        return self.killed / self.total


def judge(only: str = "*") -> Judgement:
    """Tries the mutants of the files of this name, all of them if none is given."""
    catalogue()
    counts, living = {}, []
    for file in sorted(FOLDER.glob(f"{only}.py")):
        assert alive(original(file)), f"the rules of {file.name} as they are fail their tests"
        tried = [(mutant, alive(mutant)) for mutant in mutants(file)]
        if tried:
            counts[file.name] = len(tried)
            living += [mutant for mutant, lives in tried if lives]
            print(f"{file.name}: {len(tried)}", file=sys.stderr, flush=True)
    return Judgement(counts, tuple(living))


def page(judged: Judgement) -> str:
    """The table of all mutants that live."""
    lives = Counter(mutant.file for mutant in judged.living)
    rows = [f"| {file} | {count} | {count - lives[file]} | {lives[file]} |" for file, count in judged.counts.items()]
    lines = [f"| {m.file}:{m.line} | {m.what} | {', '.join(sorted(m.rules))} | {excuse(m)} |" for m in judged.living]
    text = [
        "# Mutants of the rules",
        "",
        "Each comparison of `tilegen/check/rules/*.py` flipped, each `and`, `or` and `not` too, and each constant changed, one "
        "at a time (`python -m tests.check.mutation --write docs/truth/mutation.md`). A mutant lives if no test of its rule "
        "fails.",
        "",
        f"**{judged.killed} of {judged.total} killed, {100 * judged.share:.1f} %.**",
        "",
        "| file | mutants | killed | alive |",
        "|---|---:|---:|---:|",
        *rows,
        "",
        "Those that live:",
        "",
        "| place | change | rules | why no test can tell |",
        "|---|---|---|---|",
        *lines,
    ]
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--only", default="*", help="files of this name, without .py")
    arguments = parser.parse_args()
    judged = judge(arguments.only)
    if arguments.write:
        arguments.write.parent.mkdir(parents=True, exist_ok=True)
        arguments.write.write_text(page(judged), encoding="utf-8")
    else:
        print(page(judged))
    sys.exit(judged.share < ENOUGH)
