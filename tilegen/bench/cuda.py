"""Timing on the GPU by events, and what card this is."""

from __future__ import annotations

import datetime
import subprocess
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tilegen import __version__
from tilegen.bench.rounds import Call
from tilegen.targets import Part, target

FLUSH_BYTES = 256 * 2**20
"""Written before each cold call: several times the L2 of any chip here."""

WARM_REPEAT = 10
"""Calls between one pair of events where L2 is warm: an event alone costs about half a microsecond."""

REST_S = 0.005
"""Pause before the samples of a call: a card at its power limit comes to the same clock before each."""

LONGEST_WAIT_S = 0.05


class CudaTimer:
    """Times calls on the current stream. The GPU waits until all calls of a round are queued, so host time never counts."""

    def __init__(self) -> None:
        import torch

        self._flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._hertz = getattr(properties, "clock_rate", 2_000_000) * 1e3

    def samples(self, call: Call, *, cold: bool, count: int) -> list[float]:
        """Seconds of ``count`` calls, after two that are not timed."""
        import torch

        started = time.perf_counter()
        call()
        call()
        host_s = (time.perf_counter() - started) / 2
        torch.cuda.synchronize()
        time.sleep(REST_S)
        repeat = 1 if cold else WARM_REPEAT
        found: list[float] = []
        together = count
        while len(found) < count:
            size = min(together, count - len(found))
            seconds, ahead = self._queued(call, cold, repeat, size, host_s * size * repeat * 1.5)
            if ahead or size == repeat == 1:
                found += seconds
            elif size > 1:
                together = size // 2
            else:
                repeat //= 2
        return found

    def _queued(self, call: Call, cold: bool, repeat: int, count: int, wait_s: float) -> tuple[list[float], bool]:
        """The seconds of ``count`` samples, and whether all were queued before the GPU came to the first of them.

        They are not where the queue of launches is too short for them, of which the driver holds about a thousand.
        """
        import torch

        torch.cuda._sleep(int(min(LONGEST_WAIT_S, wait_s) * self._hertz))  # type: ignore[no-untyped-call]
        begun = torch.cuda.Event()  # type: ignore[no-untyped-call]
        begun.record()
        pairs = [self._pair(call, cold, repeat) for _ in range(count)]
        ahead = not begun.query()  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        return [start.elapsed_time(end) / repeat / 1e3 for start, end in pairs], ahead

    def _pair(self, call: Call, cold: bool, repeat: int) -> tuple[Any, Any]:
        import torch

        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        if cold:
            self._flush.zero_()
        start.record()
        for _ in range(repeat):
            call()
        end.record()
        return start, end


def gpu_problem() -> str:
    """Why nothing can be timed here; empty where a GPU is."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    if torch.cuda.is_available():
        return ""
    return f"torch {torch.__version__} finds none"


def arch_of_gpu() -> str:
    """The architecture of the current GPU, as the generated code names it."""
    import torch

    runtime = import_module("tilegen.emit.support.runtime")
    arch: str = runtime.arch_of(torch.cuda.current_device())
    return arch


def machine(arch: str, sm_count: int) -> dict[str, Any]:
    """Card, versions and date of a measurement."""
    import torch

    return {
        "card": torch.cuda.get_device_name(),
        "arch": arch,
        "sm_count": sm_count,
        "driver": _driver(),
        "cuda": torch.version.cuda or torch.version.hip,
        "torch": torch.__version__,
        "tilelang": _version("tilelang"),
        "tilegen": __version__,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def part_of(arch: str, card: str) -> Part:
    """The data sheet of the card; that of the chip's first product where the card's own is not known."""
    parts = target(arch).parts
    return next((part for part in parts if part.name.split()[0] in card.split()), parts[0])


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return next(_lines(out), "unknown")


def _lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if line.strip())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
