"""Sizes that depend on run-time dims, as text that two sides can compare.

The IR of a kernel says `(m + 128 - 1) // 128`, the plan says `ceiling(m / 128)`. Both sides give what they have: the
IR its extent as a Python expression in the names of the dims, the plan an integer, such an expression, or a function
of the dims. They are equal if both give the same value at every point of a grid of awkward sizes: small ones, powers of
two and their neighbours, and the neighbours of every number that stands in either text, since a size is linear in each
dim up to rounding to tiles, and the tiles stand there. It is a test of equality, not a proof.

The language: integers, names, + - * // % and unary minus, comparisons, `and or not`, `a if c else b`, and the
functions min, max, ceildiv, abs. It is evaluated by walking Python's syntax tree: nothing is ever executed.
"""

import ast
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from math import gcd, prod

Extent = int | str
"""An integer, or a Python expression in the names of the dims."""
Expected = int | str | Callable[..., int]

SAMPLES = (1, 2, 3, 15, 16, 17, 31, 32, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000, 4097, 65_536, 1_048_575)
MAX_POINTS = 4096
MAX_TILE = 65_536
MAX_LENGTH = 4096


class ExtentError(ValueError):
    """The text is no expression of the language, or names something that has no value."""


def extent_equal(extent: Extent, expected: Expected, samples: Mapping[str, Sequence[int]] | None = None) -> bool:
    """Whether an extent of the IR is what the plan says.

    `expected`: an integer, an expression, or a function that takes the dims by name. `samples`: the values to try for
    a dim, where it may not take all of `SAMPLES` (a listed or a bounded dim). Raises `ExtentError`.
    """
    if isinstance(extent, int) and isinstance(expected, int):
        return extent == expected
    texts = [extent, *([] if callable(expected) else [expected])]
    names = sorted(set().union(*map(extent_names, texts)))
    axis = tuple(sorted({*SAMPLES, *(n for text in texts for n in _around_literals(text))}))
    axes = [tuple((samples or {}).get(name, axis)) for name in names]
    return all(evaluate(extent, point) == _value(expected, point) for point in _points(names, axes))


def evaluate(extent: Extent, dims: Mapping[str, int]) -> int:
    """The value of an extent. Raises `ExtentError`."""
    if isinstance(extent, int):
        return extent
    try:
        return int(_walk(_parse(extent), dims))
    except ZeroDivisionError as error:
        raise ExtentError(f"{extent!r} divides by zero at {dict(dims)}") from error


def extent_names(extent: Extent) -> set[str]:
    """The dims that an extent depends on."""
    if isinstance(extent, int):
        return set()
    tree = _parse(extent)
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in called}


def _value(expected: Expected, point: Mapping[str, int]) -> int:
    return int(expected(**point)) if callable(expected) else evaluate(expected, point)


def _around_literals(extent: Extent) -> set[int]:
    """One and two times each tile-sized number of the text, and their neighbours."""
    if isinstance(extent, int):
        return set()
    literals = {n.value for n in ast.walk(_parse(extent)) if isinstance(n, ast.Constant) and isinstance(n.value, int)}
    tiles = [n for n in literals if 2 <= n <= MAX_TILE]
    return {times * n + beside for n in tiles for times in (1, 2) for beside in (-1, 0, 1)}


def _points(names: Sequence[str], axes: Sequence[tuple[int, ...]]) -> list[dict[str, int]]:
    """All combinations, or as many as `MAX_POINTS` spread evenly over them."""
    total = prod(len(axis) for axis in axes)
    stride = -(-total // MAX_POINTS)
    # A stride that shares no factor with any axis visits all of its values.
    while stride > 1 and any(gcd(stride, len(axis)) > 1 for axis in axes):
        stride += 1
    chosen = itertools.islice(itertools.product(*axes), 0, None, stride)
    return [dict(zip(names, point, strict=True)) for point in chosen]


_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "ceildiv": lambda a, b: -(-a // b),
}


def _parse(text: str) -> ast.expr:
    if len(text) > MAX_LENGTH:
        raise ExtentError(f"an extent of {len(text)} characters is longer than {MAX_LENGTH}")
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExtentError(f"{text!r} is no expression") from error


def _walk(node: ast.expr, dims: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.Name(id=name) if name in dims:
            return dims[name]
        case ast.UnaryOp(op=ast.USub()):
            return -_walk(node.operand, dims)
        case ast.UnaryOp(op=ast.Not()):
            return not _walk(node.operand, dims)
        case ast.BinOp() if type(node.op) in _BINARY:
            return _BINARY[type(node.op)](_walk(node.left, dims), _walk(node.right, dims))
        case ast.Compare(ops=[op], comparators=[right]) if type(op) in _COMPARE:
            return _COMPARE[type(op)](_walk(node.left, dims), _walk(right, dims))
        case ast.BoolOp(op=ast.And()):
            return all(_walk(value, dims) for value in node.values)
        case ast.BoolOp(op=ast.Or()):
            return any(_walk(value, dims) for value in node.values)
        case ast.IfExp():
            return _walk(node.body if _walk(node.test, dims) else node.orelse, dims)
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_walk(arg, dims) for arg in node.args))
    raise ExtentError(f"{ast.unparse(node)!r} is not part of the language, or a name without a value")
