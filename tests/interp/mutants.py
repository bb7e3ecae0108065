"""Mistakes in a kernel's source, one place at a time: what a slip of its author would look like.

``mistakes(function)`` lists them for the syntax tree of one function; ``with_mistake`` gives the source with one of them.
Branches on ``fault``, which the kernels of the tests have for planted faults, are taken as they are without a fault.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

WAITS = (
    "sync_threads",
    "barrier_wait",
    "barrier_arrive",
    "named_barrier_arrive",
    "mbarrier_wait_parity",
    "wait_wgmma",
    "ptx_wait_group",
    "tma_store_wait",
)
LOOPS = ("serial", "Pipelined", "Parallel", "unroll")
OTHER_FUNCTION = {"exp": "exp2", "exp2": "exp", "max": "min", "min": "max"}
OTHER_COMPARISON = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}


@dataclass(frozen=True)
class Mistake:
    """``owner.field`` (its element ``index``, if not None) becomes ``value``."""

    kind: str
    line: int
    what: str
    owner: ast.AST
    field: str
    index: int | None
    value: Any


def with_mistake(tree: ast.Module, mistake: Mistake) -> str:
    """The source of ``tree`` with one mistake; the tree stays as it is."""
    place = getattr(mistake.owner, mistake.field)
    before = place if mistake.index is None else place[mistake.index]
    _put(mistake, mistake.value)
    try:
        return ast.unparse(ast.fix_missing_locations(tree))
    finally:
        _put(mistake, before)


def _put(mistake: Mistake, value: Any) -> None:
    if mistake.index is None:
        setattr(mistake.owner, mistake.field, value)
    else:
        getattr(mistake.owner, mistake.field)[mistake.index] = value


def without_faults(source: str) -> ast.Module:
    """The tree of a file of kernels, with every branch on ``fault`` decided."""
    tree = _Decided().visit(ast.parse(source))
    return ast.parse(ast.unparse(ast.fix_missing_locations(tree)))


class _Decided(ast.NodeTransformer):
    def visit_If(self, node: ast.If) -> Any:
        holds = _holds(node.test)
        if holds is None:
            return self.generic_visit(node)
        chosen = [self.visit(part) for part in (node.body if holds else node.orelse)]
        return chosen or ast.Pass()

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        holds = _holds(node.test)
        return self.generic_visit(node) if holds is None else self.visit(node.body if holds else node.orelse)


def _holds(test: ast.expr) -> bool | None:
    """Whether a condition on ``fault`` alone holds where there is none; None for any other condition."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _holds(test.operand)
        return None if inner is None else not inner
    if isinstance(test, ast.Name) and test.id == "fault":
        return False
    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "fault":
        return isinstance(test.ops[0], (ast.NotEq, ast.Is, ast.NotIn))
    return None


def mistakes(function: ast.FunctionDef) -> Iterator[Mistake]:
    """Every mistake in the kernels and macros that a function holds, or in itself if it is one."""
    tiles = _tiles(function)
    traced = [node for node in ast.walk(function) if isinstance(node, ast.FunctionDef) and _is_traced(node)]
    for kernel in traced:
        for owner in ast.walk(kernel):
            for field, value in ast.iter_fields(owner):
                if field in ("decorator_list", "args") and owner in traced:
                    continue
                listed = isinstance(value, list)
                for index, node in enumerate(value if listed else [value]):
                    if isinstance(node, ast.AST):
                        yield from _of_node(owner, field, index if listed else None, node, tiles)
                if field in ("body", "orelse") and listed:
                    yield from _swapped(owner, field, value)


def _is_traced(node: ast.FunctionDef) -> bool:
    names = [ast.unparse(decorator).split("(")[0] for decorator in node.decorator_list]
    nested = any(isinstance(part, ast.FunctionDef) and part is not node for part in ast.walk(node))
    return "T.prim_func" in names or "T.macro" in names or ("tilelang.jit" in names and not nested)


def _tiles(function: ast.FunctionDef) -> dict[str, str]:
    """The buffers that a function allocates: by name, how (the call without its dtype)."""
    found = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value.args:
            target = node.targets[0]
            if _operation(node.value).startswith("alloc_") and isinstance(target, ast.Name):
                found[target.id] = f"{_operation(node.value)} {ast.unparse(node.value.args[0])}"
    return found


def _operation(node: ast.AST) -> str:
    """``copy`` of the call ``T.copy(...)``."""
    call = node.value if isinstance(node, ast.Expr) else node
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        return call.func.attr if call.func.value.id == "T" else ""
    return ""


