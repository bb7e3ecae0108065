"""A comparison for a terminal: what matters most first, losses in red."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tilegen.review.change import BudgetRow, Change, FileDiff, KernelDiff, Level, SpecDiff, Status
from tilegen.review.words import count_words, joined, printable

STYLE = {Level.ERROR: "1;31", Level.WARNING: "1;33", Level.NOTE: "36"}
INDENT = " " * 25

Paint = Callable[[str, str], str]
"""Text and a style of the terminal to the text in that style, or as it is."""


def as_text(found: SpecDiff, *, color: bool = False, source: bool = False) -> str:
    """One block for each kernel, then one line in sum. ``source`` shows the differences of the generated code too."""

    def paint(text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if color else text

    blocks = ["\n".join(_kernel(kernel, paint, source)) for kernel in found.kernels]
    return "\n\n".join([*blocks, summary_line(found)]) + "\n"


def summary_line(found: SpecDiff) -> str:
    """``main → working tree: 2 kernels changed, 1 added, 27 unchanged; 1 error, 3 warnings``."""
    parts: list[str] = []
    for status in (Status.CHANGED, Status.RENAMED, Status.MOVED, Status.ADDED, Status.REMOVED):
        count = sum(kernel.status is status for kernel in found.kernels)
        if count:
            noun = ("" if parts else " kernel") if count == 1 else ("" if parts else " kernels")
            parts.append(f"{count}{noun} {status.value}")
    parts.append(f"{found.unchanged} unchanged" if parts else f"no kernel changed of {found.unchanged}")
    levels = [
        count_words(found.count(level), level.value) for level in (Level.ERROR, Level.WARNING) if found.count(level)
    ]
    return f"{found.base} → {found.head}: {', '.join(parts)}" + (f"; {joined(levels)}" if levels else "")


def heading(kernel: KernelDiff) -> str:
    """The kernel, what happened to it, and its spec."""
    name = f"{kernel.was} → {kernel.kernel}" if kernel.was else kernel.kernel
    path = f"{kernel.path_was} → {kernel.path}" if kernel.path_was else kernel.path
    return printable(f"{name}  {kernel.status.value}  {path}")


def _kernel(kernel: KernelDiff, paint: Paint, source: bool) -> Iterator[str]:
    yield paint(heading(kernel), "1")
    for change in kernel.changes:
        yield from _change(change, kernel.path, paint)
    if kernel.budgets:
        yield ""
        yield from (f"  {line}" for line in table_lines(kernel.budgets))
    if source:
        for file in kernel.files:
            yield from _file(file, paint)


def _change(change: Change, path: str, paint: Paint) -> Iterator[str]:
    where = f"  [{printable(change.where)}]" if change.where else ""
    place = f"  ({printable(change.file or path)}:{change.line})" if change.line else ""
    said = printable(change.text)
    text = paint(said, STYLE[change.level]) if change.level is Level.ERROR else said
    yield f"  {paint(f'{change.level.value:<7}', STYLE[change.level])} {change.subject:<14} {text}{where}{place}"
    for line in change.details:
        yield from (f"{INDENT}{printable(part)}" for part in line.split("\n"))


HEADER = ("target", "where", "tiles", "shared B", "registers", "blocks/SM", "path")


def table_cells(row: BudgetRow) -> tuple[str, ...]:
    """One row of the budget table as text; ``a → b`` where the two sides differ."""
    return (
        f"{row.arch} {row.dtypes}",
        row.where,
        arrow(*row.tiles),
        arrow(*(_number(value) for value in row.shared_bytes)),
        arrow(*(_number(value) for value in row.registers)),
        arrow(*(_number(value) for value in row.blocks_per_sm)),
        arrow(*row.path),
    )


def arrow(before: str, after: str) -> str:
    """``a → b``, one where they are the same, the known one marked where the other side has none."""
    if before == after:
        return before or "-"
    return f"{before or '-'} → {after or '-'}"


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def table_lines(rows: tuple[BudgetRow, ...]) -> Iterator[str]:
    """The budget table with aligned columns."""
    cells = [HEADER, *(tuple(map(printable, table_cells(row))) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADER))]
    for line in cells:
        yield "  ".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=True)).rstrip()


def _file(file: FileDiff, paint: Paint) -> Iterator[str]:
    if file.kind in ("header", "support"):
        return
    yield ""
    yield f"  {file.path}" + (" (comments only)" if file.kind == "comments" else "")
    for hunk in file.hunks:
        for line in map(printable, hunk.split("\n")):
            style = {"+": "32", "-": "31", "@": "36"}.get(line[:1], "")
            yield f"  {paint(line, style) if style else line}".rstrip()
