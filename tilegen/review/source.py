"""How generated sources differ, with what is only header set aside."""

from __future__ import annotations

import difflib
import io
import itertools
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from tilegen.emit.rendering import SUPPORT
from tilegen.review.change import FileDiff

CONTEXT = 3
_HASHES = re.compile(r"tilegen_[0-9a-f]{12}\b|\b[0-9a-f]{64}\b")
_SPEC_LINES = re.compile(r"\(?spec lines? [0-9, ]+\)?")


def source_diffs(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[FileDiff, ...]:
    """The Python files that differ, by path relative to the kernel's folder; those with changed code first."""
    found = []
    for path in sorted({*before, *after}):
        old, new = before.get(path, ""), after.get(path, "")
        if old != new:
            found.append(_file(path, old, new))
    order = {"code": 0, "comments": 1, "header": 2, "support": 3}
    return tuple(sorted(found, key=lambda file: (order[file.kind], file.path != "kernel.py", file.path)))


@dataclass(frozen=True)
class _Text:
    """A file as it is compared. ``plain`` are its lines below the docstring with hashes and numbers of spec lines made
    equal: they change with the spec, whatever changed there. ``skipped`` are the lines of the docstring.
    """

    text: str

    @cached_property
    def skipped(self) -> int:
        return _docstring_end(self.text)

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")[self.skipped :]

    @cached_property
    def plain(self) -> list[str]:
        return [_SPEC_LINES.sub("(spec line)", _HASHES.sub("<hash>", line)) for line in self.lines]

    def tokens(self) -> Iterator[str]:
        """The code: without comments, blank lines, the docstring and hashes."""
        body = "\n".join(self.plain)
        try:
            for token in tokenize.generate_tokens(io.StringIO(body).readline):
                if token.type not in _NO_CODE:
                    yield token.string
        except (tokenize.TokenError, SyntaxError):
            yield body


_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER)


def _file(path: str, old: str, new: str) -> FileDiff:
    before, after = _Text(old), _Text(new)
    hunks = tuple(_hunks(before, after))
    changed = [line for hunk in hunks for line in hunk.split("\n")[1:]]
    added, removed = (sum(line.startswith(sign) for line in changed) for sign in "+-")
    if path in SUPPORT:
        kind = "support"
    elif not hunks:
        kind = "header"
    else:
        same = all(a == b for a, b in itertools.zip_longest(before.tokens(), after.tokens()))
        kind = "comments" if same else "code"
    return FileDiff(path, kind, added, removed, hunks)


def _docstring_end(text: str) -> int:
    """Lines of the docstring that a module begins with; 0 if there is none, or it is no Python."""
    before = (tokenize.COMMENT, tokenize.NL)
    try:
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        found = list(itertools.takewhile(lambda token: token.type != tokenize.NEWLINE, tokens))
    except (tokenize.TokenError, SyntaxError):
        return 0
    statement = [token for token in found if token.type not in before]
    if not statement or any(token.type != tokenize.STRING for token in statement):
        return 0
    return statement[-1].end[0]


def _hunks(before: _Text, after: _Text) -> Iterator[str]:
    """A unified diff without the docstrings, in pieces that each begin with their ``@@`` line."""
    matcher = difflib.SequenceMatcher(None, before.plain, after.plain, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        if all(tag == "equal" for tag, *_ in group):
            continue
        i, j = group[0][1] + before.skipped, group[0][3] + after.skipped
        counts = group[-1][2] - group[0][1], group[-1][4] - group[0][3]
        piece = [f"@@ -{i + 1},{counts[0]} +{j + 1},{counts[1]} @@"]
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                piece += [f" {line}" for line in after.lines[j1:j2]]
            else:
                piece += [f"-{line}" for line in before.lines[i1:i2]] + [f"+{line}" for line in after.lines[j1:j2]]
        yield "\n".join(piece)
