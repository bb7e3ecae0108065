"""What stands under the cursor, explained: a finding's rule, a rule by its name, or a key of the language."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from tilegen.check.sarif import rule_help
from tilegen.spec.diagnostic import Diagnostic, SpecError
from tilegen.spec.document import Path, parse_document
from tilegen.spec.source import Span

_CODE = re.compile(r"TG-[A-Z][0-9]{1,3}")


def hover_text(text: str, line: int, column: int, found: Sequence[Diagnostic]) -> str:
    """Markdown for a place, counted from 1; empty where there is nothing to say."""
    named = _rule_named(text, line, column)
    if named:
        return named
    parts = [_finding(entry) for entry in found if entry.span is not None and _covers(entry.span, line, column)]
    key = _key(text, line, column)
    return "\n\n---\n\n".join([*dict.fromkeys(parts), *([key] if key else [])])


def _rule_named(text: str, line: int, column: int) -> str:
    """The help of a rule whose code the cursor is on, in ``[allow]`` or in a comment."""
    lines = text.split("\n")
    source = lines[line - 1] if line <= len(lines) else ""
    for match in _CODE.finditer(source):
        if match.start() < column <= match.end() + 1:
            return rule_markdown(match[0])
    return ""


def rule_markdown(code: str) -> str:
    """The help of a rule under its name; empty for a code that is no rule."""
    from tilegen.check.rule import find_rule

    rule = find_rule(code)
    return (
        "" if rule is None else f"**{rule.code} {rule.name}** ({rule.severity.value})\n\n{rule_help(rule, mark='**')}"
    )


def _finding(found: Diagnostic) -> str:
    return rule_markdown(found.code) or f"**{found.code}**: {found.message}"


def _covers(span: Span, line: int, column: int) -> bool:
    return (span.line, span.column) <= (line, column) <= (span.end_line, span.end_column)


def _key(text: str, line: int, column: int) -> str:
    """The description of the key under the cursor, as the JSON schema gives it."""
    try:
        document = parse_document(text.encode(), "")
    except SpecError:
        return ""
    under = [
        path
        for path, place in document.places.items()
        if isinstance(path[-1], str) and (_covers(place.key, line, column) or _covers(place.value, line, column))
    ]
    if not under:
        return ""
    path = max(under, key=len)
    family, variant = document.values.get("family"), document.values.get("variant")
    described = _described(path, str(family), str(variant) if variant else None)
    return f"`{'.'.join(str(part) for part in path if isinstance(part, str))}`: {described}" if described else ""


@cache
def _described(path: Path, family: str, variant: str | None) -> str:
    root = _schema()
    for alternative in root["oneOf"]:
        properties = alternative["properties"]
        if properties["family"].get("enum") != [family]:
            continue
        if properties.get("variant", {}).get("enum", [None]) != [variant]:
            continue
        nodes = [alternative]
        for part in path:
            nodes = [child for node in nodes for child in _children(node, part, root)]
        return next((text for node in nodes if (text := _description(node, root))), "")
    return ""


@cache
def _schema() -> dict[str, Any]:
    from tilegen.spec.schema import schema

    return schema()


def _children(node: dict[str, Any], part: str | int, root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schemas of one step down, by name, by pattern, or of the entries of a list."""
    for form in _forms(node, root):
        if isinstance(part, int):
            if isinstance(form.get("items"), dict):
                yield form["items"]
            continue
        if part in form.get("properties", {}):
            yield form["properties"][part]
        for pattern, child in form.get("patternProperties", {}).items():
            if re.search(pattern, part):
                yield child
        if isinstance(form.get("additionalProperties"), dict):
            yield form["additionalProperties"]


def _forms(node: dict[str, Any], root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema and those that it refers to or offers as choices."""
    yield node
    if "$ref" in node:
        name = node["$ref"].removeprefix("#/definitions/")
        yield from _forms(root["definitions"][name], root)
    for key in ("allOf", "anyOf", "oneOf"):
        for inner in node.get(key, []):
            yield from _forms(inner, root)


def _description(node: dict[str, Any], root: dict[str, Any]) -> str:
    return next((str(form["description"]) for form in _forms(node, root) if "description" in form), "")
