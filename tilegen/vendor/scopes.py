"""A module of a generated package, seen through its scopes: what it defines, and what each name in it refers to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import libcst as cst
from libcst import matchers
from libcst.metadata import Assignment, GlobalScope, ImportAssignment, MetadataWrapper, Scope, ScopeProvider

Name = tuple[str, str]
"""A module of the package, and a name in it."""


@dataclass
class Module:
    """A module, its scopes, and its statements with the names that each defines."""

    name: str
    text: str
    statements: list[tuple[cst.BaseStatement, frozenset[str]]] = field(init=False)
    mentions: dict[cst.CSTNode, list[tuple[cst.CSTNode, Name]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wrapper = MetadataWrapper(cst.parse_module(self.text))
        self.tree = wrapper.module
        self.scopes: Mapping[cst.CSTNode, Scope | None] = wrapper.resolve(ScopeProvider)
        body = [entry for entry in self.tree.body if not is_docstring(entry) and import_of(entry) is None]
        self.statements = [(entry, frozenset(defined(entry))) for entry in body]
        self.own = frozenset().union(*(names for _, names in self.statements))

    @cached_property
    def imported(self) -> dict[str, Name]:
        """The names that the module imports from its siblings."""
        found = {}
        for entry in self.tree.body:
            node = import_of(entry)
            if isinstance(node, cst.ImportFrom) and node.relative and not isinstance(node.names, cst.ImportStar):
                for alias in node.names:
                    found[bound(alias)] = _sibling(node, alias)
        return found

    def target(self, node: cst.BaseExpression) -> Name | None:
        """What a name or ``module.name`` refers to in the package; None for anything else."""
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name):
            module = self._sibling_of(node.value)
            return (module[0], node.attr.value) if module is not None and not module[1] else None
        if isinstance(node, cst.Name):
            sibling = self._sibling_of(node)
            if sibling is not None:
                return sibling if sibling[1] else None
            found = [a for a in self._assignments(node) if isinstance(a, Assignment)]
            is_global = found and all(isinstance(assignment.scope, GlobalScope) for assignment in found)
            return (self.name, node.value) if is_global and node.value in self.own else None
        return None

    def _sibling_of(self, node: cst.Name) -> Name | None:
        for assignment in self._assignments(node):
            if isinstance(assignment, ImportAssignment) and isinstance(assignment.node, cst.ImportFrom):
                names = assignment.node.names
                if assignment.node.relative and not isinstance(names, cst.ImportStar):
                    alias = next(alias for alias in names if bound(alias) == node.value)
                    return _sibling(assignment.node, alias)
        return None

    def _assignments(self, node: cst.Name) -> list[object]:
        scope = self.scopes.get(node)
        return [] if scope is None else list(scope[node.value])

    def hidden(self, node: cst.CSTNode, name: str) -> bool:
        """Whether a function around ``node`` has a local of that name."""
        scope = self.scopes.get(node)
        while scope is not None and not isinstance(scope, GlobalScope):
            if any(a.name == name and not isinstance(a, ImportAssignment) for a in scope.assignments):
                return True
            scope = scope.parent if scope.parent is not scope else None
        return False


def references(module: Module, statement: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, Name]]:
    """Every mention of a name of the package in a statement."""
    if statement not in module.mentions:
        finder = _Finder(module)
        statement.visit(finder)
        module.mentions[statement] = finder.found
    yield from module.mentions[statement]


class _Finder(cst.CSTVisitor):
    """Finds what refers to the package. Names of attributes, keywords and parameters refer to nothing."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.found: list[tuple[cst.CSTNode, Name]] = []

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        target = self.module.target(node)
        if target is None:
            node.value.visit(self)
        else:
            self.found.append((node, target))
        return False

    def visit_Name(self, node: cst.Name) -> None:
        target = self.module.target(node)
        if target is not None:
            self.found.append((node, target))

    def visit_Arg_keyword(self, node: cst.Arg) -> None:
        self._saved = self.found
        self.found = []

    def leave_Arg_keyword(self, node: cst.Arg) -> None:
        self.found = self._saved

    def visit_Param_name(self, node: cst.Param) -> None:
        self._before = self.found
        self.found = []

    def leave_Param_name(self, node: cst.Param) -> None:
        self.found = self._before

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_Import(self, node: cst.Import) -> bool:
        return False


