"""One call of each schedule under NVIDIA's tools: ncu for tensor-core use and stall reasons, compute-sanitizer for memory
errors, races and barriers. The tools run a process of their own; their output is read here, into one page.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilegen.bench.rendered import write_package
from tilegen.emit.rendering import context_of
from tilegen.plan.instances import Instance, instances
from tilegen.plan.roofline import roofline

if TYPE_CHECKING:
    from tilegen.spec.model import Spec

SANITIZERS = ("memcheck", "racecheck", "synccheck")
SECTIONS = ("SpeedOfLight", "ComputeWorkloadAnalysis", "WarpStateStats", "SchedulerStats", "Occupancy", "LaunchStats")
LIMIT_S = 500
STALLS_SHOWN = 4

SUMMARY = re.compile(r"(ERROR SUMMARY: (?P<errors>\d+) error|RACECHECK SUMMARY: (?P<hazards>\d+) hazard)")
STALL = re.compile(r"smsp__average_warps_issue_stalled_(?P<reason>\w+?)_per_issue_active\.ratio")
TENSOR = re.compile(r"sm__(inst_executed_)?pipe_tensor\w*\.\w+\.pct_of_peak_sustained_(active|elapsed)")


class ProfileError(RuntimeError):
    """A tool that is not there or did not run; the message holds its last lines."""


@dataclass(frozen=True)
class Point:
    """One call: ``tiles`` only where the tile rules of this chip would not give this schedule."""

    kernel: str
    schedule: str
    dims: Mapping[str, int]
    dtype: str
    tiles: Mapping[str, Any] | None

    @property
    def label(self) -> str:
        dims = " ".join(f"{name}={size}" for name, size in self.dims.items())
        return f"{self.kernel} {self.schedule} {self.dtype} {dims}"


@dataclass(frozen=True)
class Pages:
    """What the tools said, as Markdown; ``clean`` where no sanitizer reported anything and every result is right."""

    text: str
    clean: bool


def points(spec: Spec, arch: str, dtypes: Sequence[str]) -> list[Point]:
    """The smallest listed shape that reaches each schedule. One that only another chip uses is run with that chip's tiles."""
    found: dict[str, tuple[float, Instance]] = {}
    for target in sorted((entry.arch for entry in spec.targets), key=lambda name: name != arch):
        reached = set(found)
        for instance in instances(spec, target):
            schedule = instance.tiles["schedule"]
            if schedule in reached:
                continue
            work = roofline(instance.plan()).at(instance.dims, instance.plan().target.part).flops
            if schedule not in found or work < found[schedule][0]:
                found[schedule] = work, instance
    taken = {"schedule", "num_split", *context_of(spec)["factory_parameters"]}
    return [
        Point(spec.kernel, schedule, _in_order(spec, entry.dims), dtype, None if entry.arch == arch else tiles)
        for schedule, (_, entry) in found.items()
        if (tiles := {name: value for name, value in entry.tiles.items() if name in taken})
        for dtype in dtypes
    ]


def _in_order(spec: Spec, dims: Mapping[str, int]) -> dict[str, int]:
    return {dim.name: dims[dim.name] for dim in spec.dims}


def profile(
    spec: Spec,
    shapes: Sequence[Mapping[str, int]],
    dtypes: Sequence[str],
    tools: Iterable[str],
    say: Callable[[str], None],
    *,
    arch: str,
) -> Pages:
    """Runs each tool over ``shapes``, or where there are none over the smallest shape of each schedule."""
    chosen = [Point(spec.kernel, "", dict(dims), dtype, None) for dims in shapes for dtype in dtypes]
    chosen = chosen or points(spec, arch, dtypes)
    lines, clean = [f"# {spec.kernel} under NVIDIA's tools", ""], True
    with tempfile.TemporaryDirectory(prefix="tilegen-profile-") as folder:
        write_package(spec, Path(folder))
        say(f"compiling for {len(chosen)} calls")
        _run(_once(folder, chosen, "--compile"))
        for tool in tools:
            say(f"{tool}: {len(chosen)} calls")
            if tool == "ncu":
                lines += ncu_page(_run(_ncu(spec.kernel, folder, chosen)), chosen)
                continue
            page, found = sanitizer_page(tool, _run(_sanitizer(tool, folder, chosen), (0, 1)), chosen)
            lines += page
            clean = clean and not found
    return Pages("\n".join(lines).rstrip() + "\n", clean)


def _once(folder: str, chosen: Sequence[Point], *options: str) -> list[str]:
    entries = [{"kernel": p.kernel, "dims": p.dims, "dtype": p.dtype, "tiles": p.tiles} for p in chosen]
    return [sys.executable, "-m", "tilegen.bench.once", *options, folder, json.dumps(entries)]


