"""What ``tilegen explain FILE:LINE`` prints."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from tilegen.cli._terminal import bold
from tilegen.review.origin.lines import Cause
from tilegen.review.origin.place import Placed, PlaceError, placed
from tilegen.review.origin.rules import RuleBehind, rules_behind


def explain_places(places: Sequence[str], spec: Path | None, form: str) -> None:
    """Prints the origin of each place. Ends with a usage error where one cannot be explained."""
    try:
        found = [placed(place, spec) for place in places]
    except PlaceError as error:
        raise click.UsageError(str(error)) from None
    behind = [rules_behind(entry.spec, entry.origin) if entry.origin else [] for entry in found]
    if form == "json":
        entries = [_as_json(entry, rules) for entry, rules in zip(found, behind, strict=True)]
        click.echo(json.dumps(entries, indent=2))
        return
    pages = ["\n".join(_text(entry, rules)) for entry, rules in zip(found, behind, strict=True)]
    click.echo("\n\n".join(pages))


def _text(entry: Placed, rules: list[RuleBehind]) -> Iterator[str]:
    yield bold(f"{entry.file}:{entry.line}", sys.stdout)
    yield f"    {entry.text.strip()}"
    yield ""
    if entry.support:
        yield f"{entry.file.name} is the same beside every kernel: no line of the spec decides it."
        return
    if entry.origin is None:
        yield f"This line is not what {entry.spec.path} renders to: it was written by hand."
        return
    yield from _words(entry)
    shown = _shown(entry)
    for line, text, reasons in shown:
        yield f"  {line}"
        yield f"      {text}"
        yield f"      {reasons}"
    for cause in entry.origin.causes:
        if cause.span is None:
            yield f"  {cause.path}: {cause.why}"
    if not entry.origin.causes and entry.origin.docstring:
        yield f"A line of the docstring: the header, or a budget, which the plans come to: `tilegen show {entry.spec.kernel}`."
    elif not entry.origin.causes:
        yield f"No line of {entry.spec.path} decides it: the template of the family prints it for every spec."
    if rules:
        yield ""
        yield "Rules that hold these lines" + (
            f", and speak of {entry.origin.construct.what}:" if entry.origin.construct else ":"
        )
        width = max(len(behind.rule.name) for behind in rules)
        for behind in rules:
            settled = ", ".join(f"{count} {word}" for word, count in behind.settled.items())
            yield f"  {behind.rule.code:<7} {behind.rule.name:<{width}}  {settled}: {behind.rule.sentence}"


def _words(entry: Placed) -> Iterator[str]:
    origin = entry.origin
    assert origin is not None
    what = [origin.construct.what] if origin.construct else []
    if origin.schedule:
        what.append(f"in schedule `{origin.schedule}`, on {', '.join(origin.archs)}")
    if what:
        yield " ".join(what)[:1].upper() + " ".join(what)[1:] + "."
    if any(cause.span for cause in origin.causes):
        yield "Decided by:"


def _shown(entry: Placed) -> list[tuple[str, str, str]]:
    """Each line of the spec once: its place, its text, and why, in the order of the causes."""
    assert entry.origin is not None
    by_place: dict[tuple[str, int], list[Cause]] = {}
    for cause in entry.origin.causes:
        if cause.span is not None:
            by_place.setdefault((cause.span.file, cause.span.line), []).append(cause)
    texts = {file: Path(file).read_text(encoding="utf-8").split("\n") for file, _ in by_place}
    return [
        (
            f"{file}:{number}",
            texts[file][number - 1].strip(),
            "; ".join(dict.fromkeys(f"{cause.path}: {cause.why}" for cause in causes)),
        )
        for (file, number), causes in by_place.items()
    ]


def _as_json(entry: Placed, rules: list[RuleBehind]) -> dict[str, Any]:
    origin = entry.origin
    return {
        "file": str(entry.file),
        "line": entry.line,
        "text": entry.text,
        "spec": entry.spec.path,
        "generated": origin is not None,
        "construct": origin.construct.what if origin and origin.construct else "",
        "schedule": origin.schedule if origin else "",
        "targets": list(origin.archs) if origin else [],
        "causes": [
            {
                "path": cause.path,
                "file": cause.span.file if cause.span else None,
                "line": cause.span.line if cause.span else None,
                "why": cause.why,
            }
            for cause in (origin.causes if origin else ())
        ],
        "rules": [
            {"code": behind.rule.code, "name": behind.rule.name, "settled": dict(behind.settled)} for behind in rules
        ],
    }
