"""Layout of the Python that templates print, so that the result is what a formatter would leave alone."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilegen.spec.model import Tolerance

WIDTH = 120


def wrapped(text: str, width: int = WIDTH, indent: str = "") -> list[str]:
    """A sentence in as many lines as it needs, the later ones indented; a path in it is not broken."""
    return textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def filled(text: str) -> str:
    """The same as one text."""
    return "\n".join(wrapped(text))


def tuple_text(items: Sequence[str]) -> str:
    """``("a", "b")`` or ``("a",)``."""
    quoted = [f'"{item}"' for item in items]
    return f"({quoted[0]},)" if len(quoted) == 1 else f"({', '.join(quoted)})"


def values_text(values: Sequence[object]) -> str:
    """``(1, 2)`` or ``(1,)``."""
    return f"({values[0]},)" if len(values) == 1 else str(tuple(values))


def shapes_text(head: str, shapes: Sequence[Sequence[int]]) -> str:
    """``head((1, 2), (3, 4))``, one shape a line where it does not fit."""
    flat = head + values_text([values_text(shape) for shape in shapes]).replace("'", "")
    if len(flat) <= WIDTH:
        return flat
    return f"{head}(\n" + "".join(f"    {values_text(shape)},\n" for shape in shapes) + ")"


def dict_text(pairs: Sequence[tuple[str, str]], indent: int) -> str:
    """``dict(a=1, b=2)``, one pair a line where the whole does not fit after ``return`` at ``indent``."""
    flat = "dict(" + ", ".join(f"{name}={value}" for name, value in pairs) + ")"
    if indent + len("return ") + len(flat) <= WIDTH:
        return flat
    inner = " " * (indent + 4)
    return "dict(\n" + "".join(f"{inner}{name}={value},\n" for name, value in pairs) + " " * indent + ")"


def mapping_text(head: str, pairs: Sequence[tuple[str, str]], indent: int) -> str:
    """``head{"a": x, "b": y}``, one pair a line where it does not fit at ``indent``."""
    flat = f"{head}{{" + ", ".join(f'"{name}": {value}' for name, value in pairs) + "}"
    if indent + len(flat) <= WIDTH:
        return flat
    inner = " " * (indent + 4)
    return f"{head}{{\n" + "".join(f'{inner}"{name}": {value},\n' for name, value in pairs) + " " * indent + "}"


def given_tolerance(tolerance: Tolerance, name: str) -> str:
    """The tolerance that a spec gives, for the tensor ``name``: absolute and relative part, or the one that it gives."""
    parts = [] if tolerance.atol is None else [repr(float(tolerance.atol))]
    if tolerance.rtol is None:
        return f"torch.full_like({name}, {parts[0]})"
    return " + ".join([*parts, f"{float(tolerance.rtol)!r} * {name}.abs()"])


def sum_text(head: str, expression: str, indent: int) -> str:
    """``head`` and an expression, in parentheses with one term of its outermost sum a line where it does not fit."""
    if indent + len(head) + len(expression) <= WIDTH:
        return head + expression
    inner = " " * (indent + 4)
    return f"{head}(\n{inner}" + f"\n{inner}".join(_terms(expression)) + "\n" + " " * indent + ")"


def _terms(expression: str) -> list[str]:
    """The expression cut before each binary plus and minus that is in no brackets."""
    terms, start, depth = [], 0, 0
    for i, character in enumerate(expression):
        depth += (character in "([") - (character in ")]")
        if depth == 0 and expression[i - 1 : i + 2] in (" + ", " - "):
            terms.append(expression[start:i].rstrip())
            start = i
    return [*terms, expression[start:]]


def list_text(head: str, items: Sequence[str], indent: int) -> str:
    """``head[a, b]``, one item a line where it does not fit at ``indent``."""
    flat = f"{head}[{', '.join(items)}]"
    if indent + len(flat) <= WIDTH:
        return flat
    inner = " " * (indent + 4)
    return f"{head}[\n" + "".join(f"{inner}{item},\n" for item in items) + " " * indent + "]"


def call_text(head: str, arguments: Sequence[str], tail: str, indent: int) -> str:
    """``head(arguments)tail``, one argument a line where it does not fit at ``indent``."""
    flat = f"{head}({', '.join(arguments)}){tail}"
    if indent + len(flat) <= WIDTH:
        return flat
    inner = " " * (indent + 4)
    return f"{head}(\n" + "".join(f"{inner}{argument},\n" for argument in arguments) + " " * indent + f"){tail}"


def domain_entry(name: str, condition: str, words: str) -> str:
    """One entry of DOMAIN, broken where it does not fit."""
    flat = f'"{name}": (lambda {name}: {condition}, "{words}"),'
    if 4 + len(flat) <= WIDTH:
        return flat
    return f'"{name}": (\n        lambda {name}: {condition},\n        "{words}",\n    ),'


def all_text(head: str, names: Sequence[str]) -> str:
    """``head["a", "b"]`` with the names sorted as linters sort ``__all__``."""
    return list_text(head, [f'"{name}"' for name in sorted(names)], 0)


def condition_text(head: str, terms: Sequence[str], word: str, tail: str, indent: int) -> str:
    """``head(a and b)tail``; the terms below it where they do not fit, one a line where these do not fit either."""
    flat = f" {word} ".join(terms)
    if indent + len(f"{head}({flat}){tail}") <= WIDTH:
        return f"{head}({flat}){tail}"
    inner = " " * (indent + 4)
    if len(inner) + len(flat) > WIDTH:
        flat = f"\n{inner}{word} ".join(terms)
    return f"{head}(\n{inner}{flat}\n" + " " * indent + f"){tail}"


def attribute_text(name: str, attribute: str) -> str:
    """``name.attribute``."""
    return f"{name}.{attribute}"
