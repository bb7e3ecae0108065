"""What a spec file says, as far as TOML goes: enough to tell which kernel it is without loading it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=4096)
def _values(content: bytes) -> dict[str, Any] | None:
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def kernel_name(content: bytes) -> str:
    """The kernel that a spec declares; empty where it cannot be read, or declares none that may be a folder."""
    name = (_values(content) or {}).get("kernel")
    return name if isinstance(name, str) and name.isidentifier() else ""


def is_toml(content: bytes) -> bool:
    """Whether the file can be read as TOML at all."""
    return _values(content) is not None


def differing_values(first: bytes, second: bytes) -> list[tuple[str, Any, Any]]:
    """Every place of two TOML files with different values: its path and both values, None for one that is not there."""
    return list(_differing("", _values(first) or {}, _values(second) or {}))


def _differing(path: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys((*old, *new)):
            yield from _differing(f"{path}.{name}" if path else name, old.get(name), new.get(name))
    elif old != new:
        yield path, old, new


def same_values(first: bytes, second: bytes) -> bool:
    """Whether two files hold the same TOML values: they differ in comments and layout only."""
    values = _values(first)
    return values is not None and values == _values(second) and repr(values) == repr(_values(second))


def same_but_for_the_name(first: bytes, second: bytes) -> bool:
    """Whether two specs say the same, in the same order, but for the name of the kernel."""
    old, new = _values(first), _values(second)
    if old is None or new is None:
        return False
    return repr({**old, "kernel": ""}) == repr({**new, "kernel": ""})


def likeness(first: bytes, second: bytes) -> float:
    """The share of values that two specs have in common, from 0 to 1, the kernel's name aside."""
    leaves = [dict(_leaves("", {**(_values(content) or {}), "kernel": ""})) for content in (first, second)]
    same = sum(path in leaves[1] and leaves[1][path] == value for path, value in leaves[0].items())
    return float(same / max(1, *map(len, leaves)))


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, entry in value.items():
            yield from _leaves(f"{path}.{name}", entry)
    else:
        yield path, value
