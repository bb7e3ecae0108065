"""Layout of the Python that templates print, so that the result is what a formatter would leave alone."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH = 120


def tuple_text(items: Sequence[str]) -> str:
    """``("a", "b")`` or ``("a",)``."""
    quoted = [f'"{item}"' for item in items]
    return f"({quoted[0]},)" if len(quoted) == 1 else f"({', '.join(quoted)})"


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
