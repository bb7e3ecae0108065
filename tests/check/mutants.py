"""Mutants of the rules: each comparison flipped, each `and`, `or` and `not` too, each constant changed, one at a time.

Text that a reader sees, and what stands in a rule's header, is not mutated.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    "divides": ("not_divides",),
    "equal": ("not_equal",),
    "maximum": ("minimum",),
    "minimum": ("maximum",),
}
"""Comparisons, and what else decides, written as calls."""


@dataclass(frozen=True)
class Mutant:
    """``path`` leads from the module to the node; ``what`` is the change; ``rules`` are those that it may concern.

    The tree is the file's own, changed in place: it is this mutant's until the next one is asked for.
    """

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
                yield Mutant(file.name, getattr(node, "lineno", 0), what, tree, concerned)
                undo()


def original(file: Path) -> Mutant:
    """A file of rules as it is, as the mutant that changes nothing."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return Mutant(file.name, 0, "nothing", tree, frozenset().union(*_rules_of_functions(tree).values()))


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
    elif isinstance(node, ast.BoolOp):
        op = node.op
        node.op = ast.Or() if isinstance(op, ast.And) else ast.And()
        yield "and to or" if isinstance(op, ast.And) else "or to and", lambda: setattr(node, "op", op)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        operand = node.operand
        node.operand = ast.UnaryOp(ast.Not(), operand)
        yield "not to nothing", lambda: setattr(node, "operand", operand)
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
