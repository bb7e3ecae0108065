"""How commands write to a terminal."""

from __future__ import annotations

import os
from typing import IO


def use_color(stream: IO[str]) -> bool:
    """Colour is for terminals whose owner has not said no (``NO_COLOR``)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def bold(text: str, stream: IO[str]) -> str:
    return f"\x1b[1m{text}\x1b[0m" if use_color(stream) else text
