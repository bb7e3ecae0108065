"""What every command says of a file that cannot be read or written: one line, and no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tilegen.cli import main


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["schema", "-o", "file/schema.json"], "error: file: "),
        (["new", "gemm", "x", "-o", "file/x.toml"], "error: file"),
        (["package", "--name", "acme", "--from", "file"], "is a file"),
    ],
    ids=["schema", "new", "package"],
)
def test_a_file_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    result = CliRunner().invoke(main, arguments)
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (1, 2)
    assert says in result.output
    assert (tmp_path / "file").read_text() == "mine"


def test_a_failure_of_the_machine_that_is_of_no_file_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError("a fault of tilegen")

    monkeypatch.setattr("tilegen.spec.schema.schema", fail)
    with pytest.raises(OSError, match="a fault of tilegen"):
        CliRunner().invoke(main, ["schema"], catch_exceptions=False)
