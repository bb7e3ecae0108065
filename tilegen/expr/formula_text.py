"""Formulas as source: TileLang for kernels, float64 torch for references."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import sympy

from tilegen.expr.formula import MAX_PRODUCT, NAMES, Where
from tilegen.expr.text import AND, ATOM, COMPARE, NOT, OR, POWER, PRODUCT, SUM, UNARY

_ATOM = re.compile(r"[A-Za-z_][\w.]*(\[[^\[\]]*\]|\([^()]*\))*|\d+(\.\d+)?")


def formula_to_text(expr: Any) -> str:
    """The formula in the language of specs, in the order it was written."""
    return _Text({}).text(expr, OR)


def formula_to_tilelang(expr: Any, names: Mapping[str, str]) -> str:
    """The formula as a TileLang expression; `names` gives the source for each input ("acc" -> "c_frag[i, j]").

    Written as an expert would: relu is `T.max(x, 0)`, silu is `x / (1 + T.exp(-x))`. An argument that such a form
    repeats is repeated here; bind it first with `repeated_terms`. A dim is a Python number where `names` gives it a
    plain name or none; give a dynamic dim as `T.float32(M)`.
    """
    return _TileLang(names).text(expr, OR)


def formula_to_torch(
    expr: Any, names: Mapping[str, str], *, scalars: Collection[str] = (), error: str | None = None, fast: bool = False
) -> str:
    """The formula over float64 torch tensors. Dims and `scalars` are Python numbers, and so is what holds only them.

    With `error`, the name of a relative error such as 2 ** -21, the functions whose float32 form is off by more than that
    of their value are printed off by as much: those that cancel by that of their terms, and with `fast`, the hardware's
    tanh by its own error.
    """
    return _Torch(names, scalars, error, fast).text(expr, OR)


class _Text:
    """Arithmetic, which all forms share, and functions called by their own names."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def text(self, e: Any, least: int) -> str:
        text, strength = self.print(e)
        return text if strength >= least else f"({text})"

    def print(self, e: Any) -> tuple[str, int]:
        if e.is_Symbol:
            name = self.names.get(e.name, e.name)
            return name, (ATOM if _ATOM.fullmatch(name) else OR)
        if e.is_Number:
            return self.number(e)
        if e.is_Boolean or e.is_Relational:
            return self.condition(e)
        if e.is_Add:
            return self._sum(e)
        if e.is_Mul:
            return self._product(e)
        if e.is_Pow:
            return self.power(e)
        if isinstance(e, Where):
            return self.where(*e.args)
        return self.call(NAMES[e.func], e.args)

    def number(self, e: Any) -> tuple[str, int]:
        if e.is_Rational and not e.is_Integer:
            return f"{e.p} / {e.q}", PRODUCT
        text = str(int(e)) if e.is_Integer else repr(float(e))
        return text, (UNARY if text.startswith("-") else ATOM)

    def _sum(self, e: Any) -> tuple[str, int]:
        text = self.text(e.args[0], SUM)
        for term in e.args[1:]:
            sign, positive = _sign(term)
            text += f" {sign} {self.text(positive, PRODUCT)}"
        return text, SUM

    def _product(self, e: Any) -> tuple[str, int]:
        head, *tail = e.args
        if head == -1 and tail:
            text = f"-{self.text(tail[0], POWER)}"
            if len(tail) == 1:
                return text, UNARY
            tail = tail[1:]
        elif _is_reciprocal(head):
            text = f"1 / {self.text(head.base, UNARY)}"
        else:
            text = self.text(head, PRODUCT)
        for factor in tail:
            if _is_reciprocal(factor):
                text += f" / {self.text(factor.base, UNARY)}"
            else:
                text += f" * {self.text(factor, UNARY)}"
        return text, PRODUCT

    def power(self, e: Any) -> tuple[str, int]:
        if _is_reciprocal(e):
            return f"1 / {self.text(e.base, UNARY)}", PRODUCT
        return f"{self.text(e.base, ATOM)} ** {self.text(e.exp, UNARY)}", POWER

    def condition(self, e: Any) -> tuple[str, int]:
        if e.is_Relational:
            return f"{self.text(e.lhs, SUM)} {e.rel_op} {self.text(e.rhs, SUM)}", COMPARE
        if isinstance(e, sympy.Not):
            return f"not {self.text(e.args[0], NOT)}", NOT
        word, strength = ("and", AND) if isinstance(e, sympy.And) else ("or", OR)
        return f" {word} ".join(self.text(a, strength + 1) for a in e.args), strength

    def where(self, condition: Any, then: Any, otherwise: Any) -> tuple[str, int]:
        return self.function("where", condition, then, otherwise)

    def call(self, name: str, args: Any) -> tuple[str, int]:
        return self.function(name, *args)

    def function(self, name: str, *args: Any) -> tuple[str, int]:
        return f"{name}({', '.join(a if isinstance(a, str) else self.text(a, OR) for a in args)})", ATOM

    def fold(self, name: str, args: Any) -> tuple[str, int]:
        """A two-argument function over many arguments."""
        text = self.text(args[0], OR)
        for arg in args[1:]:
            text = f"{name}({text}, {self.text(arg, OR)})"
        return text, ATOM


