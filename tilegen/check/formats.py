"""Reports in the forms that people, programs and code hosts read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

from tilegen.check.report import Report
from tilegen.check.sarif import sarif_log
from tilegen.spec.diagnostic import Diagnostic, Severity, render_text

NOUN = {
    Severity.ERROR: ("error", "errors"),
    Severity.SLOW: ("slow", "slow"),
    Severity.UNDECIDED: ("undecided", "undecided"),
    Severity.NOTE: ("note", "notes"),
}


def text(reports: Sequence[Report], *, strict: bool, color: bool = False) -> str:
    """Every finding with its source line, then one line for each spec."""
    blocks = [render_text(report.diagnostics, color=color) for report in reports if report.diagnostics]
    return "\n\n".join([*blocks, "\n".join(summary(report, strict=strict) for report in reports)]) + "\n"


def summary(report: Report, *, strict: bool) -> str:
    """One line: the spec, whether it passes, its findings and its proofs."""
    word = "fails" if report.fails(strict) else "passes"
    counts = [
        f"{count} {NOUN[severity][count > 1]}"
        for severity in Severity
        if (count := sum(diagnostic.severity is severity for diagnostic in report.diagnostics))
    ]
    if report.plans:
        rules = sum(1 for row in report.rules.values() if any(row.values()))
        counts.append(f"{report.proved} of {report.proved + report.refuted + report.undecided} obligations proved")
        counts.append(f"{rules} rules over {report.plans} plan{'s' if report.plans != 1 else ''}")
    if report.winners:
        counts.append(f"{report.winners} winner{'s' if report.winners != 1 else ''} of {report.lock} among them")
    return f"{report.path}: {report.kernel + ' ' if report.kernel else ''}{word}; {', '.join(counts)}"


def as_json(reports: Sequence[Report], *, strict: bool) -> str:
    """One object: the specs in order, each with its diagnostics, and whether all pass."""
    value = {
        "version": 1,
        "ok": not any(report.fails(strict) for report in reports),
        "specs": [{**report.to_json(), "ok": not report.fails(strict)} for report in reports],
    }
    return json.dumps(value, indent=2) + "\n"


def github(reports: Sequence[Report], *, strict: bool) -> str:
    """Workflow commands: GitHub shows each finding on its line of the pull request."""
    return "".join(f"{_github_line(diagnostic, strict)}\n" for _, diagnostic in findings(reports))


def _github_line(diagnostic: Diagnostic, strict: bool) -> str:
    failing = diagnostic.severity is Severity.ERROR or (strict and diagnostic.severity is not Severity.NOTE)
    level = "error" if failing else "notice" if diagnostic.severity is Severity.NOTE else "warning"
    properties = {"title": title(diagnostic)}
    if diagnostic.span is not None:
        span = diagnostic.span
        properties |= {
            "file": span.file,
            "line": str(span.line),
            "endLine": str(span.end_line),
            "col": str(span.column),
        }
        if span.line == span.end_line:
            properties["endColumn"] = str(max(span.column, span.end_column - 1))
    given = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    return f"::{level} {given}::{_escaped(plain(diagnostic))}"


def _escaped(text: str, more: str = "") -> str:
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def markdown(reports: Sequence[Report], *, strict: bool) -> str:
    """A table of the specs, then the findings as a list: for a pull request's comment."""
    lines = ["| spec | kernel | result | proved | refuted | undecided |", "|---|---|---|---:|---:|---:|"]
    for report in reports:
        word = "fails" if report.fails(strict) else "passes"
        lines.append(
            f"| {_cell(report.path)} | {report.kernel or '?'} | {word} | {report.proved} | {report.refuted} "
            f"| {report.undecided} |"
        )
    for _, diagnostic in findings(reports):
        place = f" `{diagnostic.span}`" if diagnostic.span else ""
        lines += ["", f"**{diagnostic.severity.value}** {title(diagnostic)}:{place}", "", _fence(plain(diagnostic))]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return "`" + text.replace("|", "\\|").replace("`", "'") + "`"


def _fence(text: str) -> str:
    ticks = "```"
    while ticks in text:
        ticks += "`"
    return f"{ticks}text\n{text}\n{ticks}"


def as_sarif(reports: Sequence[Report], *, strict: bool) -> str:
    """A SARIF 2.1.0 log, for code scanning."""
    return json.dumps(sarif_log(list(findings(reports)), strict=strict), indent=2) + "\n"


def findings(reports: Sequence[Report]) -> Iterator[tuple[Report, Diagnostic]]:
    for report in reports:
        for diagnostic in report.diagnostics:
            yield report, diagnostic


def title(diagnostic: Diagnostic) -> str:
    """The code and, where the code does not say it, the name."""
    return diagnostic.code if diagnostic.code.endswith(diagnostic.name) else f"{diagnostic.code} {diagnostic.name}"


def plain(diagnostic: Diagnostic) -> str:
    """Message, arithmetic, facts and mends, without the source excerpt."""
    lines = [diagnostic.message, *([diagnostic.label] if diagnostic.label else []), *diagnostic.notes]
    lines += [f"help: {line}" for line in diagnostic.help]
    return "\n".join(lines)


FORMATS: dict[str, Callable[..., str]] = {
    "text": text,
    "json": as_json,
    "github": github,
    "sarif": as_sarif,
    "markdown": markdown,
}
