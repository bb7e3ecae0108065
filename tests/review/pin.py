"""Writes what ``tilegen diff`` says of the ten commits into ``expected/``."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from click.testing import CliRunner

from tests.review import history
from tilegen.cli import main

if __name__ == "__main__":
    folder = Path(__file__).resolve().parent / "expected"
    with tempfile.TemporaryDirectory() as temporary:
        os.chdir(history.build(Path(temporary)))
        for name in history.COMMITS:
            result = CliRunner().invoke(main, ["diff", f"{name}~1", name, "--source"], catch_exceptions=False)
            (folder / f"{name}.txt").write_text(result.stdout)
        os.chdir("/")