class _TileLang(_Text):
    def is_static(self, e: Any) -> bool:
        """True if `e` is a Python number when the kernel is traced."""
        return all(s.is_integer and self.names.get(s.name, s.name).isidentifier() for s in e.free_symbols)

    def power(self, e: Any) -> tuple[str, int]:
        base, exponent = e.args
        if self.is_static(e):
            return super().power(e)
        if exponent == -1:
            return f"1 / {self.text(base, UNARY)}", PRODUCT
        if exponent.is_Integer and 2 <= int(exponent) <= MAX_PRODUCT:
            return " * ".join([self.text(base, UNARY)] * int(exponent)), PRODUCT
        if exponent.is_Number and float(exponent) in (0.5, -0.5):
            return self.function("T.sqrt" if float(exponent) > 0 else "T.rsqrt", base)
        return self.function("T.pow", base, exponent)

    def condition(self, e: Any) -> tuple[str, int]:
        # `and`, `or` and `not` would ask a symbolic value for its truth.
        if e.is_Relational:
            return super().condition(e)
        if isinstance(e, sympy.Not):
            return self.function("T.Not", *e.args)
        return self.fold("T.And" if isinstance(e, sympy.And) else "T.Or", e.args)

    def where(self, condition: Any, then: Any, otherwise: Any) -> tuple[str, int]:
        if self.is_static(then) and self.is_static(otherwise):
            # Two Python ints would make an int32, which has no true division.
            return self.function("T.if_then_else", condition, f"T.float32({self.text(then, OR)})", otherwise)
        return self.function("T.if_then_else", condition, then, otherwise)

    def call(self, name: str, args: Any) -> tuple[str, int]:
        if all(self.is_static(a) for a in args):
            # TileLang would take a Python int for an int32, and has no sqrt of one.
            lifted = sympy.Symbol("_lifted", real=True)
            names = {**self.names, "_lifted": f"T.float32({self.text(args[0], OR)})"}
            return _TileLang(names).call(name, (lifted, *args[1:]))
        x = self.text(args[0], UNARY)
        product = self.text(args[0], POWER)
        bare = self.text(args[0], OR)
        if name == "relu":
            return f"T.max({bare}, 0)", ATOM
        if name == "leaky_relu":
            slope = self.text(args[1], UNARY)
            return f"T.if_then_else({self.text(args[0], SUM)} > 0, {bare}, {slope} * {x})", ATOM
        if name == "silu":
            return f"{x} / (1 + T.exp(-{product}))", PRODUCT
        if name == "quick_gelu":
            return f"{x} / (1 + T.exp(-1.702 * {x}))", PRODUCT
        if name == "sigmoid":
            return f"1 / (1 + T.exp(-{product}))", PRODUCT
        if name == "gelu":
            return f"0.5 * {x} * (1 + T.erf({x} * 0.7071067811865476))", PRODUCT
        if name == "gelu_tanh":
            # x * (1 + tanh(u)) / 2 is x * sigmoid(2 * u), which does not cancel.
            return f"{x} / (1 + T.exp(-1.5957691216057308 * ({x} + 0.044715 * {x} * {x} * {x})))", PRODUCT
        if name == "hardswish":
            return f"{x} * T.min(T.max({self.text(args[0], SUM)} + 3, 0), 6) / 6", PRODUCT
        if name == "softplus":
            return f"T.max({bare}, 0) + T.log(1 + T.exp(-T.abs({bare})))", SUM
        if name == "softcap":
            cap = self.text(args[1], UNARY)
            return f"{cap} * T.tanh({x} / {cap})", PRODUCT
        if name in ("min", "max"):
            return self.fold(f"T.{name}", args)
        if name == "clamp":
            return f"T.min(T.max({bare}, {self.text(args[1], OR)}), {self.text(args[2], OR)})", ATOM
        return self.function(f"T.{name}", *args)


