"""What a benchmark gives, as plain values: what the table, the plot and the JSON file show."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tilegen.bench.rounds import Spread

FORMAT = 1


@dataclass(frozen=True)
class Timing:
    """One call with one state of L2. ``ratio``: how many times as fast ours is; of a peer with work of its own, the ratio
    of the rates. None for ours.
    """

    seconds: Spread
    ratio: Spread | None = None


@dataclass(frozen=True)
class Row:
    """One shape and dtype. ``error`` is the greatest, in tolerances of the reference; ``times`` maps "cold" and "warm" to
    the timings by name, the kernel's own as "ours". ``missing`` says why a peer was not timed.
    """

    dims: Mapping[str, int]
    dtype: str
    flops: float
    bytes_moved: float
    roof_s: float
    bound: str
    tiles: Mapping[str, Any] = field(default_factory=dict)
    error: float | None = None
    times: Mapping[str, Mapping[str, Timing]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    failed: str = ""

    @property
    def right(self) -> bool:
        return not self.failed and (self.error is None or self.error <= 1)


@dataclass(frozen=True)
class Result:
    """A benchmark: ``machine`` names card, versions and date; ``yardsticks`` the peers whose work is their own. ``asked``
    is the number of rows that there would be without a limit of time.
    """

    kernel: str
    spec: str
    spec_sha256: str
    machine: Mapping[str, Any]
    rows: tuple[Row, ...]
    peers: tuple[str, ...]
    yardsticks: tuple[str, ...] = ()
    asked: int = 0

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"


class ResultError(ValueError):
    """A file that holds no benchmark; the message says why."""


def read_result(path: Path) -> Result:
    """The benchmark in a JSON file. Raises :class:`ResultError`."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.pop("format") != FORMAT:
            raise ResultError(f"{path} was written by another version of tilegen")
        rows = tuple(_row(entry) for entry in data.pop("rows"))
        return Result(**{**data, "peers": tuple(data["peers"]), "yardsticks": tuple(data["yardsticks"])}, rows=rows)
    except OSError as error:
        raise ResultError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, ResultError):
            raise
        raise ResultError(f"{path} is no result of `tilegen bench`: {error}") from None


def _row(entry: dict[str, Any]) -> Row:
    times = {
        state: {name: _timing(timing) for name, timing in timings.items()} for state, timings in entry["times"].items()
    }
    return Row(**{**entry, "times": times})


def _timing(entry: dict[str, Any]) -> Timing:
    ratio = entry["ratio"]
    return Timing(Spread(**entry["seconds"]), None if ratio is None else Spread(**ratio))


def best_ratio(result: Result, row: Row, state: str) -> float | None:
    """The ratio to the fastest peer that does the same work; None where there is none."""
    found = [
        timing.ratio.median
        for name, timing in row.times.get(state, {}).items()
        if timing.ratio is not None and name not in result.yardsticks
    ]
    return min(found) if found else None


def geometric_mean(values: Iterable[float]) -> float:
    """ValueError for none."""
    logs = [math.log(value) for value in values]
    if not logs:
        raise ValueError("no values")
    return math.exp(math.fsum(logs) / len(logs))
