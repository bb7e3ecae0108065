"""Text to expressions, by walking Python's syntax tree against a whitelist.

Specs arrive in pull requests from strangers, so nothing here evaluates text, and the limits below are checked before
the work that they bound. Three languages share the walk: integers (sizes), conditions, and formulas over real numbers.
"""

from __future__ import annotations

import ast
import difflib
import math
import warnings
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from tilegen.expr import arith
from tilegen.expr.arith import Condition, Size
from tilegen.expr.error import ExprError

if TYPE_CHECKING:
    import sympy

MAX_LENGTH = 2000
MAX_NESTING = 40
MAX_NODES = 400
MAX_EXPONENT = 8
MAX_DEGREE = 64
MAX_INTEGER = 2**63 - 1

LANGUAGE = "an expression has integers, names, + - * // % **, comparisons, and, or, not, in, min, max and ceildiv"

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_INTEGER_FUNCTIONS: dict[str, Callable[..., Size]] = {
    "min": arith.minimum,
    "max": arith.maximum,
    "ceildiv": arith.ceil_div,
}


def parse_integer(text: str, names: Collection[str]) -> Size:
    """An integer expression: ints, `names`, `+ - * // % **`, min, max, ceildiv. Raises ExprError."""
    return _Walk(text, names).integer(_syntax(text))


def parse_condition(text: str, names: Collection[str]) -> Condition:
    """Comparisons of integer expressions (chained too), `in (a, b)`, and, or, not. Raises ExprError."""
    return _Walk(text, names).condition(_syntax(text))


def parse_formula(text: str, names: Collection[str], *, integers: Collection[str] = ()) -> sympy.Expr:
    """A real-valued formula, its order of operations kept; names in `integers` are dims. Raises ExprError."""
    return _FormulaWalk(text, names, integers).formula(_syntax(text))


@lru_cache(maxsize=1024)
def _syntax(text: str) -> ast.expr:
    """The syntax tree of `text`, its positions shifted to offsets into `text`. Specs have many texts in common."""
    if len(text) > MAX_LENGTH:
        raise ExprError(f"the expression has {len(text)} characters; the limit is {MAX_LENGTH}", 0, len(text))
    depth = 0
    for i, c in enumerate(text):
        if not (" " <= c <= "~" or c in "\t\n\r"):
            raise ExprError(f"the character {c!r} is not part of the expression language", i, i + 1, "use plain ASCII")
        if c in "#\\;@`$?!\"'{}&|^~" and not (c == "!" and text[i + 1 : i + 2] == "="):
            raise ExprError(f"the character {c!r} is not part of the expression language", i, i + 1, LANGUAGE)
        depth += (c in "([") - (c in ")]")
        if depth > MAX_NESTING:
            raise ExprError(f"more than {MAX_NESTING} nested brackets", i, i + 1)
    line = text.translate({ord(c): " " for c in "\t\n\r"})
    stripped = line.lstrip()
    if not stripped:
        raise ExprError("the expression is empty", 0, len(text))
    shift = len(line) - len(stripped)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(stripped, mode="eval").body
    except SyntaxError as e:
        start = min(max((e.offset or 1) - 1 + shift, 0), len(text) - 1)
        reason = e.msg if e.msg and "Perhaps" not in e.msg else "invalid syntax"
        help = "compare with `==`" if text[start] == "=" else ""
        raise ExprError(f"this is not an expression: {reason}", start, start + 1, help) from None
    except (ValueError, MemoryError, RecursionError, OverflowError):
        raise ExprError("the expression is too deep or holds too large a number", 0, len(text)) from None
    _limit(tree, shift, len(text))
    return tree


def _limit(tree: ast.expr, shift: int, length: int) -> None:
    """Bounds depth and node count without recursion, and shifts the positions by the blanks that were cut."""
    count = 0
    level: list[ast.AST] = [tree]
    for _ in range(MAX_NESTING * 3):
        below: list[ast.AST] = []
        for node in level:
            count += 1
            if isinstance(node, ast.expr):
                node.col_offset += shift
                node.end_col_offset = (node.end_col_offset or 0) + shift
            below += ast.iter_child_nodes(node)
        if count > MAX_NODES * 3:
            raise ExprError(f"the expression has more than {MAX_NODES} parts", 0, length)
        if not below:
            return
        level = below
    raise ExprError("the expression is nested too deep, or has too many terms in a row", 0, length)


def _fail(message: str, node: ast.AST, help: str = "") -> NoReturn:
    raise ExprError(message, getattr(node, "col_offset", 0), getattr(node, "end_col_offset", None) or 1, help)


