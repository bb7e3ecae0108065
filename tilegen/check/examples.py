"""Examples of every rule: small changes to a family's example spec, of which some obey the rule and some break it.

They stand beside the rules, in one TOML file for each file of rules, as an array of tables by rule id::

    [[D3.fail]]
    of = "gemm"
    tile = { BLOCK_M = 96, threads = 160 }
    says = "5 warps cannot share 96 x 256"
    at = "tile.threads"
    related = ["tile.BLOCK_M", "tile.BLOCK_N"]

``of`` names the family, or family/variant. ``says`` is part of the arithmetic that the finding must show, ``at`` the spec
path that it points to, and ``related`` the others that may take part. Every other key is a table of a spec: its entries
replace those of the family's example. ``tilegen explain`` prints the examples, and a test checks every one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "rules"
NOT_SPEC = frozenset({"of", "says", "at", "related"})
REPLACED = frozenset({"target"})
"""Tables of which an example names everything; of others it names what it changes."""


@dataclass(frozen=True)
class Example:
    """``change`` maps tables of a spec to the entries that replace, or join, those of the family's example."""

    rule: str
    fails: bool
    of: str
    change: Mapping[str, Any]
    says: str
    at: str = ""
    related: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The change, as it stands in a spec."""
        return to_toml(self.change)

    def spec(self) -> bytes:
        """The whole spec of the example."""
        return to_toml({**_header(self.of), **_changed(_base(self.of), self.change)}).encode()


def examples(rule_id: str) -> tuple[Example, ...]:
    """The examples of rule ``TG-<rule_id>``: those that obey it first."""
    return tuple(sorted((example for example in all_examples() if example.rule == rule_id), key=lambda e: e.fails))


@cache
def all_examples() -> tuple[Example, ...]:
    return tuple(example for file in sorted(FOLDER.glob("*.toml")) for example in _read(file))


def _read(file: Path) -> Iterator[Example]:
    for rule, kinds in tomllib.loads(file.read_text(encoding="utf-8")).items():
        for kind, entries in kinds.items():
            if kind not in ("pass", "fail"):
                raise ValueError(f"{file.name}: {rule}.{kind} is neither pass nor fail")
            for entry in entries:
                change = {key: value for key, value in entry.items() if key not in NOT_SPEC}
                says, at, related = entry.get("says", ""), entry.get("at", ""), tuple(entry.get("related", ()))
                yield Example(rule, kind == "fail", entry["of"], change, says, at, related)


def _header(of: str) -> dict[str, Any]:
    family, _, variant = of.partition("/")
    return {"kernel": "example", "family": family} | ({"variant": variant} if variant else {})


@cache
def _base(of: str) -> Mapping[str, Any]:
    from tilegen import families

    family, _, variant = of.partition("/")
    section = families.section(family)
    section = section.variants[variant] if variant else section
    return tomllib.loads(section.example)


def _changed(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    tables = dict(base)
    for name, table in change.items():
        merges = isinstance(table, dict) and name not in REPLACED and isinstance(tables.get(name), dict)
        merged = {**tables[name], **table} if merges else table
        tables[name] = {key: value for key, value in merged.items() if value != "drop"} if merges else merged
    return tables


def to_toml(spec: Mapping[str, Any]) -> str:
    """A spec as TOML: plain keys first, then one table after the other."""
    lines = [f"{key} = {_value(value)}" for key, value in spec.items() if not isinstance(value, dict)]
    for key, table in spec.items():
        if isinstance(table, dict):
            lines += (
                _table((key,), table)
                if key != "target"
                else [line for n, t in table.items() for line in _table((key, n), t)]
            )
    return "\n".join(lines).strip("\n") + "\n"


def _table(path: tuple[str, ...], table: Mapping[str, Any]) -> list[str]:
    return ["", f"[{'.'.join(path)}]", *(f"{key} = {_value(value)}" for key, value in table.items())]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}'" if '"' in value else f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(entry)}" for key, entry in value.items()) + " }" if value else "{}"
    return str(value)