class _Torch(_Text):
    def __init__(
        self, names: Mapping[str, str], scalars: Collection[str], error: str | None = None, fast: bool = False
    ) -> None:
        super().__init__(names)
        self.scalars = scalars
        self.error = error
        self.fast = fast

    def is_tensor(self, e: Any) -> bool:
        return bool(_tensor_names(e, self.scalars))

    def condition(self, e: Any) -> tuple[str, int]:
        if e.is_Relational or not self.is_tensor(e):
            return super().condition(e)
        # A part without tensors is a Python bool, which & and | take as well.
        if isinstance(e, sympy.Not):
            return f"~({self.text(e.args[0], OR)})", UNARY
        sign = " & " if isinstance(e, sympy.And) else " | "
        return sign.join(self.text(a, ATOM) for a in e.args), SUM - 1

    def where(self, condition: Any, then: Any, otherwise: Any) -> tuple[str, int]:
        if not self.is_tensor(condition):
            text = f"{self.text(then, AND)} if {self.text(condition, OR)} else {self.text(otherwise, OR)}"
            return f"({text})", ATOM
        if not self.is_tensor(then) and not self.is_tensor(otherwise):
            # Two Python numbers would become float32.
            lifted = f"torch.tensor({self.text(then, OR)}, dtype=torch.float64)"
            return self.function("torch.where", condition, lifted, otherwise)
        return self.function("torch.where", condition, then, otherwise)

    def call(self, name: str, args: Any) -> tuple[str, int]:
        if not any(self.is_tensor(a) for a in args):
            return self._scalar_call(name, args)
        if self.error is None:
            return self.exact(name, args)
        if name == "gelu":  # x / 2 * (1 + erf(x / sqrt(2))): 1 + erf is rounded like 1
            text, x = self.exact(name, args)[0], self.text(args[0], OR)
            return f"{text} + {self.error} * torch.abs({x})", SUM
        if name == "softplus":  # log(1 + exp(x)), likewise
            return f"{self.exact(name, args)[0]} + {self.error}", SUM
        if self.fast and name in ("tanh", "softcap"):  # tanh.approx.f32: 2 ** -11 of the value
            return f"{self.exact(name, args)[0]} * (1 + 1024 * {self.error})", PRODUCT
        return self.exact(name, args)

    def exact(self, name: str, args: Any) -> tuple[str, int]:
        if name in _TORCH_FUNCTIONS:
            return self.function(_TORCH_FUNCTIONS[name], *args)
        x = self.text(args[0], OR)
        if name == "gelu_tanh":
            # torch's own has 1 + tanh, which cancels in float64 too.
            x = self.text(args[0], UNARY)
            return f"{x} * torch.sigmoid(1.5957691216057308 * ({x} + 0.044715 * {x} * {x} * {x}))", PRODUCT
        if name == "quick_gelu":
            factor = self.text(args[0], UNARY)
            return f"{factor} * torch.sigmoid(1.702 * {factor})", PRODUCT
        if name == "leaky_relu":
            scaled = f"{self.text(args[1], UNARY)} * {self.text(args[0], UNARY)}"
            return self.function("torch.where", f"{self.text(args[0], SUM)} > 0", x, scaled)
        if name == "softcap":
            cap = self.text(args[1], UNARY)
            return f"{cap} * torch.tanh({self.text(args[0], UNARY)} / {cap})", PRODUCT
        if name == "clamp":
            return self.print_extremum("min", [self.extremum("max", args[0], args[1]), self.operand(args[2])])
        operands = [self.operand(a) for a in args]
        return self.print_extremum(name, operands)

    def operand(self, e: Any) -> tuple[str, bool]:
        return self.text(e, OR), self.is_tensor(e)

    def extremum(self, name: str, a: Any, b: Any) -> tuple[str, bool]:
        return self.print_extremum(name, [self.operand(a), self.operand(b)])[0], self.is_tensor(a) or self.is_tensor(b)

    def print_extremum(self, name: str, operands: list[tuple[str, bool]]) -> tuple[str, int]:
        """min or max; torch.maximum takes tensors only, so numbers go through clamp."""
        tensors = [text for text, is_tensor in operands if is_tensor]
        numbers = [text for text, is_tensor in operands if not is_tensor]
        text = tensors[0]
        for other in tensors[1:]:
            text = f"torch.{name}imum({text}, {other})"
        if numbers:
            bound = numbers[0] if len(numbers) == 1 else f"{name}({', '.join(numbers)})"
            text = f"torch.clamp({text}, {'min' if name == 'max' else 'max'}={bound})"
        return text, ATOM

    def _scalar_call(self, name: str, args: Any) -> tuple[str, int]:
        """The function over Python numbers."""
        if name in ("min", "max", "abs"):
            return self.function(name, *args)
        if name in ("exp", "exp2", "log", "log2", "sqrt", "erf", "tanh"):
            return self.function(f"math.{name}", *args)
        if name == "rsqrt":
            return f"1 / math.sqrt({self.text(args[0], OR)})", PRODUCT
        if name == "relu":
            return self.function("max", args[0], "0.0")
        # The rest have no name in `math`: computed by torch on a 0-d tensor.
        lifted = self.function("torch.tensor", args[0], "dtype=torch.float64")[0]
        return _Torch({**self.names, "_lifted": lifted}, self.scalars).call(
            name, (sympy.Symbol("_lifted", real=True), *args[1:])
        )


