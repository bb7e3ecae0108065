"""Mutants of the rules: each comparison flipped, each constant changed, one at a time; the rule tests must notice.

``python -m tests.check.mutation --write docs/truth/mutation.md`` tries all of them and writes the table. A mutant is
killed by what the tests of its rule assert: that the examples are judged as they say, with the arithmetic and the lines
that they say; that plans which are broken by hand are refuted; and what ``rule_facts`` holds of each rule. Text that a
reader sees, and what stands in a rule's header, is not mutated.
"""

from __future__ import annotations

import argparse
import ast
import copy
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tilegen.check.rule as registry
from tests.check.rule_cases import faults
from tests.check.rule_facts import FACTS
from tests.check.test_family_rules import BROKEN, holds
from tilegen.check.examples import examples
from tilegen.check.rule import Rule, catalogue

FOLDER = Path(registry.__file__).parent / "rules"

FLIPPED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
CALLS = {
    "at_most": ("less", "at_least"),
    "at_least": ("greater", "at_most"),
    "less": ("at_most", "at_least"),
    "any_of": ("all_of",),
    "all_of": ("any_of",),
    "any": ("all",),
    "all": ("any",),
}
"""Comparisons that are written as calls."""


@dataclass(frozen=True)
class Mutant:
    """``path`` leads from the module to the node; ``what`` is the change; ``rules`` are those that it may concern."""

    file: str
    line: int
    what: str
    tree: ast.Module
    rules: frozenset[str]


def mutants(file: Path) -> Iterator[Mutant]:
    """Every mutant of a file of rules."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    by_function = _rules_of_functions(tree)
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            if _is_text(statement):
                continue
            nodes, concerned = _nodes(statement.body), by_function[statement.name]
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            nodes, concerned = _nodes([ast.Expr(statement.value)]), frozenset().union(*by_function.values())
        else:
            continue
        for node in nodes:
            for what, undo in _changes(node):
                yield Mutant(file.name, getattr(node, "lineno", 0), what, copy.deepcopy(tree), concerned)
                undo()


def _rules_of_functions(tree: ast.Module) -> dict[str, frozenset[str]]:
    """Which rules of the file reach each function, by the names that it and its callers mention."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    mentions = {
        name: {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & functions.keys()
        for name, node in functions.items()
    }
    reached: dict[str, set[str]] = {name: set() for name in functions}
    for name, node in functions.items():
        for id in _ids(node):
            seen, pending = set(), [name]
            while pending:
                current = pending.pop()
                if current not in seen:
                    seen.add(current)
                    reached[current].add(id)
                    pending += mentions[current]
    return {name: frozenset(ids) for name, ids in reached.items()}


def _ids(function: ast.FunctionDef) -> Iterator[str]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and decorator.args and isinstance(decorator.args[0], ast.Constant):
            yield str(decorator.args[0].value)


def _nodes(statements: list[Any]) -> Iterator[ast.AST]:
    """What may be mutated: not docstrings, text for the reader, annotations, or the defaults that bind a loop's names."""
    for statement in statements:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        yield from _inside(statement)


def _is_text(function: ast.FunctionDef) -> bool:
    """Whether a function writes text for the reader."""
    return function.name == "label" or function.name.endswith("arithmetic")


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, (ast.JoinedStr, ast.arguments)):
        return
    if isinstance(node, ast.FunctionDef):
        yield from () if _is_text(node) else _nodes(node.body)
        return
    if isinstance(node, ast.keyword) and node.arg in ("label", "help", "today", "statement", "strict"):
        return
    if isinstance(node, ast.AnnAssign):
        yield from _inside(node.value) if node.value is not None else ()
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _inside(child)


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    """Each way to change a node, made in place; with what takes it back."""
    if isinstance(node, ast.Compare):
        for index, op in enumerate(node.ops):
            for other in FLIPPED[type(op)]:
                node.ops[index] = other()
                yield f"{type(op).__name__} to {other.__name__}", lambda i=index, o=op: node.ops.__setitem__(i, o)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
        name = node.func.id
        for other_name in CALLS[name]:
            node.func.id = other_name
            yield f"{name} to {other_name}", lambda: setattr(node.func, "id", name)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        value = node.value
        for changed in _other_values(value):
            node.value = changed
            yield f"{value} to {changed}", lambda: setattr(node, "value", value)


def _other_values(value: bool | int | float) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return (value + 1, value - 1)
    return (value * 2,) if value else (1.0,)


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


def _too_long(*_: object) -> None:
    raise TimeoutError


def _executed(mutant: Mutant) -> dict[str, Rule]:
    """The rules of a mutated file."""
    module = types.ModuleType(f"mutant_{mutant.file.removesuffix('.py')}")
    tree = ast.fix_missing_locations(mutant.tree)
    kept, registry._registry = registry._registry, {}
    import tilegen.expr as expr

    try:
        sys.modules[module.__name__] = module
        module.__dict__.update(
            {name: getattr(expr, name) for group in CALLS.values() for name in group if hasattr(expr, name)}
        )
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


def report(only: str = "*") -> tuple[str, float]:
    """The table of all mutants that live, and the share that was killed."""
    started = time.process_time()
    lines, total, killed = [], 0, 0
    rows = []
    catalogue()
    for file in sorted(FOLDER.glob(f"{only}.py")):
        count, living = 0, []
        for mutant in mutants(file):
            if mutant.rules:
                count += 1
                living += [mutant] if alive(mutant) else []
        if count:
            rows.append(f"| {file.name} | {count} | {count - len(living)} | {len(living)} |")
        lines += [f"| {m.file}:{m.line} | {m.what} | {', '.join(sorted(m.rules)[:4])} |" for m in living]
        total, killed = total + count, killed + count - len(living)
        print(f"{file.name}: {count - len(living)} of {count}", file=sys.stderr, flush=True)
    share = killed / total
    text = [
        "# Mutants of the rules",
        "",
        "Each comparison of `tilegen/check/rules/*.py` flipped and each constant changed, one at a time "
        "(`python -m tests.check.mutation --write docs/truth/mutation.md`). A mutant lives if no test of its rule fails.",
        "",
        f"**{killed} of {total} killed, {100 * share:.1f} %.**",
        "",
        "| file | mutants | killed | alive |",
        "|---|---:|---:|---:|",
        *rows,
        "",
        "Those that live:",
        "",
        "| place | change | rules |",
        "|---|---|---|",
        *lines,
    ]
    print(f"{time.process_time() - started:.0f} s", file=sys.stderr)
    return "\n".join(text) + "\n", share


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--only", default="*", help="files of this name, without .py")
    arguments = parser.parse_args()
    page, killed_share = report(arguments.only)
    if arguments.write:
        arguments.write.parent.mkdir(parents=True, exist_ok=True)
        arguments.write.write_text(page, encoding="utf-8")
    else:
        print(page)
    sys.exit(killed_share < 0.95)
