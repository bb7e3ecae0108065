"""Findings as a SARIF 2.1.0 log (OASIS, Static Analysis Results Interchange Format)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tilegen import __version__, cache
from tilegen.check.report import Report
from tilegen.spec.diagnostic import Diagnostic, Severity
from tilegen.spec.source import Span

if TYPE_CHECKING:
    from tilegen.check.rule import Rule

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVEL = {Severity.ERROR: "error", Severity.SLOW: "warning", Severity.UNDECIDED: "warning", Severity.NOTE: "note"}


def sarif_log(findings: Sequence[tuple[Report, Diagnostic]], *, strict: bool) -> dict[str, Any]:
    """One run of the tool ``tilegen``. ``strict`` raises what is slow or undecided to an error."""
    codes = list(dict.fromkeys(diagnostic.code for _, diagnostic in findings))
    named = {diagnostic.code: diagnostic for _, diagnostic in findings}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "tilegen",
                        "version": __version__,
                        "semanticVersion": __version__,
                        "rules": [_rule(named[code]) for code in codes],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [
                    _result(report, diagnostic, codes.index(diagnostic.code), strict) for report, diagnostic in findings
                ],
            }
        ],
    }


def _rule(diagnostic: Diagnostic) -> dict[str, Any]:
    described: dict[str, Any] = {
        "id": diagnostic.code,
        "name": diagnostic.name,
        "defaultConfiguration": {"level": LEVEL[diagnostic.severity]},
    }
    if diagnostic.code.startswith("TG-"):
        from tilegen.check.rule import find_rule

        rule = find_rule(diagnostic.code)
        if rule is not None:
            described["shortDescription"] = {"text": rule.sentence}
            described["fullDescription"] = {"text": f"{rule.sentence}. {rule.today}".rstrip(". ") + "."}
            described["help"] = {"text": rule_help(rule, mark=""), "markdown": rule_help(rule, mark="**")}
    return described


def rule_help(rule: Rule, *, mark: str) -> str:
    """What a code host shows beside a finding: the rule, what happens without it, its source, and a refused example."""
    from tilegen.check.examples import examples

    parts = [f"{rule.sentence[:1].upper()}{rule.sentence[1:]}."]
    for heading, text in (("Without it", rule.today), ("Measured", rule.cost), ("Source", rule.source)):
        if text:
            parts.append(f"{mark}{heading}:{mark} {text}.")
    refused = next((example for example in examples(rule.id) if example.fails), None)
    if refused is not None:
        change = refused.text.strip("\n")
        fenced = f"```toml\n{change}\n```" if mark else change
        parts.append(f"{mark}Refused{mark}, in the example of {refused.of}:\n\n{fenced}")
        parts.append(f"{mark}Found:{mark} {refused.says}.")
    parts.append(f"tilegen explain {rule.code}")
    return "\n\n".join(parts)


def _fingerprint(kernel: str, diagnostic: Diagnostic) -> str:
    """The same for a finding that only moved: so a code host knows it again when lines above it change."""
    return cache.digest(kernel, diagnostic.code, diagnostic.severity.value, diagnostic.message)


def _result(report: Report, diagnostic: Diagnostic, index: int, strict: bool) -> dict[str, Any]:
    level = LEVEL[diagnostic.severity]
    lines = [diagnostic.message, diagnostic.label, *diagnostic.notes, *(f"help: {line}" for line in diagnostic.help)]
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "ruleIndex": index,
        "level": "error" if strict and level == "warning" else level,
        "message": {"text": "\n".join(line for line in lines if line)},
        "partialFingerprints": {"tilegen/v1": _fingerprint(report.kernel or report.path, diagnostic)},
    }
    if diagnostic.span is not None:
        result["locations"] = [_location(diagnostic.span)]
    if diagnostic.related:
        result["relatedLocations"] = [
            {"id": number, **_location(span), **({"message": {"text": message}} if message else {})}
            for number, (span, message) in enumerate(diagnostic.related)
        ]
    return result


def _location(span: Span) -> dict[str, Any]:
    region = {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(span.file)}, "region": region}}


def _uri(file: str) -> str:
    path = PurePath(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
