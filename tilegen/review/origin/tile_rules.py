"""The function ``tiles`` of a generated kernel: which rule of the spec each of its lines is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilegen.emit.rendering import cases_by_arch
from tilegen.expr import free_names, is_symbolic

if TYPE_CHECKING:
    from tilegen.plan.model import Case
    from tilegen.spec.model import Spec, TileRule


def tile_rule_paths(spec: Spec, text: str) -> dict[int, tuple[str, ...]]:
    """Line number to the spec paths of the rules that it spells: one for a line of a chain, one for each parameter where
    a line stands for a case of a table.
    """
    found: dict[int, tuple[str, ...]] = {}
    function = next(
        (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == "tiles"), None
    )
    if function is None:
        return found
    by_arch = cases_by_arch(spec)
    for arch, body in _blocks(function, next(iter(by_arch))):
        cases = by_arch.get(arch, ())
        won = sum(case.winner is not None for case in cases)
        rest = _chain(spec, arch, body[won:]) if _is_chain(body) else _table(spec, arch, body[won:], cases[won:])
        for number, paths in (*_winners(body[:won], cases), *rest):
            found[number] = (*found.get(number, ()), *(path for path in paths if path not in found.get(number, ())))
    return found


def _blocks(function: ast.FunctionDef, only: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    """The rules of each group of targets, by the first target of it."""
    body = [node for node in function.body if not isinstance(node, ast.Expr)]
    groups = [(node, arch) for node in body if isinstance(node, ast.If) and (arch := _arch(node.test))]
    for node, arch in groups:
        yield arch, node.body
    if not groups:
        yield only, body


def _arch(test: ast.expr) -> str:
    """``sm_90a`` of the test ``arch in ("sm_90a", "sm_80")``; empty for any other."""
    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "arch":
        names = [node.value for node in ast.walk(test) if isinstance(node, ast.Constant)]
        return str(names[0]) if names else ""
    return ""


def _is_chain(body: list[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Assign) for statement in body for node in ast.walk(statement))


def _winners(body: list[ast.stmt], cases: tuple[Case, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The branches of the lock's winners, which stand ahead of the rules."""
    for branch, case in zip(body, cases, strict=False):
        winner = f"winner[{case.winner}]"
        first = branch.body[0].lineno if isinstance(branch, ast.If) else branch.lineno
        for number in range(branch.lineno, first):
            yield number, (f"{winner}.when",)
        for number in range(first, (branch.end_lineno or first) + 1):
            yield number, (f"{winner}.tile",)


def _chain(spec: Spec, arch: str, body: list[ast.stmt]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """One ``if ... elif ... else`` for each parameter, in the order of its rules."""
    for statement in body:
        branch: ast.stmt | None = statement
        index = 0
        while branch is not None:
            assignment = branch.body[0] if isinstance(branch, ast.If) else branch
            if isinstance(assignment, ast.Assign) and isinstance(assignment.targets[0], ast.Name):
                path = rule_path(spec, arch, assignment.targets[0].id, index)
                for number in range(branch.lineno, (assignment.end_lineno or assignment.lineno) + 1):
                    yield number, (path,)
            rest = branch.orelse if isinstance(branch, ast.If) else []
            branch, index = rest[0] if rest else None, index + 1


def _table(
    spec: Spec, arch: str, body: list[ast.stmt], cases: tuple[Case, ...]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """One ``return`` for each case, in their order."""
    returns = [(branch, node) for branch in body for node in ast.walk(branch) if isinstance(node, ast.Return)]
    for (branch, node), case in zip(returns, cases, strict=False):
        rules = {name: rule_path(spec, arch, name, index) for name, index in case.chosen.items() if index >= 0}
        rules = {name: path for name, path in rules.items() if path}
        when = [name for name in rules if _rule(spec, arch, name, case).when is not None]
        asked = _with_mentions(spec, arch, case, when, "when")
        for number in range(branch.lineno, node.lineno):
            yield number, tuple(rules[name] for name in asked if name in rules)
        one_line = node.end_lineno == node.lineno
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            named = [
                str(keyword.arg)
                for keyword in getattr(node.value, "keywords", [])
                if one_line or keyword.value.lineno <= number <= (keyword.value.end_lineno or keyword.value.lineno)
            ]
            given = _with_mentions(spec, arch, case, [name for name in named if name in rules], "use")
            yield number, tuple(rules[name] for name in given if name in rules)


def _rule(spec: Spec, arch: str, name: str, case: Case) -> TileRule:
    return spec.tile_for(arch)[name].rules[case.chosen[name]]


def _with_mentions(spec: Spec, arch: str, case: Case, names: list[str], part: str) -> list[str]:
    """The parameters, and those that the chosen rules' conditions or values mention: their values stand there too."""
    found, pending = list(names), list(names)
    while pending:
        name = pending.pop()
        if name not in spec.tile_for(arch) or case.chosen.get(name, -1) < 0:
            continue
        expression = getattr(_rule(spec, arch, name, case), part)
        mentioned = free_names(expression) if is_symbolic(expression) else frozenset()
        fresh = [other for other in sorted(mentioned) if other in spec.tile_for(arch) and other not in found]
        found += fresh
        pending += fresh if part == "use" else []
    return found


def rule_path(spec: Spec, arch: str, name: str, index: int) -> str:
    """The spec path of rule ``index`` of a tile parameter on a target; empty where the spec does not give it."""
    tail = name if name == "schedule" else f"tile.{name}"
    own = f"target.{arch}.{tail}"
    base = own if spec.has(own) else tail
    rule = f"{base}[{max(index, 0)}]"
    return rule if spec.has(rule) else base if spec.has(base) else ""
