"""The generated source and its spec, line by line, each linked to the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.emit.rendering import RenderError, render

if TYPE_CHECKING:
    from tilegen.spec.model import Spec

SOURCE = "kernel.py"
_SPEC_LINES = re.compile(r"\bspec lines? ((?:\d+(?:, )?)+)")
_COMMENT = re.compile(r"^\s*#")


@dataclass(frozen=True)
class Line:
    """``links`` are lines of the other text; ``quiet`` a line that is comment or docstring alone."""

    number: int
    text: str
    links: tuple[int, ...]
    quiet: bool = False


@dataclass(frozen=True)
class Listing:
    """``problem`` says why there is no source."""

    path: str
    spec_path: str
    source: tuple[Line, ...]
    spec: tuple[Line, ...]
    problem: str = ""


def listing(spec: Spec, *, fails: bool = False) -> Listing:
    """Both texts. A spec that fails its checks, or cannot be printed, gives its own text alone, with the reason."""
    spec_text = spec.text.rstrip("\n").split("\n")
    source_text: list[str] = []
    problem = "the spec fails its checks" if fails else ""
    try:
        source_text = [] if fails else render(spec).files[SOURCE].rstrip("\n").split("\n")
    except RenderError as error:
        problem = str(error)
    links = causes(source_text)
    back: dict[int, list[int]] = {}
    for number, lines in links.items():
        for line in lines:
            back.setdefault(line, []).append(number)
    return Listing(
        f"generated/{spec.kernel}/{SOURCE}",
        spec.path,
        tuple(
            Line(number, text, links.get(number, ()), quiet)
            for (number, text), quiet in zip(enumerate(source_text, 1), _quiet(source_text), strict=True)
        ),
        tuple(
            Line(number, text, tuple(back.get(number, ())), _COMMENT.match(text) is not None)
            for number, text in enumerate(spec_text, 1)
        ),
        problem,
    )


def causes(source: list[str]) -> dict[int, tuple[int, ...]]:
    """For each line of the source the lines of the spec that its comment names."""
    found = {}
    for number, text in enumerate(source, 1):
        lines = [int(line) for match in _SPEC_LINES.finditer(text) for line in match[1].split(", ") if line]
        if lines:
            found[number] = tuple(dict.fromkeys(lines))
    return found


def _quiet(lines: list[str]) -> Iterator[bool]:
    """Whether each line is a comment, or of a docstring."""
    inside = False
    for line in lines:
        marks = line.count('"""')
        yield inside or marks > 0 or _COMMENT.match(line) is not None
        inside ^= marks % 2 == 1
