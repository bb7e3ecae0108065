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
    """Writes one panel for each dtype. ImportError without matplotlib; ValueError where nothing was timed or varies."""
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

    dtypes = list(dict.fromkeys(row.dtype for row in rows))
    figure, axes = pyplot.subplots(len(dtypes), 1, figsize=(9, 3.6 * len(dtypes)), squeeze=False, layout="constrained")
    for dtype, (axis,) in zip(dtypes, axes, strict=True):
        _panel(axis, result, [row for row in rows if row.dtype == dtype], dim, state)
        axis.set_title(f"{result.kernel}, {dtype}, {state} L2, {result.machine['card']}", loc="left", fontsize=10)
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def _panel(axis: Any, result: Result, rows: list[Row], dim: str, state: str) -> None:
    """One line for each call. Rows that share a size of the dim, such as several M, are lines of their own."""
    memory = all(row.bound == "memory" for row in rows)
    scale = 1e12
    amount = {id(row): row.bytes_moved if memory else row.flops for row in rows}
    groups = _groups(rows, dim)
    for number, (label, members) in enumerate(groups.items()):
        members.sort(key=lambda row: row.dims[dim])
        sizes = [row.dims[dim] for row in members]
        roof = [amount[id(row)] / row.roof_s / scale for row in members]
        axis.plot(sizes, roof, color="black", linewidth=1, linestyle="--", label="roof" if number == 0 else None)
        for position, name in enumerate(("ours", *result.peers)):
            points = [
                (size, amount[id(row)] / row.times[state][name].seconds.median / scale)
                for size, row in zip(sizes, members, strict=True)
                if name in row.times[state] and not (memory is False and name == "copy")
            ]
            if not points or (name in result.yardsticks and name != "copy"):
                continue
            title = result.kernel if name == "ours" else name
            axis.plot(
                *zip(*points, strict=True),
                marker="o" if len(points) < 40 else None,
                markersize=3,
                color=f"C{position}",
                linewidth=1.6 if name == "ours" else 1,
                alpha=1 - 0.6 * number / max(1, len(groups)),
                label=f"{title}{label}",
            )
    axis.set_xlabel(dim)
    axis.set_ylabel("TB/s" if memory else "TFLOPS")
    axis.set_ylim(bottom=0)
    if len({row.dims[dim] for row in rows}) > 2 and max(sizes) >= 64 * min(sizes) and len(sizes) < 40:
        axis.set_xscale("log", base=2)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)


def _groups(rows: list[Row], dim: str) -> dict[str, list[Row]]:
    """Rows by their other dims, as far as one size of ``dim`` stands in several rows."""
    sizes = [row.dims[dim] for row in rows]
    if len(sizes) == len(set(sizes)):
        return {"": list(rows)}
    found: dict[str, list[Row]] = {}
    others = [name for name in rows[0].dims if name != dim and len({row.dims[name] for row in rows}) > 1]
    for row in rows:
        label = ", " + ", ".join(f"{name}={row.dims[name]}" for name in others)
        found.setdefault(label, []).append(row)
    return found
