"""What tilegen says about a spec, and the two forms it is said in: text for people, dicts for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from textwrap import wrap
from typing import Any

from tilegen.spec.source import Span


class Severity(StrEnum):
    """How bad a finding is: `error` stops a build, `slow` and `note` do not, `undecided` is not settled either way."""

    ERROR = "error"
    SLOW = "slow"
    NOTE = "note"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Diagnostic:
    """One finding.

    `code` is a rule id ("TG-C2") or the slug of a spec error ("spec-unknown-key"); `label` stands under the caret and
    may have several lines; `notes` are facts, `help` are mends, `see` says where to read more, `related` are other
    places.
    """

    code: str
    name: str
    severity: Severity
    message: str
    span: Span | None
    label: str = ""
    notes: tuple[str, ...] = ()
    help: tuple[str, ...] = ()
    see: str = ""
    related: tuple[tuple[Span, str], ...] = ()


class SpecError(Exception):
    """A spec that cannot be used; `diagnostics` says why, in the order of the file."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("; ".join(f"{d.span}: {d.message}" if d.span else d.message for d in self.diagnostics))


_COLOR = {
    Severity.ERROR: "1;31",
    Severity.SLOW: "1;33",
    Severity.NOTE: "1;36",
    Severity.UNDECIDED: "1;35",
}
_FRAME = "1;34"

WIDTH = 112
"""Columns that a finding is wrapped to; source lines are shown as they are."""

MIN_LABEL = 44
"""Columns that a label needs to stand beside its caret."""


def render_text(diagnostics: Iterable[Diagnostic], *, color: bool = False) -> str:
    """The diagnostics as text, one block each, with the source line and a caret. Reads the lines from the files."""
    sources: dict[str, list[str]] = {}
    return "\n\n".join(_block(d, sources, color) for d in diagnostics)


def to_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """The diagnostic as plain data; keys are always present, absent places are None."""
    return {
        "code": diagnostic.code,
        "name": diagnostic.name,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "span": _span_json(diagnostic.span),
        "label": diagnostic.label,
        "notes": list(diagnostic.notes),
        "help": list(diagnostic.help),
        "see": diagnostic.see,
        "related": [{"span": _span_json(span), "message": message} for span, message in diagnostic.related],
    }


def from_json(data: Mapping[str, Any]) -> Diagnostic:
    """The diagnostic that :func:`to_json` wrote. KeyError, TypeError or ValueError for anything else."""
    return Diagnostic(
        code=data["code"],
        name=data["name"],
        severity=Severity(data["severity"]),
        message=data["message"],
        span=_span(data["span"]),
        label=data["label"],
        notes=tuple(data["notes"]),
        help=tuple(data["help"]),
        see=data["see"],
        related=tuple((Span(**entry["span"]), entry["message"]) for entry in data["related"]),
    )


def _span(data: Mapping[str, Any] | None) -> Span | None:
    return None if data is None else Span(**data)


def _span_json(span: Span | None) -> dict[str, Any] | None:
    if span is None:
        return None
    return {
        "file": span.file,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }


def _block(d: Diagnostic, sources: dict[str, list[str]], color: bool) -> str:
    def paint(text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if color else text

    bar, arrow, mark = (paint(text, _FRAME) for text in ("|", "-->", "="))
    spans = [s for s in (d.span, *(s for s, _ in d.related)) if s is not None]
    width = max((len(str(s.line)) for s in spans), default=1)
    # A spec error's code already says its name.
    name = "" if d.code.endswith(d.name) else f" {d.name}"
    lines = [paint(f"{d.severity.value}[{d.code}]{name}", _COLOR[d.severity]) + f": {d.message}"]
    if d.span is not None:
        near = [(s, label) for s, label in d.related if s.file == d.span.file and s.line != d.span.line]
        lines += [f"{' ' * width}{arrow} {d.span}", *_excerpt(d.span, d.label, near, sources, width, bar)]
    tail = [*d.notes, *(f"help: {h}" for h in d.help)]
    if d.see:
        tail.append(f"see: {d.see}")
    for text in tail:
        first, *rest = _wrapped(text, WIDTH - width - 3)
        lines.append(f"{' ' * width} {mark} {first}")
        lines += [f"{' ' * width}   {line}" for line in rest]
    return "\n".join(lines)


def _excerpt(
    span: Span, label: str, related: list[tuple[Span, str]], sources: dict[str, list[str]], width: int, bar: str
) -> list[str]:
    """The source line with a caret and its label, among the other lines that take part."""
    margin = " " * width
    if _source_line(span, sources) is None:
        return [f"{margin} {bar} {text}" for text in label.split("\n") if text]
    lines = [f"{margin} {bar}"]
    for place, text, sign in sorted(
        [(span, label, "^"), *((s, t, "-") for s, t in related)], key=lambda entry: entry[0]
    ):
        source = _source_line(place, sources) or ""
        lines.append(f"{place.line:>{width}} {bar} {_printable(source)}".rstrip())
        if text or sign == "^":
            lines += [f"{margin} {bar} {line}".rstrip() for line in _marked(place, text, sign, source)]
    return lines


def _marked(span: Span, label: str, sign: str, source: str) -> list[str]:
    """The line of signs under a span, with its label beside them, or below where there is no room."""
    last = span.end_column if span.end_line == span.line else len(source) + 1
    indent = " " * (span.column - 1)
    signs = indent + sign * max(1, min(last, len(source) + 1) - span.column)
    room = WIDTH - len(signs) - 6
    if room < MIN_LABEL:
        return [
            signs,
            *(indent[: WIDTH // 3] + text for text in _wrapped(label, WIDTH - len(indent[: WIDTH // 3]) - 6)),
        ]
    first, *rest = _wrapped(label, room)
    return [f"{signs} {first}", *(f"{' ' * len(signs)} {text}" for text in rest)]


def _wrapped(text: str, width: int) -> list[str]:
    return [
        line
        for part in text.split("\n")
        for line in wrap(part, width, break_long_words=False, break_on_hyphens=False) or [""]
    ]


def _source_line(span: Span, sources: dict[str, list[str]]) -> str | None:
    if span.file not in sources:
        try:
            text = Path(span.file).read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = ""
        sources[span.file] = text.split("\n")
    lines = sources[span.file]
    return lines[span.line - 1].rstrip("\r") if 1 <= span.line <= len(lines) else None


def _printable(line: str) -> str:
    """The line with control characters shown as one blank each, so that columns hold and a terminal is not steered."""
    return "".join(c if c.isprintable() else " " for c in line)