class Renamer(cst.CSTTransformer):
    """Writes each mention of the package under its final name, and drops imports of siblings."""

    def __init__(self, module: Module, names: Mapping[Name, str]) -> None:
        self.module = module
        self.names = names
        self.untouched: set[cst.CSTNode] = set()

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self.untouched.add(node.attr)

    def visit_Arg(self, node: cst.Arg) -> None:
        if node.keyword is not None:
            self.untouched.add(node.keyword)

    def visit_Param(self, node: cst.Param) -> None:
        self.untouched.add(node.name)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        target = self.module.target(original_node)
        return updated_node if target is None else cst.Name(self.names[target])

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        if original_node in self.untouched:
            return updated_node
        target = self.module.target(original_node)
        return updated_node if target is None else updated_node.with_changes(value=self.names[target])

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        return cst.RemoveFromParent() if _is_of_package(original_node) else updated_node

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        """Where a dropped import stood right below a docstring, what follows it stands there without a gap."""
        body = original_node.body
        if len(body) < 2 or not (is_docstring(body[0]) and _is_of_package(body[1])):
            return updated_node
        kept = [*updated_node.body]
        kept[1] = kept[1].with_changes(leading_lines=())
        return updated_node.with_changes(body=kept)


def names_in(statement: cst.CSTNode) -> Iterator[cst.Name]:
    for node in matchers.findall(statement, matchers.Name()):
        assert isinstance(node, cst.Name)
        yield node


def import_of(entry: cst.CSTNode) -> cst.Import | cst.ImportFrom | None:
    if isinstance(entry, cst.SimpleStatementLine) and isinstance(entry.body[0], (cst.Import, cst.ImportFrom)):
        return entry.body[0]
    return None


def _is_of_package(entry: cst.CSTNode) -> bool:
    node = import_of(entry)
    return isinstance(node, cst.ImportFrom) and bool(node.relative)


def is_docstring(entry: cst.CSTNode) -> bool:
    return (
        isinstance(entry, cst.SimpleStatementLine)
        and isinstance(entry.body[0], cst.Expr)
        and isinstance(entry.body[0].value, (cst.SimpleString, cst.ConcatenatedString))
    )


def defined(entry: cst.CSTNode) -> Iterator[str]:
    """The names that a statement of a module defines; of an import, only where it is tried or conditional."""
    if isinstance(entry, (cst.FunctionDef, cst.ClassDef)):
        yield entry.name.value
    elif isinstance(entry, (cst.Try, cst.If)):
        for line in matchers.findall(entry, matchers.SimpleStatementLine()):
            yield from defined(line)
            imported = import_of(line)
            if imported is not None and not isinstance(imported.names, cst.ImportStar):
                yield from (bound(alias) for alias in imported.names)
    elif isinstance(entry, cst.SimpleStatementLine):
        for small in entry.body:
            targets = [t.target for t in small.targets] if isinstance(small, cst.Assign) else []
            targets += [small.target] if isinstance(small, cst.AnnAssign) else []
            for target in targets:
                yield from (node.value for node in names_in(target))


def bound(alias: cst.ImportAlias) -> str:
    if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
        return alias.asname.name.value
    name = alias.name
    while isinstance(name, cst.Attribute):
        name = name.value  # type: ignore[assignment]
    assert isinstance(name, cst.Name)
    return name.value


def _sibling(node: cst.ImportFrom, alias: cst.ImportAlias) -> Name:
    """(module, name) of what ``from .module import name`` gives; the name is empty for ``from . import module``."""
    name = alias.evaluated_name
    if node.module is None:
        return name, ""
    assert isinstance(node.module, cst.Name)
    return node.module.value, name
