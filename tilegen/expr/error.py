"""The one error of the expression language."""

from __future__ import annotations


class ExprError(Exception):
    """Text that is no expression of the language; `start` and `end` are offsets into the text, end exclusive."""

    def __init__(self, message: str, start: int, end: int, help: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end
        self.help = help
