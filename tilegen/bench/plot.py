"""A benchmark as a plot: the rate of every call over the dim that varies, under the roof. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilegen.bench.result import Result, Row

SUFFIXES = (".png", ".svg")


def varying_dim(rows: Sequence[Row]) -> str:
    """The static dim with the most sizes; where only dynamic ones vary, the one of those."""
    names = list(rows[0].dims)
    counts = {name: len({row.dims[name] for row in rows}) for name in names}
    # Where M follows C to keep the bytes, both vary alike: the later one in the spec is the width.
    return max(names, key=lambda name: (counts[name], names.index(name)))


def draw(result: Result, path: Path, state: str = "cold") -> None:
    """Writes one panel for each dtype and, where several dims vary, for each value of the others.

    ImportError without matplotlib; ValueError where nothing was timed or nothing varies.
    """
    rows = [row for row in result.rows if state in row.times]
    if not rows:
        raise ValueError("no row was timed, so there is nothing to plot")
    dim = varying_dim(rows)
    if len({row.dims[dim] for row in rows}) < 2:
        raise ValueError("a plot needs a dim that varies; give --dim two sizes or more")
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "tilegen"
    from matplotlib import pyplot

    panels = [(dtype, label, group) for dtype, rows_ in _by_dtype(rows) for label, group in _groups(rows_, dim)]
    columns = min(MOST_COLUMNS, max(1, len(panels) // len(_by_dtype(rows))))
    lines = -(-len(panels) // columns)
    width = WIDE if columns == 1 else NARROW * columns
    figure, axes = pyplot.subplots(lines, columns, figsize=(width, 3.2 * lines), squeeze=False, layout="constrained")
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis, (dtype, label, group) in zip(axes.flat, panels, strict=False):
        _panel(axis, result, group, dim, state)
        axis.set_title(", ".join(part for part in (dtype, label) if part), loc="left", fontsize=9)
    figure.suptitle(f"{result.kernel}, {state} L2, {result.machine['card']}", fontsize=11)
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=8)
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


MOST_COLUMNS, WIDE, NARROW = 4, 9.0, 3.6
WIDE_SPAN = 64
"""From this ratio of the largest to the smallest size on, both axes are logarithmic."""

MANY_POINTS = 40


def _by_dtype(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    return [(dtype, [r for r in rows if r.dtype == dtype]) for dtype in dict.fromkeys(row.dtype for row in rows)]


def _panel(axis: Any, result: Result, rows: list[Row], dim: str, state: str) -> None:
    """One line for each call, and the roof: what the data sheet allows at each size."""
    memory = all(row.bound == "memory" for row in rows)
    rows = sorted(rows, key=lambda row: row.dims[dim])
    sizes = [row.dims[dim] for row in rows]
    amounts = [(row.bytes_moved if memory else row.flops) / 1e12 for row in rows]
    roof = [amount / row.roof_s for amount, row in zip(amounts, rows, strict=True)]
    axis.plot(sizes, roof, color="black", linewidth=1, linestyle="--", label="roof")
    for position, name in enumerate(("ours", *result.peers)):
        if name in result.yardsticks and not (name == "copy" and memory):
            continue  # its work is not that of the row
        points = [
            (size, amount / row.times[state][name].seconds.median)
            for size, amount, row in zip(sizes, amounts, rows, strict=True)
            if name in row.times[state]
        ]
        if points:
            axis.plot(
                *zip(*points, strict=True),
                marker="o" if len(points) < MANY_POINTS else None,
                markersize=3,
                color=f"C{position}",
                linewidth=1.6 if name == "ours" else 1,
                label=result.kernel if name == "ours" else name,
            )
    axis.set_xlabel(dim)
    axis.set_ylabel("TB/s" if memory else "TFLOPS")
    if max(sizes) >= WIDE_SPAN * min(sizes) and len(sizes) < MANY_POINTS:
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)


def _groups(rows: Sequence[Row], dim: str) -> list[tuple[str, list[Row]]]:
    """Rows by their other dims, as far as one size of ``dim`` stands in several rows; a group of one row has no line."""
    sizes = [row.dims[dim] for row in rows]
    if len(sizes) == len(set(sizes)):
        return [("", list(rows))]
    found: dict[str, list[Row]] = {}
    others = [name for name in rows[0].dims if name != dim and len({row.dims[name] for row in rows}) > 1]
    for row in rows:
        found.setdefault(", ".join(f"{name} = {row.dims[name]}" for name in others), []).append(row)
    return [(label, members) for label, members in found.items() if len(members) > 1]
