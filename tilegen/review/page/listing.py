"""The generated source and its spec, line by line, each linked to the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.emit.rendering import RenderError, render
from tilegen.review.origin import origins
from tilegen.review.page.spans import spans

if TYPE_CHECKING:
    from tilegen.spec.model import Spec

SOURCE = "kernel.py"
_COMMENT = re.compile(r"^\s*#")


@dataclass(frozen=True)
class Link:
    """A line of the other text, and what it has to do with this one. ``last`` ends a run of lines."""

    line: int
    why: str = ""
    last: int | None = None


@dataclass(frozen=True)
class Line:
    """``links`` are lines of the other text; ``quiet`` a line that is comment or docstring alone."""

    number: int
    text: str
    links: tuple[Link, ...]
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
    source, problem = "", "the spec fails its checks" if fails else ""
    try:
        source = "" if fails else render(spec).files[SOURCE].rstrip("\n")
    except RenderError as error:
        problem = str(error)
    source_text = source.split("\n") if source else []
    links = _causes(spec, source) if source else {}
    back: dict[int, list[int]] = {}
    for number, found in links.items():
        for link in found:
            back.setdefault(link.line, []).append(number)
    return Listing(
        f"generated/{spec.kernel}/{SOURCE}",
        spec.path,
        tuple(
            Line(number, text, links.get(number, ()), quiet)
            for (number, text), quiet in zip(enumerate(source_text, 1), _quiet(source_text), strict=True)
        ),
        tuple(
            Line(number, text, tuple(_runs(back.get(number, []))), _COMMENT.match(text) is not None)
            for number, text in enumerate(spec_text, 1)
        ),
        problem,
    )


def _causes(spec: Spec, source: str) -> dict[int, tuple[Link, ...]]:
    """For each line of the source the lines of the spec that decide it, each once."""
    found = {}
    for origin in origins(spec, SOURCE, source):
        lines: dict[int, list[str]] = {}
        for cause in origin.causes:
            if cause.span is not None:
                lines.setdefault(cause.span.line, []).append(f"{cause.path}: {cause.why}")
        if lines:
            found[origin.number] = tuple(Link(line, "; ".join(reasons)) for line, reasons in sorted(lines.items()))
    return found


def _quiet(lines: list[str]) -> Iterator[bool]:
    """Whether each line is a comment, or of a docstring."""
    inside = False
    for line in lines:
        marks = line.count('"""')
        yield inside or marks > 0 or _COMMENT.match(line) is not None
        inside ^= marks % 2 == 1


def _runs(numbers: list[int]) -> Iterator[Link]:
    """Lines one after the other as one link each."""
    return (Link(first, last=last if last > first else None) for first, last in spans(numbers))
