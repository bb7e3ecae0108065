"""Writes what ``tilegen diff`` says of the ten commits into ``expected/``: ``python -m tests.review.pin``."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from click.testing import CliRunner

from tests.review import history
from tilegen.cli import main


def told(name: str) -> str:
    """What is said of a commit, without how many lines of which generated file changed: that is the templates' affair."""
    result = CliRunner().invoke(main, ["diff", f"{name}~1", name], catch_exceptions=False)
    return "".join(line for line in result.stdout.splitlines(keepends=True) if "generated code: " not in line)


if __name__ == "__main__":
    folder = Path(__file__).resolve().parent / "expected"
    with tempfile.TemporaryDirectory() as temporary:
        os.chdir(history.build(Path(temporary)))
        for name in history.COMMITS:
            (folder / f"{name}.txt").write_text(told(name))
        os.chdir("/")
