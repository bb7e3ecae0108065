"""Two texts as one column of lines, folded around what differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

CONTEXT = 3
"""Equal lines around a change."""


@dataclass(frozen=True)
class DiffLine:
    """``sign`` is ``+``, ``-``, a blank, or ``@`` for lines that are left out."""

    sign: Literal["+", "-", " ", "@"]
    old: int | None
    new: int | None
    text: str


def diff(old: list[str], new: list[str]) -> Iterator[DiffLine]:
    """The lines of both in one column, with three lines around each change and the rest folded."""
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    at = 0
    for group in matcher.get_grouped_opcodes(CONTEXT):
        if group[0][3] > at or group[0][1] > at:
            yield DiffLine("@", None, None, f"{group[0][3] - at} lines")
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                for offset in range(i_end - i):
                    yield DiffLine(" ", i + offset + 1, j + offset + 1, old[i + offset])
                continue
            for index in range(i, i_end):
                yield DiffLine("-", index + 1, None, old[index])
            for index in range(j, j_end):
                yield DiffLine("+", None, index + 1, new[index])
        at = group[-1][4]
