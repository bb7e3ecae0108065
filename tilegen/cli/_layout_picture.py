"""Draws a shared-memory layout: each 16-byte chunk in the colour of its banks, conflicting accesses framed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.patches import Rectangle

if TYPE_CHECKING:
    from tilegen.plan.layout import SharedLayout

MOST_ROWS, MOST_CHUNKS = 32, 32
"""A picture shows this corner of a tile; the pattern repeats."""

SMALL = 16
"""Chunks in a row up to which each cell is labelled with its first bank."""


def draw(layout: SharedLayout, path: Path) -> None:
    """Writes a PNG or SVG, by the ending of ``path``; the same layout gives the same bytes."""
    rows, chunks = min(layout.rows, MOST_ROWS), min(layout.chunks, MOST_CHUNKS)
    banks = [[layout.bank(row, chunk) for chunk in range(chunks)] for row in range(rows)]
    matplotlib.rcParams["svg.hashsalt"] = "tilegen"
    figure, axes = pyplot.subplots(figsize=(2.5 + 0.5 * chunks, 2.2 + 0.28 * rows))
    axes.imshow(banks, cmap="tab20", vmin=0, vmax=layout.banks - 1, aspect="auto")
    if chunks <= SMALL:
        for row in range(rows):
            for chunk in range(chunks):
                axes.text(chunk, row, str(banks[row][chunk]), ha="center", va="center", fontsize=7)
    _frames(axes, layout, rows, chunks)
    _label(axes, layout, rows, chunks)
    figure.tight_layout()
    metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    figure.savefig(path, dpi=120, metadata=metadata)
    pyplot.close(figure)


def _frames(axes: Any, layout: SharedLayout, rows: int, chunks: int) -> None:
    """A red frame around each access of 8 rows x 16 bytes with a conflict; a dashed one around the first without."""
    shown_free = False
    for row in range(0, rows, 8):
        for chunk in range(chunks):
            cells = layout.down(row, chunk)
            ways = layout.ways(cells)
            height = min(len(cells), rows - row)
            if ways > 1:
                _frame(axes, row, chunk, height, "red", "-")
                axes.text(chunk, row + height / 2 - 0.5, f"{ways}x", color="red", ha="right", va="bottom", fontsize=9)
            elif not shown_free:
                shown_free = True
                _frame(axes, row, chunk, height, "black", "--")


def _frame(axes: Any, row: int, chunk: int, height: int, color: str, style: str) -> None:
    frame = Rectangle((chunk - 0.5, row - 0.5), 1, height, fill=False, edgecolor=color, linestyle=style, linewidth=2)
    axes.add_patch(frame)


def _label(axes: Any, layout: SharedLayout, rows: int, chunks: int) -> None:
    per_chunk = 16 // layout.itemsize
    step = max(1, chunks // 16)
    axes.set_xticks(range(0, chunks, step), [str(chunk * per_chunk) for chunk in range(0, chunks, step)])
    axes.set_yticks(range(0, rows, 4))
    axes.set_xlabel(f"column (16 bytes are {per_chunk} elements); a cell shows the first of its 4 banks")
    axes.set_ylabel("row")
    shown = "" if (rows, chunks) == (layout.rows, layout.chunks) else f"\nrows 0 to {rows - 1}, first {chunks} chunks"
    axes.set_title(f"{layout.title}\n{layout.verdict.replace('; ', chr(10))}{shown}", fontsize=9, loc="left")
