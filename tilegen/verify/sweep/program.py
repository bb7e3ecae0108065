"""The program of a sample: of a rendered source, what its ``build`` runs for one key, and a digest of that.

A store of observations is keyed by the digest. So only what the compiler sees may count: no comment, no docstring, no
function of the wrapper, and no branch that the key rules out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilegen import cache
from tilegen.emit.rendering import TILELANG_VERSION


@dataclass(frozen=True)
class Program:
    """A rendered kernel to lower for ``arch``: its :func:`bare` source, and the arguments of its ``build``."""

    arch: str
    source: str
    key: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Of all that decides what the compiler makes of it."""
        return cache.digest("sweep", TILELANG_VERSION, self.arch, self.source, dict(self.key))


def bare(source: str, key: Mapping[str, Any]) -> str:
    """What ``build(**key)`` of a rendered kernel needs, without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    # What is tried, as the import of tilelang is, must work here.
    body = [inner for node in tree.body for inner in (node.body if isinstance(node, ast.Try) else [node])]
    for node in body:
        if isinstance(node, ast.FunctionDef):
            node.body = _used(_live(node.body, _given(node, key)))
    defined = {name: node for node in body for name in _defines(node)}
    needed: set[ast.stmt] = set()
    pending = ["build"]
    while pending:
        found = defined.get(pending.pop())
        if found is not None and found not in needed:
            needed.add(found)
            own = {inner.arg for inner in ast.walk(found) if isinstance(inner, ast.arg)}
            pending += [name for name in _names(found) if name not in own]
    tree.body = [node for node in body if node in needed]
    return ast.unparse(tree) + "\n"


def _given(function: ast.FunctionDef, key: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a factory that ``build`` hands down from its key, by the same name, and that stay as they are."""
    arguments = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
    assigned = {
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return {name: value for name, value in key.items() if name in arguments - assigned}


def _live(body: Sequence[ast.stmt], given: Mapping[str, Any]) -> list[ast.stmt]:
    """The statements that run where parameters have these values; what stands inside another function is left alone."""
    kept: list[ast.stmt] = []
    for node in body:
        taken = _decided(node.test, given) if isinstance(node, ast.If) else None
        if isinstance(node, ast.If) and taken is not None:
            kept += _live(node.body if taken else node.orelse, given)
        else:
            kept.append(node)
        if kept and isinstance(kept[-1], ast.Return):
            break
    return kept or [ast.Pass()]


def _decided(test: ast.expr, given: Mapping[str, Any]) -> bool | None:
    """What a test of one parameter comes to: ``split``, ``not split``, ``split == "even"``; None for any other."""
    match test:
        case ast.Name(id=name) if name in given:
            return bool(given[name])
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            found = _decided(inner, given)
            return None if found is None else not found
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()], comparators=[ast.Constant(value=value)]) if (
            name in given
        ):
            return bool(given[name] == value)
        case ast.Compare(left=ast.Name(id=name), ops=[ast.NotEq()], comparators=[ast.Constant(value=value)]) if (
            name in given
        ):
            return bool(given[name] != value)
    return None


def _used(body: list[ast.stmt]) -> list[ast.stmt]:
    """A body without the functions defined in it that nothing else of it names."""
    while True:
        kept = [
            node
            for node in body
            if not isinstance(node, ast.FunctionDef)
            or any(node.name in _names(other) for other in body if other is not node)
        ]
        if len(kept) == len(body):
            return kept
        body = kept


def _names(node: ast.AST) -> Iterator[str]:
    return (inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))


def _defines(node: ast.stmt) -> list[str]:
    """The names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    if isinstance(node, ast.Assign):
        return [inner.id for target in node.targets for inner in ast.walk(target) if isinstance(inner, ast.Name)]
    return []
