"""Python source line by line: the statement that a line belongs to, and the names that it mentions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Line:
    """One line of a module. ``names`` are mentioned on it, directly or through names that the enclosing functions
    assign from them; ``calls`` are the calls of its statement, ``functions`` those around it, outermost first. ``comment``
    is what stands behind ``#``; ``scope`` are the first and last line of what it, or a docstring, speaks of: the statement
    below, or the function. ``in_docstring``: the line is part of one.
    """

    number: int
    text: str
    names: frozenset[str] = frozenset()
    calls: tuple[ast.Call, ...] = ()
    functions: tuple[str, ...] = ()
    assigned: str = ""
    comment: str = ""
    scope: tuple[int, int] = (0, 0)
    in_docstring: bool = False


def lines_of(text: str) -> list[Line]:
    """Every line of a module. Raises SyntaxError where it is no Python."""
    tree = ast.parse(text)
    scopes = _scopes(tree)
    owners: dict[int, tuple[ast.stmt, tuple[ast.FunctionDef, ...]]] = {}
    for statement, functions in _statements(tree.body, ()):
        for number in range(statement.lineno, _header_end(statement) + 1):
            owners[number] = statement, functions
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        code, _, comment = _split(line)
        owner = owners.get(number)
        if owner is None and not code and comment:
            owner = next((owners[n] for n in range(number + 1, number + 6) if n in owners), None)
        scope = scopes.get(number, (0, 0))
        if comment and not code and owner is not None:
            scope = owner[0].lineno, owner[0].end_lineno or owner[0].lineno
        found.append(replace(_line(number, line, owner, comment, number in scopes), scope=scope))
    return found


def _line(
    number: int,
    text: str,
    owner: tuple[ast.stmt, tuple[ast.FunctionDef, ...]] | None,
    comment: str,
    in_docstring: bool,
) -> Line:
    if owner is None:
        return Line(number, text, comment=comment, in_docstring=in_docstring)
    statement, functions = owner
    parts = list(_header(statement))
    if _is_listing(statement):
        parts = [entry for entry in _entries(statement) if entry.lineno <= number <= (entry.end_lineno or number)]
    names = {name for part in parts for name in _names(part)}
    return Line(
        number,
        text,
        frozenset(_followed(names, functions)),
        tuple(node for part in parts for node in ast.walk(part) if isinstance(node, ast.Call)),
        tuple(function.name for function in functions),
        _assigned(statement),
        comment,
        in_docstring=in_docstring,
    )


def _statements(
    body: list[ast.stmt], functions: tuple[ast.FunctionDef, ...]
) -> Iterator[tuple[ast.stmt, tuple[ast.FunctionDef, ...]]]:
    """Every statement, each after those that it stands in, with the functions around it."""
    for statement in body:
        inside = (*functions, statement) if isinstance(statement, ast.FunctionDef) else functions
        yield statement, inside
        for block in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, block, []), inside)


def _header_end(statement: ast.stmt) -> int:
    """The last line of a statement without its blocks."""
    body = getattr(statement, "body", None)
    return body[0].lineno - 1 if body else statement.end_lineno or statement.lineno


def _header(statement: ast.stmt) -> Iterator[ast.AST]:
    """The parts of a statement that stand before its blocks."""
    if isinstance(statement, ast.FunctionDef):
        yield statement.args
        yield from statement.decorator_list
        return
    blocks = {"body", "orelse", "finalbody", "handlers"}
    for name, value in ast.iter_fields(statement):
        if name not in blocks:
            yield from (
                entry for entry in (value if isinstance(value, list) else [value]) if isinstance(entry, ast.AST)
            )


def _is_listing(statement: ast.stmt) -> bool:
    """Whether each line of a statement is an entry of its own: parameters, a literal, or a call of ``dict``."""
    if isinstance(statement, ast.FunctionDef):
        return True
    value = getattr(statement, "value", None)
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "dict"
    return isinstance(value, (ast.Dict, ast.Tuple, ast.List))


def _entries(statement: ast.stmt) -> Iterator[ast.expr | ast.arg]:
    """The entries of a listing; the key of a dict stands for its value too."""
    if isinstance(statement, ast.FunctionDef):
        yield from (*statement.args.args, *statement.args.kwonlyargs)
        yield from statement.decorator_list
        return
    value = getattr(statement, "value", None)
    if isinstance(value, ast.Call):
        yield from (ast.copy_location(ast.Call(value.func, [], [entry]), entry.value) for entry in value.keywords)
    elif isinstance(value, ast.Dict):
        for key, entry in zip(value.keys, value.values, strict=True):
            pair = ast.Tuple([part for part in (key, entry) if part is not None], ast.Load())
            yield ast.copy_location(pair, entry)
    elif isinstance(value, (ast.Tuple, ast.List)):
        yield from value.elts


def _names(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, (ast.arg, ast.keyword)):
            yield str(inner.arg)
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str) and inner.value.isidentifier():
            yield str(inner.value)


def _followed(names: set[str], functions: tuple[ast.FunctionDef, ...]) -> set[str]:
    """The names, and those that the enclosing functions' own assignments make them of."""
    sources: dict[str, set[str]] = {}
    for function in functions:
        for statement in function.body:
            if isinstance(statement, ast.Assign):
                made_of = set(_names(statement.value))
                for target in statement.targets:
                    for name in _names(target):
                        sources[name] = made_of
    found, pending = set(names), list(names)
    while pending:
        fresh = sources.get(pending.pop(), set()) - found
        found |= fresh
        pending += fresh
    return found


def _assigned(statement: ast.stmt) -> str:
    """The name that a statement assigns to; empty for one that assigns to none, or to several."""
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return ""


def _scopes(tree: ast.Module) -> dict[int, tuple[int, int]]:
    """For each line of a docstring the first and last line of what it describes."""
    found: dict[int, tuple[int, int]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node, clean=False):
            first = node.body[0]
            scope = (0, 0) if isinstance(node, ast.Module) else (node.lineno, node.end_lineno or node.lineno)
            found |= dict.fromkeys(range(first.lineno, (first.end_lineno or first.lineno) + 1), scope)
    return found


def _split(line: str) -> tuple[str, str, str]:
    """Code and comment of a line; a ``#`` within a string of generated code does not occur."""
    code, mark, comment = line.partition("#")
    return code.strip(), mark, comment.strip()
