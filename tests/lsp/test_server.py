"""The language server as an editor runs it: a process, spoken to over stdio."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from tests.review.history import LINEAR

ROOT = Path(__file__).parents[2]
URI = "file:///project/specs/linear.toml"
TIMEOUT = 60


class Editor:
    """A client that remembers what the server published."""

    def __init__(self) -> None:
        self.client = LanguageClient("editor", "1")
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.version = 0

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def keep(params: types.PublishDiagnosticsParams) -> None:
            self.published.put_nowait(params)

    async def open(self, text: str, uri: str = URI) -> list[types.Diagnostic]:
        self.version += 1
        item = types.TextDocumentItem(uri=uri, language_id="toml", version=self.version, text=text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return await self.findings()

    def change(self, text: str) -> None:
        self.version += 1
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(version=self.version, uri=URI),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )

    async def findings(self) -> list[types.Diagnostic]:
        """What is published for the newest text."""
        while True:
            params = await asyncio.wait_for(self.published.get(), TIMEOUT)
            if params.version == self.version:
                return list(params.diagnostics)

    async def hover(self, line: int, character: int) -> str:
        found = await self.client.text_document_hover_async(
            types.HoverParams(types.TextDocumentIdentifier(URI), types.Position(line, character))
        )
        if found is None:
            return ""
        assert isinstance(found.contents, types.MarkupContent)
        return found.contents.value


async def started() -> AsyncIterator[Editor]:
    editor = Editor()
    await editor.client.start_io(sys.executable, "-m", "tilegen", "lsp", cwd=str(ROOT))
    await editor.client.initialize_async(types.InitializeParams(capabilities=types.ClientCapabilities()))
    editor.client.initialized(types.InitializedParams())
    yield editor
    await editor.client.shutdown_async(None)
    editor.client.exit(None)
    await asyncio.wait_for(editor.client.stop(), TIMEOUT)


def session(test: Callable[[Editor], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async for editor in started():
            return await test(editor)

    return asyncio.run(run())


def place(text: str, word: str) -> tuple[int, int]:
    """Line and character of a word, from 0."""
    before = text[: text.index(word)]
    return before.count("\n"), len(before) - before.rfind("\n") - 1


ILLEGAL = LINEAR.replace("stages = 3", "stages = 10")


def test_findings_come_while_typing_and_go_with_their_cause() -> None:
    async def test(editor: Editor) -> None:
        assert await editor.open(LINEAR) == []
        editor.change(ILLEGAL)
        (found, *_) = await editor.findings()
        assert found.source == "tilegen"
        assert str(found.code).startswith("TG-")
        assert found.severity is types.DiagnosticSeverity.Error
        line, character = place(ILLEGAL, "10\n")
        assert (found.range.start.line, found.range.start.character) == (line, character)
        assert found.range.end.character == character + 2
        editor.change(LINEAR)
        assert await editor.findings() == []

    session(test)


def test_half_a_word_is_a_finding_not_a_crash_and_the_newest_text_wins() -> None:
    async def test(editor: Editor) -> None:
        await editor.open(LINEAR)
        for text in ("BLOCK_N = ", "BLOCK_N = [", 'BLOCK_N = "', "BLOCK_N = 1"):
            editor.change(LINEAR.replace("BLOCK_N = 128", text))
        codes = {str(entry.code) for entry in await editor.findings()}
        assert codes
        assert "spec-bad-toml" not in codes  # that was the text before

    session(test)


def test_hover_explains_the_rule_of_a_finding_a_named_rule_and_a_key() -> None:
    text = ILLEGAL + '\n[allow]\nTG-D7 = "measured"\n'

    async def test(editor: Editor) -> None:
        (found, *_) = await editor.open(text)
        on_value = await editor.hover(*place(text, "10\n"))
        assert f"**{found.code} " in on_value
        assert "**Source:**" in on_value
        assert "`tile.stages`" in on_value
        assert "**TG-D7 wgmma-n**" in await editor.hover(*place(text, "TG-D7"))
        assert await editor.hover(*place(text, "max = 65")) == "`dims.M.max`: greatest size of the range"
        assert "how warps divide the output tile" in await editor.hover(*place(text, "policy"))
        assert await editor.hover(*place(text, "# A linear")) == ""

    session(test)


def test_mends_are_offered_as_edits() -> None:
    text = LINEAR.replace("square", "col")

    async def fixes(editor: Editor, text: str, word: str) -> dict[str, str]:
        where = types.Position(*place(text, word))
        actions = await editor.client.text_document_code_action_async(
            types.CodeActionParams(
                types.TextDocumentIdentifier(URI), types.Range(where, where), types.CodeActionContext([])
            )
        )
        found = {}
        for action in actions or ():
            assert isinstance(action, types.CodeAction)
            assert action.edit is not None
            (change,) = (action.edit.changes or {})[URI]
            lines = text.split("\n")
            line = lines[change.range.start.line]
            lines[change.range.start.line] = (
                line[: change.range.start.character] + change.new_text + line[change.range.end.character :]
            )
            found[action.title] = "\n".join(lines)
        return found

    async def test(editor: Editor) -> None:
        await editor.open(text)
        mended = await fixes(editor, text, "col")
        assert mended == {"`full_col`": text.replace('"col"', '"full_col"')}
        editor.change(ILLEGAL)
        await editor.findings()
        mended = await fixes(editor, ILLEGAL, "10\n")
        assert mended
        for title, repaired in mended.items():
            assert title.startswith("stages = ")
            editor.change(repaired)
            assert not [e for e in await editor.findings() if e.severity is types.DiagnosticSeverity.Error]

    session(test)


def test_columns_are_counted_as_the_client_does() -> None:
    """A character outside the basic plane is one of Python's, and two of UTF-16's, which is the protocol's own."""
    inline = LINEAR.replace('doc = "rows of a"', 'doc = "\U0001f600", nonsense = 1')

    async def test(editor: Editor) -> None:
        (found,) = await editor.open(inline)
        line = inline.split("\n")[found.range.start.line]
        units = line.encode("utf-16-le")
        shown = units[2 * found.range.start.character : 2 * found.range.end.character].decode("utf-16-le")
        assert shown == "nonsense"

    session(test)


def test_another_toml_file_is_left_alone() -> None:
    async def test(editor: Editor) -> None:
        assert await editor.open("[project]\nname = 'x'\nname = 'y'\n", "file:///project/pyproject.toml") == []

    session(test)


def test_the_server_loads_neither_torch_nor_tilelang() -> None:
    import subprocess

    code = (
        "from tilegen.lsp.server import server\nserver()\nimport sys\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not set(result.stdout.split()) & {"torch", "tilelang", "tvm"}