_TORCH_FUNCTIONS = {
    "relu": "torch.relu",
    "silu": "torch.nn.functional.silu",
    "gelu": "torch.nn.functional.gelu",
    "hardswish": "torch.nn.functional.hardswish",
    "softplus": "torch.nn.functional.softplus",
    "sigmoid": "torch.sigmoid",
    "tanh": "torch.tanh",
    "exp": "torch.exp",
    "exp2": "torch.exp2",
    "log": "torch.log",
    "log2": "torch.log2",
    "sqrt": "torch.sqrt",
    "rsqrt": "torch.rsqrt",
    "erf": "torch.erf",
    "abs": "torch.abs",
}


def _tensor_names(e: Any, scalars: Collection[str]) -> set[str]:
    return {s.name for s in e.free_symbols if not s.is_integer and s.name not in scalars}


def _is_reciprocal(e: Any) -> bool:
    return bool(e.is_Pow and e.exp == -1)


def _sign(term: Any) -> tuple[str, Any]:
    """The sign to print before a term of a sum, and the term without it."""
    if term.is_Mul and term.args[0] == -1:
        rest = term.args[1:]
        return "-", rest[0] if len(rest) == 1 else sympy.Mul(*rest, evaluate=False)
    if term.is_Number and term < 0:
        return "-", -term
    return "+", term
