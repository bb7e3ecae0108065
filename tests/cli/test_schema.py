"""`tilegen schema`."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from tilegen.cli.schema import command
from tilegen.spec.schema import schema


def test_the_schema_goes_to_stdout_or_to_a_file(tmp_path: Path) -> None:
    printed = CliRunner().invoke(command, [])
    assert printed.exit_code == 0
    assert json.loads(printed.stdout) == schema()
    path = tmp_path / "tilegen.schema.json"
    written = CliRunner().invoke(command, ["-o", str(path)])
    assert (written.exit_code, written.stdout) == (0, "")
    assert path.read_text() == printed.stdout
