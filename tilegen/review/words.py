"""Parts of a spec in words: domains, tile rules, numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tilegen.spec.model import Dim, Spec


def domain_words(dim: Dim) -> str:
    """The domain of a dim: its listed values, its range, and its condition."""
    ranged = []
    if dim.min is not None or dim.max is not None or dim.dynamic:
        ranged.append(f"{dim.min or 1:,} to {dim.max:,}" if dim.max is not None else f"{dim.min or 1:,} and up")
    if dim.multiple_of not in (None, 1):
        ranged.append(f"multiples of {dim.multiple_of}")
    if dim.also is not None:
        ranged.append(f"all with {dim.also_text}")
    parts = [", ".join(map(str, dim.values))] if dim.values else []
    if ranged:
        parts.append(", ".join(ranged))
    return ("dynamic, " if dim.dynamic else "") + (", tested at " if dim.dynamic else "; and ").join(
        reversed(parts) if dim.dynamic else parts
    )


def rule_words(spec: Spec, arch: str) -> dict[str, tuple[str, ...]]:
    """The tile parameters that a spec gives on a target, each with its rules in order."""
    return {
        name: tuple(rule.use_text + (f" where {rule.when_text}" if rule.when_text else "") for rule in value.rules)
        for name, value in spec.tile_for(arch).items()
    }


def shape_words(shape: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in shape.items())


def count_words(count: int, one: str, many: str = "") -> str:
    """``1 kernel``, ``3 kernels``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def joined(words: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *most, last = list(words) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def printable(text: str) -> str:
    """The text on one line without what steers a terminal or turns the order of letters: a spec may come from anyone."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def number_words(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    return f"{value:,}" if isinstance(value, int) else str(value)
