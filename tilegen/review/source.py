"""How generated sources differ, with what is only header set aside."""

from __future__ import annotations

import ast
import difflib
import io
import re
import tokenize
from collections.abc import Iterator, Mapping

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


def _file(path: str, old: str, new: str) -> FileDiff:
    hunks = tuple(_hunks(old, new))
    changed = [line for hunk in hunks for line in hunk.split("\n")[1:]]
    added, removed = (sum(line.startswith(sign) for line in changed) for sign in "+-")
    if path in SUPPORT:
        kind = "support"
    elif not hunks:
        kind = "header"
    else:
        kind = "comments" if _tokens(old) == _tokens(new) else "code"
    return FileDiff(path, kind, added, removed, hunks)


def _plain(line: str) -> str:
    """A line with hashes and numbers of spec lines made equal: they change with the spec, whatever changed there."""
    return _SPEC_LINES.sub("(spec line)", _HASHES.sub("<hash>", line))


def _docstring_end(text: str) -> int:
    """Lines of the docstring that a module begins with; 0 if there is none, or it is no Python."""
    try:
        first = ast.parse(text).body[:1]
    except (SyntaxError, ValueError):
        return 0
    if first and isinstance(first[0], ast.Expr) and isinstance(first[0].value, ast.Constant):
        return first[0].end_lineno or 0
    return 0


def _hunks(old: str, new: str) -> Iterator[str]:
    """A unified diff without the docstrings, in pieces that each begin with their ``@@`` line."""
    skipped = [_docstring_end(text) for text in (old, new)]
    lines = [text.split("\n")[skip:] for text, skip in zip((old, new), skipped, strict=True)]
    before, after = ([_plain(line) for line in side] for side in lines)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        if all(tag == "equal" for tag, *_ in group):
            continue
        i, j = group[0][1] + skipped[0], group[0][3] + skipped[1]
        counts = group[-1][2] - group[0][1], group[-1][4] - group[0][3]
        piece = [f"@@ -{i + 1},{counts[0]} +{j + 1},{counts[1]} @@"]
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                piece += [f" {line}" for line in lines[1][j1:j2]]
            else:
                piece += [f"-{line}" for line in lines[0][i1:i2]] + [f"+{line}" for line in lines[1][j1:j2]]
        yield "\n".join(piece)


def _tokens(text: str) -> list[str]:
    """The code of a file: its tokens without comments, blank lines, the docstring and hashes."""
    body = "\n".join(_plain(line) for line in text.split("\n")[_docstring_end(text) :])
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER)
    try:
        return [t.string for t in tokenize.generate_tokens(io.StringIO(body).readline) if t.type not in skipped]
    except (tokenize.TokenError, SyntaxError):
        return [body]
