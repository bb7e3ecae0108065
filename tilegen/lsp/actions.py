"""Mends as edits: the nearest legal values, and the words that were likely meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lsprotocol import types
from pygls.workspace import TextDocument

from tilegen.lsp.diagnostics import lsp_diagnostic, span_range
from tilegen.spec.diagnostic import Diagnostic

_VALUES = re.compile(r"(?P<values>[0-9]+(?: and [0-9]+)*) (?:is|are) the nearest legal values? of (?P<name>\w+)")
_MEANT = re.compile(r"did you mean `(?P<word>\w+)`\?")
_NUMBER = re.compile(r"[0-9][0-9_]*")
_WORD = re.compile(r"""(?P<quote>["']?)\w+(?P=quote)""")


def edits(document: TextDocument, where: types.Range, found: Sequence[Diagnostic]) -> list[types.CodeAction]:
    """One quick fix for each value that ends a finding in the range alone. Only plain values are replaced: what an
    expression should say is for its author.
    """
    actions = []
    for entry in found:
        if entry.span is None or not _meets(span_range(entry.span, document), where):
            continue
        for title, text in _replacements(entry, document):
            change = types.TextEdit(span_range(entry.span, document), text)
            actions.append(
                types.CodeAction(
                    title,
                    kind=types.CodeActionKind.QuickFix,
                    diagnostics=[lsp_diagnostic(entry, document)],
                    edit=types.WorkspaceEdit(changes={document.uri: [change]}),
                )
            )
    return actions


def _replacements(found: Diagnostic, document: TextDocument) -> Iterator[tuple[str, str]]:
    """What to call each mend, and the text in place of the finding's own."""
    now = _text(found, document)
    for line in found.help:
        values, meant = _VALUES.match(line), _MEANT.search(line)
        if values and _NUMBER.fullmatch(now):
            for value in values["values"].split(" and "):
                yield f"{values['name']} = {value}", value
        elif meant and (word := _WORD.fullmatch(now)):
            quote = word["quote"]
            yield f"`{meant['word']}`", f"{quote}{meant['word']}{quote}"


def _text(found: Diagnostic, document: TextDocument) -> str:
    span = found.span
    if span is None or span.line != span.end_line or span.line > len(document.lines):
        return ""
    return document.lines[span.line - 1][span.column - 1 : span.end_column - 1]


def _meets(first: types.Range, second: types.Range) -> bool:
    def key(position: types.Position) -> tuple[int, int]:
        return position.line, position.character

    return key(first.start) <= key(second.end) and key(second.start) <= key(first.end)