class _Walk:
    def __init__(self, text: str, names: Collection[str]) -> None:
        self.text = text
        self.names = names

    # -- integers

    def integer(self, node: ast.expr) -> Size:
        try:
            value = self._integer(node)
        except ZeroDivisionError:
            _fail("division by zero", node)
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            _fail("the value does not fit into 64 bits", node)
        return value

    def _integer(self, node: ast.expr) -> Size:
        if isinstance(node, ast.Constant):
            return self._integer_constant(node)
        if isinstance(node, ast.Name):
            from tilegen.expr.nodes import symbol

            return symbol(self.known(node))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            operand = self.integer(node.operand)
            return arith.multiply(-1, operand) if isinstance(node.op, ast.USub) else operand
        if isinstance(node, ast.BinOp):
            return self._integer_operation(node)
        if isinstance(node, ast.Call):
            name = self.called(node, _INTEGER_FUNCTIONS)
            if len(node.args) < 2 or (name == "ceildiv" and len(node.args) != 2):
                _fail(f"`{name}` takes {'two' if name == 'ceildiv' else 'two or more'} arguments", node)
            return _INTEGER_FUNCTIONS[name](*(self.integer(a) for a in node.args))
        if isinstance(node, (ast.Compare, ast.BoolOp)) or _is_not(node):
            _fail("an integer is needed here, and this is a condition", node)
        return self.refuse(node)

    def _integer_constant(self, node: ast.Constant) -> int:
        if isinstance(node.value, bool) or not isinstance(node.value, int):
            _fail(f"`{self.source(node)}` is not an integer", node)
        return node.value

    def _integer_operation(self, node: ast.BinOp) -> Size:
        if isinstance(node.op, ast.Pow):
            base, exponent = self.integer(node.left), self.integer(node.right)
            if not isinstance(exponent, int) or not 0 <= exponent <= MAX_EXPONENT:
                _fail(f"an exponent must be a constant from 0 to {MAX_EXPONENT}", node.right, "write the number out")
            power = arith.native(base**exponent)
            if _degree(power) > MAX_DEGREE:
                _fail(f"the degree of this power is over {MAX_DEGREE}", node)
            return power
        if isinstance(node.op, ast.Div):
            _fail("`/` does not give an integer", node, "write `//` to round down, or ceildiv(a, b) to round up")
        if not isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)):
            return self.refuse(node)
        a, b = self.integer(node.left), self.integer(node.right)
        if isinstance(node.op, ast.Add):
            return arith.add(a, b)
        if isinstance(node.op, ast.Sub):
            return arith.add(a, arith.multiply(-1, b))
        if isinstance(node.op, ast.Mult):
            return arith.multiply(a, b)
        return arith.floor_div(a, b) if isinstance(node.op, ast.FloorDiv) else arith.mod(a, b)

    # -- conditions

    def condition(self, node: ast.expr) -> Condition:
        if isinstance(node, ast.BoolOp):
            parts = [self.condition(v) for v in node.values]
            return arith.all_of(*parts) if isinstance(node.op, ast.And) else arith.any_of(*parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.negated(self.condition(node.operand))
        if isinstance(node, ast.Compare):
            return arith.all_of(*self._comparisons(node))
        if isinstance(node, (ast.Constant, ast.Name, ast.BinOp)):
            _fail(f"`{self.source(node)}` is not a condition", node, "compare it with something: `C % 128 == 0`")
        return self.refuse(node)

    def _comparisons(self, node: ast.Compare) -> Iterator[Condition]:
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, (ast.In, ast.NotIn)):
                found = self.membership(left, right)
                yield arith.negate(found) if isinstance(op, ast.NotIn) else found
            elif type(op) in _COMPARISONS:
                yield self.comparison(_COMPARISONS[type(op)], left, right)
            else:
                _fail("this comparison is not part of the expression language", node, "use == != < <= > >= in")
            left = right

    def comparison(self, op: str, left: ast.expr, right: ast.expr) -> Condition:
        return arith.compare(op, self.integer(left), self.integer(right))

    def negated(self, condition: Condition) -> Condition:
        return arith.negate(condition)

    def membership(self, left: ast.expr, right: ast.expr) -> Condition:
        if not isinstance(right, (ast.Tuple, ast.List)):
            _fail("`in` needs a list of values", right, "write `C in (96, 192)`; for one value write `C == 96`")
        value = self.integer(left)
        return arith.any_of(*(arith.equal(value, self.integer(v)) for v in right.elts))

    # -- shared

    def known(self, node: ast.Name) -> str:
        if node.id not in self.names:
            _fail(f"unknown name `{node.id}`", node, nearest(node.id, self.names))
        return node.id

    def called(self, node: ast.Call, functions: Collection[str]) -> str:
        if not isinstance(node.func, ast.Name) or node.func.id not in functions:
            name = self.source(node.func)
            _fail(f"there is no function `{name}` here", node.func, nearest(name, functions))
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            _fail("functions take plain arguments only", node)
        return node.func.id

    def source(self, node: ast.expr) -> str:
        text = self.text[node.col_offset : node.end_col_offset]
        return text if len(text) <= 40 else text[:37] + "..."

    def refuse(self, node: ast.expr) -> NoReturn:
        _fail(f"`{self.source(node)}` is not part of the expression language", node)


