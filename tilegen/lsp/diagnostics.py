"""Findings as the protocol has them: zero-based ranges in the units of the client."""

from __future__ import annotations

from lsprotocol import types
from pygls.uris import from_fs_path
from pygls.workspace import TextDocument

from tilegen.check.formats import plain
from tilegen.spec.diagnostic import Diagnostic, Severity
from tilegen.spec.source import Span

SEVERITY = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.SLOW: types.DiagnosticSeverity.Warning,
    Severity.UNDECIDED: types.DiagnosticSeverity.Warning,
    Severity.NOTE: types.DiagnosticSeverity.Information,
}


def lsp_diagnostic(found: Diagnostic, document: TextDocument) -> types.Diagnostic:
    """One finding: message, arithmetic, counterexample and mends, on its place."""
    related = [
        types.DiagnosticRelatedInformation(
            types.Location(from_fs_path(span.file) or document.uri, span_range(span, document)),
            message or "takes part in this",
        )
        for span, message in found.related
    ]
    return types.Diagnostic(
        range=span_range(found.span, document),
        severity=SEVERITY[found.severity],
        code=found.code,
        source="tilegen",
        message=plain(found),
        related_information=related or None,
    )


def span_range(span: Span | None, document: TextDocument) -> types.Range:
    """The range of a span; the first character where a finding has none."""
    if span is None:
        return types.Range(types.Position(0, 0), types.Position(0, 1))
    whole = types.Range(
        types.Position(span.line - 1, span.column - 1), types.Position(span.end_line - 1, span.end_column - 1)
    )
    return document.position_codec.range_to_client_units(document.lines, whole)
