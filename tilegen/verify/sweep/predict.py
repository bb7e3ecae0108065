"""What tilegen says of a sample before any compiler sees it: verdict, facts, and the program to compile."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilegen import cache
from tilegen.emit.artefacts import compile_key
from tilegen.emit.rendering import TILELANG_VERSION, render
from tilegen.plan.instances import instances
from tilegen.verify.expected import expected
from tilegen.verify.sweep.draw import Sample, Verdict, verdict_on

if TYPE_CHECKING:
    from tilegen.plan.instances import Instance


@dataclass(frozen=True)
class Program:
    """A rendered kernel to lower for ``arch``: source without comments, and the arguments of its ``build``."""

    arch: str
    source: str
    key: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Of all that decides what the compiler makes of it."""
        return cache.digest("sweep", TILELANG_VERSION, self.arch, self.source, dict(self.key))


@dataclass(frozen=True)
class Prediction:
    """``kernels``: see :func:`tilegen.verify.expected.expected`; empty where the plan is too broken to say.

    ``program`` is None, and ``trouble`` says why, where nothing could be rendered.
    """

    sample: Sample
    verdict: Verdict
    kernels: tuple[Mapping[str, Any], ...]
    program: Program | None
    trouble: str = ""


def predict(sample: Sample) -> Prediction:
    """Checks, plans and renders a sample; a spec that the checker rejects is rendered all the same."""
    spec = sample.loaded()
    verdict = verdict_on(spec)
    try:
        instance = next(iter(instances(spec, sample.arch)))
        program = _program(sample.arch, instance)
    except Exception as error:
        return Prediction(sample, verdict, (), None, f"not rendered: {type(error).__name__}: {error}")
    try:
        kernels = tuple(expected(instance))
    except Exception as error:
        return Prediction(sample, verdict, (), program, f"not planned: {type(error).__name__}: {error}")
    return Prediction(sample, verdict, kernels, program)


def _program(arch: str, instance: Instance) -> Program:
    spec = instance.spec
    rendering = render(spec)
    return Program(arch, bare(rendering.files["kernel.py"]), compile_key(instance, rendering.parameters))


def bare(source: str) -> str:
    """What ``build`` of a rendered kernel needs, without comments and docstrings: the rest changes, and the program not."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    # What is tried, as the import of tilelang is, must work here.
    body = [inner for node in tree.body for inner in (node.body if isinstance(node, ast.Try) else [node])]
    defined = {name: node for node in body for name in _defines(node)}
    needed: set[ast.stmt] = set()
    pending = ["build"]
    while pending:
        found = defined.get(pending.pop())
        if found is not None and found not in needed:
            needed.add(found)
            own = {inner.arg for inner in ast.walk(found) if isinstance(inner, ast.arg)}
            pending += [inner.id for inner in ast.walk(found) if isinstance(inner, ast.Name) and inner.id not in own]
    tree.body = [node for node in body if node in needed]
    return ast.unparse(tree) + "\n"


def _defines(node: ast.stmt) -> list[str]:
    """The names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    if isinstance(node, ast.Assign):
        return [inner.id for target in node.targets for inner in ast.walk(target) if isinstance(inner, ast.Name)]
    return []