class _FormulaWalk(_Walk):
    def __init__(self, text: str, names: Collection[str], integers: Collection[str]) -> None:
        super().__init__(text, names)
        self.integers = integers

    def formula(self, node: ast.expr) -> Any:
        import sympy

        from tilegen.expr import formula, nodes

        if isinstance(node, ast.Constant):
            return self._number(node)
        if isinstance(node, ast.Name):
            name = self.known(node)
            return nodes.symbol(name) if name in self.integers else nodes.real_symbol(name)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            operand = self.formula(node.operand)
            return formula.negative(operand) if isinstance(node.op, ast.USub) else operand
        if isinstance(node, ast.BinOp):
            operation = formula.OPERATIONS.get(type(node.op).__name__)
            if operation is None:
                return self.refuse(node)
            result = operation(self.formula(node.left), self.formula(node.right))
            if isinstance(node.op, ast.Pow) and _degree(result) > MAX_DEGREE:
                _fail(f"the degree of this power is over {MAX_DEGREE}", node)
            if result.has(sympy.zoo, sympy.nan, sympy.oo):
                _fail("division by zero", node)
            return result
        if isinstance(node, ast.IfExp):
            return formula.where(self.condition(node.test), self.formula(node.body), self.formula(node.orelse))
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, (ast.Compare, ast.BoolOp)) or _is_not(node):
            _fail("a number is needed here, and this is a condition", node, "write where(condition, a, b)")
        return self.refuse(node)

    def _number(self, node: ast.Constant) -> Any:
        import sympy

        value = node.value
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER:
            return sympy.Integer(value)
        if isinstance(value, float) and math.isfinite(value):
            return sympy.Float(value)
        return _fail(f"`{self.source(node)}` is not a finite number", node)

    def _call(self, node: ast.Call) -> Any:
        from tilegen.expr import formula

        name = self.called(node, (*formula.FUNCTIONS, "where"))
        if name == "where":
            if len(node.args) != 3:
                _fail("`where` takes a condition and two values", node)
            test, then, otherwise = node.args
            return formula.where(self.condition(test), self.formula(then), self.formula(otherwise))
        function = formula.FUNCTIONS[name]
        if not function.least <= len(node.args) <= function.most:
            count = f"{function.least}" if function.least == function.most else f"{function.least} or more"
            _fail(f"`{name}` takes {count} argument{'' if count == '1' else 's'}", node)
        return function.node(*(self.formula(a) for a in node.args))

    def negated(self, condition: Condition) -> Condition:
        import sympy

        # `not x < 1` is no `x >= 1` where x is NaN.
        return not condition if isinstance(condition, bool) else sympy.Not(condition, evaluate=False)

    def membership(self, left: ast.expr, right: ast.expr) -> Condition:
        return _fail("`in` has no meaning for real numbers", right, "compare with < and >")

    def comparison(self, op: str, left: ast.expr, right: ast.expr) -> Condition:
        from tilegen.expr import formula

        return formula.compare(op, self.formula(left), self.formula(right))


def _degree(e: Any) -> float:
    """An upper bound of the degree of a power, which bounds the size of its value; a number counts as a name."""
    if isinstance(e, int) or not e.args:
        return 1
    if e.is_Pow:
        base, exponent = e.args
        if exponent.is_Number:
            return _degree(base) * max(1.0, abs(float(exponent)))
        # With a real exponent the power is a float, which is bounded; one of ints is not.
        return _degree(base) if any(not s.is_integer for s in e.free_symbols) else math.inf
    degrees = [_degree(a) for a in e.args]
    return sum(degrees) if e.is_Mul else max(degrees)


def _is_not(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def nearest_name(name: str, known: Collection[str]) -> str | None:
    """The one of `known` that was likely meant."""
    lowered = {k.lower(): k for k in sorted(known)}
    match = difflib.get_close_matches(name[:64].lower(), list(lowered), n=1, cutoff=0.5)
    return lowered[match[0]] if match else None


def nearest(name: str, known: Collection[str]) -> str:
    """A help line for an unknown name: the nearest known one, or the list."""
    if not known:
        return "no name is known here"
    match = nearest_name(name, known)
    listed = sorted(known) if len(known) <= 24 else [*sorted(known)[:24], "..."]
    return f"did you mean `{match}`?" if match else f"known here: {', '.join(listed)}"
