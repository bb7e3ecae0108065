"""Times that `tilegen bench` has written: the JSON files of `bench/results/`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilegen.plan.model import ITEMSIZE

if TYPE_CHECKING:
    from tilegen.spec.model import Spec

FOLDER = Path("bench/results")
MOST_BYTES = 1 << 22


@dataclass(frozen=True)
class Measurement:
    """``seconds`` is the median of one call; ``width`` the bytes of an element of its operands."""

    arch: str
    card: str
    dims: Mapping[str, int]
    dtype: str
    width: int
    seconds: float
    note: str


def measurements(spec: Spec, folder: Path = FOLDER) -> list[Measurement]:
    """The measured shapes of a kernel, in the order of the files. A file that is no benchmark result is passed over."""
    found: list[Measurement] = []
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        if path.stat().st_size <= MOST_BYTES:
            found += parse(spec, path.read_text(encoding="utf-8", errors="replace"))
    return found


def parse(spec: Spec, text: str) -> list[Measurement]:
    """The measurements of a kernel in one result of `tilegen bench`; none in any other text."""
    try:
        data = json.loads(text)
        if data["kernel"] != spec.kernel:
            return []
        machine = data["machine"]
        return list(_rows(spec, str(machine["arch"]), str(machine["card"]), data["rows"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def _rows(spec: Spec, arch: str, card: str, rows: Iterable[dict[str, Any]]) -> Iterator[Measurement]:
    names = [dim.name for dim in spec.dims]
    for row in rows:
        dims = {name: int(row["dims"][name]) for name in names}
        dtype = str(row["dtype"])
        for state, times in sorted(row["times"].items()):
            if "ours" in times and dtype in ITEMSIZE:
                seconds = float(times["ours"]["seconds"]["median"])
                if seconds > 0:
                    note = f"{card}, {dtype}, {state} L2"
                    yield Measurement(arch, card, dims, dtype, ITEMSIZE[dtype], seconds, note)
