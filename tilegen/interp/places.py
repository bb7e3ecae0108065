"""Where in the user's source a statement stands: the file and line that TileLang noted while it traced the kernel."""

from __future__ import annotations

import importlib.util
import linecache
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

#: How much of a statement is shown.
_LINES, _WIDTH = 12, 160


@dataclass(frozen=True)
class Place:
    """A line of a source file. ``exact`` is False where only the last line of the user's before it is known."""

    file: str
    line: int
    exact: bool = True

    @property
    def text(self) -> str:
        """The statement that begins there, on one line; empty where the file cannot be read."""
        if not self.exact:
            return ""
        text, open_brackets = "", 0
        for line in range(self.line, self.line + _LINES):
            part = linecache.getline(self.file, line).strip()
            text += part if not text or text[-1] in "([{" or part[:1] in (")", "]", "}") else " " + part
            open_brackets += sum(part.count(bracket) for bracket in "([{") - sum(part.count(x) for x in ")]}")
            if open_brackets <= 0:
                break
        return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."

    def __str__(self) -> str:
        path = os.path.relpath(self.file)
        shown = self.file if path.startswith("..") else path
        return f"{shown}:{self.line}" if self.exact else f"after {shown}:{self.line}"


def place_of(statement: Any, last: Place | None) -> Place | None:
    """The place of a TIR statement, None where TileLang noted none.

    TileLang writes some operations as macros of its own, whose statements carry a line of the library; what is known then is
    that they come after ``last``, the user's line before.
    """
    from tilelang.ir import get_stmt_span

    span = get_stmt_span(statement)
    if span is None:
        return None
    file, line = str(span.source_name.name), int(span.line)
    if not _is_library(file):
        return Place(file, line)
    return None if last is None else Place(last.file, last.line, exact=False)


@contextmanager
def places_of_callers() -> Iterator[None]:
    """Let TileLang note, for the statements of its own macros, the user's line that calls them."""
    from tilelang.language.eager.builder import Builder

    note = Builder.set_fileline

    def note_user_line(builder: Builder, filename: str, lineno: int, name: str) -> None:
        if not _is_library(filename):
            note(builder, filename, lineno, name)

    with mock.patch.object(Builder, "set_fileline", note_user_line):
        yield


@lru_cache(maxsize=256)
def _is_library(file: str) -> bool:
    return Path(file).is_relative_to(_library())


@lru_cache(maxsize=1)
def _library() -> Path:
    spec = importlib.util.find_spec("tilelang")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