def _ncu(kernel: str, folder: str, chosen: Sequence[Point]) -> list[str]:
    sections = [word for section in SECTIONS for word in ("--section", section)]
    filters = ["--kernel-name", f"regex:{kernel}", "--target-processes", "all"]
    return [_tool("ncu"), "--csv", "--page", "raw", *sections, *filters, *_once(folder, chosen)]


def _sanitizer(tool: str, folder: str, chosen: Sequence[Point]) -> list[str]:
    options = ["--tool", tool, "--error-exitcode", "1", "--target-processes", "all", "--print-limit", "20"]
    return [_tool("compute-sanitizer"), *options, *_once(folder, chosen)]


def _tool(name: str) -> str:
    path = shutil.which(name) or next((str(p) for p in Path("/usr/local").glob(f"cuda*/bin/{name}")), None)
    if path is None:
        raise ProfileError(f"{name} is not installed")
    return path


def _run(command: Sequence[str], good: Sequence[int] = (0,)) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise ProfileError(f"{Path(command[0]).name} took more than {LIMIT_S} s") from None
    text = done.stdout + done.stderr
    if done.returncode not in good:
        tail = "\n".join(text.strip().splitlines()[-12:])
        raise ProfileError(f"{Path(command[0]).name} exits {done.returncode}:\n{tail}")
    return text


def ncu_page(text: str, chosen: Sequence[Point]) -> list[str]:
    """The raw CSV page of ncu as a table: a row for each kernel that was launched. Raises :class:`ProfileError`."""
    rows = ncu_rows(text)
    if not rows:
        tail = "\n".join(text.strip().splitlines()[-8:])
        raise ProfileError(f"ncu measured no kernel:\n{tail}")
    lines = ["## ncu", "", "Calls, in order: " + "; ".join(point.label for point in chosen) + ".", ""]
    lines += [
        "| kernel | us | registers | tensor cores, % | DRAM, % | warps active, % | stalled most by (warps an issue) |"
    ]
    lines += ["|---|--:|--:|--:|--:|--:|---|"]
    for row in rows:
        stalls = sorted(stall_reasons(row).items(), key=lambda item: -item[1])[:STALLS_SHOWN]
        cells = (
            _short(row.get("Kernel Name", "")),
            _number(row, "gpu__time_duration.sum", 1e-3),
            _number(row, "launch__registers_per_thread"),
            tensor_use(row),
            _number(row, "dram__throughput.avg.pct_of_peak_sustained_elapsed")
            or _number(row, "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"),
            _number(row, "sm__warps_active.avg.pct_of_peak_sustained_active"),
            ", ".join(f"{reason} {value:.2f}" for reason, value in stalls),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def ncu_rows(text: str) -> list[dict[str, str]]:
    """The rows of ncu's CSV, without what the program printed before it and without the row of units."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        return []
    table = [line for line in lines[start:] if line.startswith('"')]
    return [row for row in csv.DictReader(table) if row["ID"].strip()]


def stall_reasons(row: Mapping[str, str]) -> dict[str, float]:
    """Warps that wait for each reason while one instruction is issued; what is not waiting is left out."""
    found = {}
    for name, value in row.items():
        match = STALL.fullmatch(name or "")
        if match and match["reason"] not in ("selected", "not_selected") and (number := _float(value)) is not None:
            found[match["reason"]] = number
    return found


def tensor_use(row: Mapping[str, str]) -> str:
    """The busiest tensor pipe, in per cent of its peak."""
    found = [
        number for name, value in row.items() if TENSOR.fullmatch(name or "") and (number := _float(value)) is not None
    ]
    return f"{max(found):.1f}" if found else ""


def sanitizer_page(tool: str, text: str, chosen: Sequence[Point]) -> tuple[list[str], int]:
    """The tool's own summary and first reports, and how many things it found. A wrong result counts as one."""
    lines = [line.rstrip() for line in text.splitlines()]
    summaries = [match for line in lines if (match := SUMMARY.search(line))]
    if not summaries:
        tail = "\n".join(lines[-8:])
        raise ProfileError(f"{tool} gave no summary:\n{tail}")
    found = sum(int(match["errors"] or match["hazards"]) for match in summaries)
    ran = [line for line in lines if line.startswith("tilegen: ")]
    wrong = sum(not float(line.rsplit(" ", 1)[1]) <= 1 for line in ran)
    reports = [line for line in lines if line.startswith("=========")]
    page = [
        f"## compute-sanitizer --tool {tool}",
        "",
        f"{len(ran)} of {len(chosen)} calls, {found} reports, {wrong} wrong.",
        "",
    ]
    page += [f"* {point.label}" for point in chosen]
    return [*page, "", "```", *reports[:40], "```", ""], found + wrong + (len(ran) < len(chosen))


def _short(name: str) -> str:
    return name.split("(")[0]


def _number(row: Mapping[str, str], name: str, scale: float = 1.0) -> str:
    number = _float(row.get(name))
    return "" if number is None else f"{number * scale:.4g}"


def _float(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None
