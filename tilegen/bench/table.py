"""A benchmark as a table: rich on a terminal, Markdown in a file. Both print the same cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from tilegen.bench.result import Result, Row, best_ratio, geometric_mean

STATES = {"cold": "cold L2", "warm": "warm L2"}


@dataclass(frozen=True)
class Table:
    """``numbers`` says of each column whether it is set to the right."""

    title: str
    columns: tuple[str, ...]
    numbers: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    summary: tuple[str, ...] = ()


def tables(result: Result) -> list[Table]:
    """One table for each state of L2; the roofline alone where nothing was timed."""
    states = [state for state in STATES if any(state in row.times for row in result.rows)]
    if not states:
        return [_roofline(result)]
    return [_timed(result, state) for state in states]


def microseconds(seconds: float) -> str:
    us = seconds * 1e6
    return f"{us:.2f}" if us < 99.995 else f"{us:.1f}"


def rate(row: Row, seconds: float) -> str:
    """What bounds the row, a second: TFLOPS or TB/s."""
    if row.bound == "memory":
        return f"{row.bytes_moved / seconds / 1e12:.2f} TB/s"
    return f"{row.flops / seconds / 1e12:.0f} TFLOPS"


def tiles_text(row: Row) -> str:
    """The schedule and the blocks of a tile, short: ``persistent 128x256x64``."""
    blocks = "x".join(str(value) for name, value in row.tiles.items() if name.startswith("BLOCK_"))
    return " ".join(part for part in (str(row.tiles.get("schedule", "")), blocks) if part)


def _roofline(result: Result) -> Table:
    dims = _dim_names(result)
    rows = tuple(
        (
            *(str(row.dims[name]) for name in dims),
            row.dtype,
            f"{row.flops / 1e9:.4g}",
            f"{row.bytes_moved / 1e6:.4g}",
            microseconds(row.roof_s),
            row.bound,
        )
        for row in result.rows
    )
    columns = (*dims, "dtype", "GFLOP", "MB", "least, us", "bound by")
    numbers = (*(True for _ in dims), False, True, True, True, False)
    return Table(f"{result.kernel}: roofline of {result.machine['card']}", columns, numbers, rows)


def _timed(result: Result, state: str) -> Table:
    dims, peers = _dim_names(result), result.peers
    several = len([name for name in peers if name not in result.yardsticks]) > 1
    columns = [*dims, "dtype", "us", "10 to 90 %", "rate", "of roof"]
    for name in peers:
        columns += [f"{name}, us", f"to {name}"]
    columns += ["to the best", "tile"] if several else ["tile"]
    texts = {"dtype", "tile"}
    rows = tuple(tuple(_cells(result, row, state, dims, several)) for row in result.rows)
    numbers = tuple(column not in texts for column in columns)
    title = f"{result.kernel} on {result.machine['card']}, {STATES[state]}"
    return Table(title, tuple(columns), numbers, rows, tuple(_summary(result, state, several)))


def _cells(result: Result, row: Row, state: str, dims: Sequence[str], several: bool) -> Iterator[str]:
    yield from (str(row.dims[name]) for name in dims)
    yield row.dtype
    times = row.times.get(state)
    if not times:
        error = "" if row.error is None else f"error {row.error:.3g} tolerances"
        yield from ("WRONG" if not row.failed else "FAILED", row.failed or error, "", "")
        yield from ("" for _ in range(2 * len(result.peers) + several))
        yield tiles_text(row)
        return
    ours = times["ours"].seconds
    yield microseconds(ours.median)
    yield f"{microseconds(ours.low)} to {microseconds(ours.high)}"
    yield rate(row, ours.median)
    yield f"{row.roof_s / ours.median:.3f}"
    for name in result.peers:
        timing = times.get(name)
        yield microseconds(timing.seconds.median) if timing else "-"
        yield f"{timing.ratio.median:.3f}" if timing and timing.ratio else "-"
    if several:
        best = best_ratio(result, row, state)
        yield "-" if best is None else f"{best:.3f}"
    yield tiles_text(row)


def _summary(result: Result, state: str, several: bool) -> Iterator[str]:
    """For each dtype and peer: the geometric mean of the ratios, how many reach 1, and the worst."""
    for dtype in dict.fromkeys(row.dtype for row in result.rows):
        rows = [row for row in result.rows if row.dtype == dtype and state in row.times]
        for name in (*result.peers, *(("the best",) if several else ())):
            ratios = [value for row in rows if (value := _ratio_to(result, row, state, name)) is not None]
            if ratios:
                yield (
                    f"{dtype}, to {name}: geometric mean {geometric_mean(ratios):.3f}, "
                    f"{sum(value >= 1 for value in ratios)} of {len(ratios)} at or above 1, lowest {min(ratios):.3f}"
                )
    wrong = sum(not row.right for row in result.rows)
    yield f"{len(result.rows) - wrong} of {len(result.rows)} rows checked against the reference before timing" + (
        f"; {wrong} WRONG" if wrong else ""
    )
    if result.asked > len(result.rows):
        yield f"out of time after {len(result.rows)} of {result.asked} rows"
    for reason in dict.fromkeys(reason for row in result.rows for reason in row.missing.values()):
        yield f"not timed: {reason}"


def _ratio_to(result: Result, row: Row, state: str, name: str) -> float | None:
    if name == "the best":
        return best_ratio(result, row, state)
    timing = row.times[state].get(name)
    return timing.ratio.median if timing is not None and timing.ratio is not None else None


def _dim_names(result: Result) -> list[str]:
    """The dims that differ between rows; all of them where none does."""
    names = list(result.rows[0].dims) if result.rows else []
    varying = [name for name in names if len({row.dims[name] for row in result.rows}) > 1]
    return varying or names


def constant_dims(result: Result) -> dict[str, int]:
    """The dims that are the same in every row of a result whose table leaves them out."""
    shown = _dim_names(result)
    return {name: size for name, size in result.rows[0].dims.items() if name not in shown} if result.rows else {}


def markdown(result: Result) -> str:
    """The whole benchmark as a page: what was measured where, and its tables."""
    lines = [f"# {result.kernel}", "", f"{_sentence(result)}", ""]
    for table in tables(result):
        lines += [f"## {table.title}", "", _line(table.columns)]
        lines.append(_line(["--:" if number else "---" for number in table.numbers]))
        lines += [_line(row) for row in table.rows]
        lines += ["", *(f"* {entry}" for entry in table.summary), ""]
    return "\n".join(lines).rstrip() + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def _sentence(result: Result) -> str:
    words = [
        f"{name} {value}" for name, value in result.machine.items() if name in ("driver", "cuda", "torch", "tilelang")
    ]
    fixed = ", ".join(f"{name} = {size}" for name, size in constant_dims(result).items())
    return (
        f"{result.machine['card']}, {', '.join(words)}; {result.machine.get('date', '')}. {result.spec} "
        f"(sha256 {result.spec_sha256[:16]}). Random inputs; peers interleaved in shuffled rounds of one run; a ratio is the "
        f"peer's time over ours, taken within a round, its median over the rounds." + (f" {fixed}." if fixed else "")
    )


def show(result: Result, stream: IO[str]) -> None:
    """Prints the tables to a terminal or a pipe."""
    from rich.console import Console
    from rich.table import Table as RichTable

    console = Console(file=stream, width=None if stream.isatty() else 400, highlight=False)
    for table in tables(result):
        shown = RichTable(title=table.title, title_justify="left", box=None, header_style="bold", pad_edge=False)
        for column, number in zip(table.columns, table.numbers, strict=True):
            shown.add_column(column, justify="right" if number else "left", no_wrap=True)
        for row in table.rows:
            shown.add_row(*row, style="red" if "WRONG" in row or "FAILED" in row else None)
        console.print(shown)
        fixed = ", ".join(f"{name} = {size}" for name, size in constant_dims(result).items())
        for line in (*([fixed] if fixed else []), *table.summary):
            console.print(line, markup=False)
        console.print()
