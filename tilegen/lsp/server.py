"""The server: one thread checks, the newest text of each document first; what is out of date is not shown."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from tilegen import __version__
from tilegen.check.report import report_of
from tilegen.lsp.actions import edits
from tilegen.lsp.diagnostics import lsp_diagnostic
from tilegen.lsp.hover import hover_text
from tilegen.spec.diagnostic import Diagnostic
from tilegen.spec.find import lock_bytes

PAUSE = 0.2
"""Seconds without a key before a text is checked."""

_SPEC_KEYS = (re.compile(r"^\s*kernel\s*=", re.MULTILINE), re.compile(r"^\s*family\s*=", re.MULTILINE))


class SpecServer(LanguageServer):
    """Keeps the findings of each open document, with the version of the text that they belong to."""

    def __init__(self) -> None:
        super().__init__("tilegen", __version__, text_document_sync_kind=types.TextDocumentSyncKind.Full)
        self.found: dict[str, tuple[int | None, tuple[Diagnostic, ...]]] = {}
        # Proofs share a solver, which is one thread's alone.
        self.checker = ThreadPoolExecutor(1, thread_name_prefix="check")

    async def check(self, uri: str) -> None:
        """Checks the text of a document and publishes what is found, unless a newer text has come meanwhile."""
        document = self.workspace.get_text_document(uri)
        version, text = document.version, document.source
        if not is_spec(text):
            self._publish(uri, version, ())
            return
        loop = asyncio.get_running_loop()
        path = to_fs_path(uri) or uri
        report = await loop.run_in_executor(self.checker, report_of, path, text.encode(), lock_bytes(Path(path)))
        if self._is_current(uri, version):
            self._publish(uri, version, report.diagnostics)

    async def check_soon(self, uri: str) -> None:
        version = self.workspace.get_text_document(uri).version
        await asyncio.sleep(PAUSE)
        if self._is_current(uri, version):
            await self.check(uri)

    def _is_current(self, uri: str, version: int | None) -> bool:
        document = self.workspace.text_documents.get(uri)
        return document is not None and document.version == version

    def _publish(self, uri: str, version: int | None, found: tuple[Diagnostic, ...]) -> None:
        self.found[uri] = version, found
        document = self.workspace.get_text_document(uri)
        shown = [lsp_diagnostic(entry, document) for entry in found]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, shown, version))

    def findings(self, uri: str) -> tuple[Diagnostic, ...]:
        """What was found in the text as it is now; nothing where the text has changed since."""
        version, found = self.found.get(uri, (None, ()))
        return found if self._is_current(uri, version) else ()


def is_spec(text: str) -> bool:
    """Whether a TOML text is a spec: it declares a kernel and a family, if only half written."""
    return all(key.search(text) for key in _SPEC_KEYS)


def server() -> SpecServer:
    """A server with all that it can do, not yet started."""
    made = SpecServer()

    @made.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def opened(server: SpecServer, params: types.DidOpenTextDocumentParams) -> None:
        await server.check(params.text_document.uri)

    @made.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(server: SpecServer, params: types.DidChangeTextDocumentParams) -> None:
        await server.check_soon(params.text_document.uri)

    @made.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(server: SpecServer, params: types.DidCloseTextDocumentParams) -> None:
        server.found.pop(params.text_document.uri, None)
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))

    @made.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(server: SpecServer, params: types.HoverParams) -> types.Hover | None:
        document = server.workspace.get_text_document(params.text_document.uri)
        if not is_spec(document.source):
            return None
        at = document.position_codec.position_from_client_units(document.lines, params.position)
        text = hover_text(document.source, at.line + 1, at.character + 1, server.findings(params.text_document.uri))
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text)) if text else None

    @made.feature(
        types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
    )
    def actions(server: SpecServer, params: types.CodeActionParams) -> list[types.CodeAction]:
        document = server.workspace.get_text_document(params.text_document.uri)
        return edits(document, params.range, server.findings(params.text_document.uri))

    return made