def _swapped(owner: ast.AST, field: str, body: list[ast.stmt]) -> Iterator[Mistake]:
    for first in range(len(body) - 1):
        pair = body[first : first + 2]
        if all(
            isinstance(part, (ast.For, ast.If)) or (isinstance(part, ast.Expr) and _operation(part)) for part in pair
        ):
            what = " and ".join(ast.unparse(part).split("\n")[0][:50] for part in pair)
            yield Mistake("swapped statements", pair[0].lineno, what, owner, field, None,
                          [*body[:first], pair[1], pair[0], *body[first + 2 :]])  # fmt: skip


def _of_node(owner: ast.AST, field: str, index: int | None, node: ast.AST, tiles: dict[str, str]) -> Iterator[Mistake]:
    text = ast.unparse(node).split("\n")[0][:90]
    line = getattr(node, "lineno", getattr(owner, "lineno", 0))

    def here(kind: str, value: Any) -> Mistake:
        return Mistake(kind, line, text, owner, field, index, value)

    def inside(kind: str, changed: ast.AST, at: str, position: int | None, value: Any) -> Mistake:
        return Mistake(kind, line, text, changed, at, position, value)

    operation = _operation(node)
    if isinstance(node, ast.Expr) and operation:
        for kind, names in (("dropped clear", ("clear", "fill")), ("dropped copy", ("copy", "tma_copy", "async_copy")),
                            ("dropped wait", WAITS), ("dropped product", ("gemm", "wgmma_gemm"))):  # fmt: skip
            if operation in names:
                yield here(kind, ast.Pass())
        if operation.startswith("reduce_"):
            yield here("dropped reduction", ast.Pass())
    if isinstance(node, ast.Call):
        yield from _of_call(node, operation, here, inside)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for axis, place in enumerate(places):
            if isinstance(place, ast.Slice):
                continue
            changed, at, position = (
                (node.slice, "elts", axis) if isinstance(node.slice, ast.Tuple) else (node, "slice", None)
            )
            for step in (1, -1):
                yield inside("index off by one", changed, at, position, _plus(place, step))
            if isinstance(place, ast.BinOp) and isinstance(place.op, ast.Mult):
                yield inside("index off by a tile", place, "left", None, _plus(place.left, 1))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        yield inside("wrong stage", node, "left", None, _plus(node.left, 1))
        yield here("stage not wrapped", node.left)
    if isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and not node.orelse:
        yield inside("dropped guard", node, "test", None, ast.Constant(True))
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER_COMPARISON:
        yield inside("comparison", node, "ops", None, [OTHER_COMPARISON[type(node.ops[0])]()])
    if isinstance(node, ast.AugAssign):
        yield here("assignment for update", ast.Assign([node.target], node.value))
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in tiles:
        other = next((name for name, made in tiles.items() if name != node.id and made == tiles[node.id]), None)
        if other is not None:
            yield here("wrong tile", ast.Name(other, ast.Load()))


def _of_call(node: ast.Call, operation: str, here: Any, inside: Any) -> Iterator[Mistake]:
    if operation in ("barrier_wait", "mbarrier_wait_parity"):
        yield inside("flipped parity", node, "args", 1, ast.BinOp(node.args[1], ast.BitXor(), ast.Constant(1)))
    if operation == "if_then_else":
        yield here("dropped mask", node.args[1])
    if operation in LOOPS:
        for position, bound in enumerate(node.args):
            for step in (1, -1):
                yield inside("loop bound", node, "args", position, _plus(bound, step))
    if operation in OTHER_FUNCTION:
        yield inside("other function", node.func, "attr", None, OTHER_FUNCTION[operation])
    if operation == "alloc_fragment" and len(node.args) > 1:
        yield inside("narrow accumulator", node, "args", 1, ast.Constant("float16"))
    if operation in ("gemm", "wgmma_gemm") and not any(word.arg == "transpose_B" for word in node.keywords):
        word = ast.keyword("transpose_B", ast.Constant(True))
        yield inside("flipped transpose", node, "keywords", None, [*node.keywords, word])
    for word in node.keywords:
        if word.arg in ("clear", "clear_accum", "transpose_A", "transpose_B") and isinstance(word.value, ast.Constant):
            kind = "flipped clear" if word.arg.startswith("clear") else "flipped transpose"
            yield inside(kind, word, "value", None, ast.Constant(not word.value.value))
    if operation.startswith("reduce_") and not any(word.arg == "clear" for word in node.keywords):
        yield inside(
            "flipped clear", node, "keywords", None, [*node.keywords, ast.keyword("clear", ast.Constant(False))]
        )


def _plus(expression: ast.expr, step: int) -> ast.BinOp:
    return ast.BinOp(copy.deepcopy(expression), ast.Add() if step > 0 else ast.Sub(), ast.Constant(abs(step)))
