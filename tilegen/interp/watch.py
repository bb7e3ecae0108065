"""One element of a buffer that is watched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.interp.findings import InvalidKernelError, Site
from tilegen.interp.frame import Frame


@dataclass
class Watch:
    """One element of a buffer whose writes are printed in order: each time that an operation has changed it."""

    buffer: str
    index: tuple[int, ...]
    print_line: Callable[[str], None]
    last: bytes | None = None
    shown: str = ""

    def check(self, name: str, shape: tuple[int, ...]) -> None:
        """Raise ``InvalidKernelError`` if the buffer has no such element."""
        if len(self.index) != len(shape) or any(part >= extent for part, extent in zip(self.index, shape, strict=True)):
            raise InvalidKernelError(f"{name} has the shape {shape}: it has no element {list(self.index)}")

    def show(self, frame: Frame, site: Site, value: Any) -> None:
        bits = np.asarray(value).tobytes()
        if bits == self.last:
            return
        self.last = bits
        place = ", ".join(str(part) for part in self.index)
        where = "".join(f", {name} = {number}" for name, number in site.loop_values(frame.environment).items())
        threads = f", threads {int(frame.threads[0])} to {int(frame.threads[-1])}" if frame.task is not None else ""
        shown, before = str(value).replace("\n", " "), self.shown
        self.shown = shown
        self.print_line(
            f"block {frame.block.coordinates}{where}{threads}: {self.buffer}[{place}] = {shown}"
            + (f" (was {before})" if before else "")
            + f"  by `{site.operation}`"
            + (f" at {site.place}" if site.place is not None else "")
        )
