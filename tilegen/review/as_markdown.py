"""A comparison as the comment of a pull request: what matters first, a budget table, the rest folded, within a limit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tilegen.review.as_text import HEADER, summary_line, table_cells
from tilegen.review.change import BudgetRow, Change, FileDiff, KernelDiff, Level, SpecDiff
from tilegen.review.words import printable

LIMIT = 60_000
"""Characters of a comment; GitHub refuses more than 65,536."""

MARK = {Level.ERROR: "❌", Level.WARNING: "⚠️", Level.NOTE: "·"}
MARKER = "<!-- tilegen diff -->"
"""First line of the comment, by which the next run finds it again."""


@dataclass(frozen=True)
class Measure:
    """How much is told of each kernel: losses in the lead, rows of the budget table, changes, lines of detail for each
    change, and lines of source.
    """

    lead: int
    rows: int
    changes: int
    details: int
    source: int


MEASURES = (
    Measure(40, 60, 100, 12, 200),
    Measure(40, 60, 60, 8, 60),
    Measure(40, 45, 30, 6, 20),
    Measure(30, 40, 20, 4, 0),
    Measure(30, 30, 12, 2, 0),
    Measure(20, 20, 6, 1, 0),
    Measure(15, 10, 3, 0, 0),
)
"""The first that stays under the limit is taken."""


def as_markdown(found: SpecDiff, *, limit: int = LIMIT) -> str:
    """The comment, at most ``limit`` characters. What is left out is said, with the command that shows it."""
    text = ""
    for measure in MEASURES:
        text = "\n".join(_comment(found, measure)) + "\n"
        if len(text) <= limit:
            return text
    ending = "\n\nThe rest is left out: `tilegen diff` shows all of it.\n"
    kept = text[: limit - len(ending)].rpartition("\n\n<details>")[0] or text[: limit - len(ending)].rpartition("\n")[0]
    return kept + ending


def _comment(found: SpecDiff, measure: Measure) -> Iterator[str]:
    yield MARKER
    yield f"### Kernels: {_inline(summary_line(found))}"
    yield from _lead(found, measure)
    yield from _budgets(found, measure)
    for kernel in found.kernels:
        yield ""
        yield from _kernel(kernel, measure)


def _lead(found: SpecDiff, measure: Measure) -> Iterator[str]:
    """Errors in a red box, warnings in a list."""
    for level, box in ((Level.ERROR, "CAUTION"), (Level.WARNING, "WARNING")):
        entries = [(kernel, change) for kernel in found.kernels for change in kernel.changes if change.level is level]
        if not entries:
            continue
        yield ""
        yield f"> [!{box}]"
        for kernel, change in entries[: measure.lead]:
            place = f" ({_inline(change.file or kernel.path)}:{change.line})" if change.line else ""
            yield f"> - **{_inline(kernel.kernel)}**: {_inline(change.text)}{_where(change)}{place}{_reason(change)}"
        if len(entries) > measure.lead:
            yield f"> - and {len(entries) - measure.lead} more below"
    if found.kernels and not any(found.count(level) for level in (Level.ERROR, Level.WARNING)):
        yield ""
        yield "Nothing was lost: no proof, no tolerance, no occupancy, no instruction, no shape."


def _reason(change: Change) -> str:
    """The arithmetic of an error, in its line."""
    if change.level is not Level.ERROR or not change.details:
        return ""
    text = "; ".join(change.details[0].split("\n"))
    return f": {_inline(text if len(text) <= 240 else text[:237] + '...')}"


def _where(change: Change) -> str:
    return f" ({_inline(change.where)})" if change.where else ""


def _budgets(found: SpecDiff, measure: Measure) -> Iterator[str]:
    rows = [(kernel, row) for kernel in found.kernels for row in kernel.budgets]
    if not rows:
        return
    # Every kernel gets a row before any gets its second.
    turns = sorted(range(len(rows)), key=lambda i: sum(rows[j][0] is rows[i][0] for j in range(i)))
    shown = sorted(turns[: measure.rows])
    yield ""
    yield "| kernel | " + " | ".join(HEADER) + " |"
    yield "|---|---|---|---|---:|---:|---:|---|"
    for index in shown:
        kernel, row = rows[index]
        yield f"| {_inline(kernel.kernel)} | " + " | ".join(_cells(row)) + " |"
    if len(rows) > len(shown):
        yield ""
        yield f"{len(rows) - len(shown)} more rows: `tilegen diff`."


def _cells(row: BudgetRow) -> Iterator[str]:
    for column, text in enumerate(table_cells(row)):
        short = text if len(text) <= 120 else text[:117] + "..."
        cell = _inline(short).replace("|", "\\|")
        lost = column == 5 and None not in row.blocks_per_sm and row.blocks_per_sm[1] < row.blocks_per_sm[0]  # type: ignore[operator]
        yield f"**{cell}**" if lost else cell


def _kernel(kernel: KernelDiff, measure: Measure) -> Iterator[str]:
    name = f"{kernel.was} → {kernel.kernel}" if kernel.was else kernel.kernel
    counts = f"{len(kernel.changes)} change{'s' if len(kernel.changes) != 1 else ''}"
    mark = "" if kernel.level is Level.NOTE else f"{MARK[kernel.level]} "
    path = f"{kernel.path_was} → {kernel.path}" if kernel.path_was else kernel.path
    yield "<details>"
    yield f"<summary>{mark}<b>{_html(name)}</b> {kernel.status.value}, {counts} (<code>{_html(path)}</code>)</summary>"
    yield ""
    for change in kernel.changes[: measure.changes]:
        yield from _change(change, measure)
    if len(kernel.changes) > measure.changes:
        yield f"- and {len(kernel.changes) - measure.changes} more: `tilegen diff`"
    yield from _source(kernel.files, measure)
    yield ""
    yield "</details>"


def _change(change: Change, measure: Measure) -> Iterator[str]:
    of = f" of {_inline(change.file)}" if change.file else ""
    line = f", line {change.line}{of}" if change.line else ""
    yield f"- {MARK[change.level]} **{change.subject}**{line}: {_inline(change.text)}{_where(change)}"
    lines = [part for text in change.details for part in text.split("\n")]
    for text in lines[: measure.details]:
        yield f"  - {_inline(text if len(text) <= 300 else text[:297] + '...')}"


def _source(files: tuple[FileDiff, ...], measure: Measure) -> Iterator[str]:
    """The code that changed, folded; files of which only the header or comments did are named apart."""
    apart = [file.path for file in files if file.kind != "code"]
    if apart:
        yield f"- · **source**, only header, comments or support: {', '.join(f'`{path}`' for path in apart)}"
    room = measure.source
    for file in files:
        if file.kind != "code" or room <= 0:
            continue
        lines = [line for hunk in file.hunks for line in hunk.split("\n")]
        fence = "`" * max(3, *(len(run) + 1 for line in lines for run in re.findall("`+", line)), 3)
        yield ""
        yield f"<details><summary>{_html(file.path)}: +{file.added} -{file.removed}</summary>"
        yield ""
        yield f"{fence}diff"
        yield from map(printable, lines[:room])
        yield fence
        if len(lines) > room:
            yield f"{len(lines) - room} more lines: `tilegen diff --source`."
        yield "</details>"
        room -= len(lines)


_SPECIAL = re.compile(r"([\\*_\[\]<>#~|@])")


def _inline(text: str) -> str:
    """Text in a line of Markdown, as it is: nothing in a spec may steer the comment, nor call a person by `@name`."""
    parts = re.split(r"(`[^`\n]*`)", printable(text.replace("\n", " ")))
    return "".join(
        part if part.startswith("`") and part.endswith("`") and len(part) > 1 else _escaped(part) for part in parts
    )


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text).replace("\\@", "@\u200b").replace("`", "\\`")


def _html(text: str) -> str:
    return printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
