"""`tilegen new`."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilegen import families
from tilegen.cli.check import command as check
from tilegen.cli.new import command
from tilegen.spec import load, load_bytes

KINDS = [
    (f"{name}/{variant}" if variant else name, name, variant)
    for name in families.names()
    for variant in [*([None] if families.section(name).compute else []), *families.section(name).variants]
]


@pytest.mark.parametrize(("argument", "family", "variant"), KINDS, ids=[k[0] for k in KINDS])
def test_the_spec_of_every_family_loads_as_it_is(argument: str, family: str, variant: str | None) -> None:
    result = CliRunner().invoke(command, [argument, "mine"])
    assert result.exit_code == 0
    spec = load_bytes(result.stdout.encode(), "mine.toml")
    assert (spec.kernel, spec.family, spec.variant) == ("mine", family, variant)
    # Every tile parameter that it sets and every dim is explained or plain; nothing is left to fill in.
    assert "TODO" not in result.stdout


@pytest.mark.parametrize("argument", [k[0] for k in KINDS if find_spec(f"tilegen.families.{k[1]}.plan")])
def test_the_spec_of_every_family_passes_every_check(argument: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    assert CliRunner().invoke(command, [argument, "mine", "-o", str(path)]).exit_code == 0
    result = CliRunner().invoke(check, ["--strict", "--no-cache", str(path)])
    assert (result.exit_code, result.exception) == (0, None), result.output


@pytest.mark.parametrize(("argument", "family", "variant"), KINDS, ids=[k[0] for k in KINDS])
def test_its_switched_off_target_loads_when_switched_on(argument: str, family: str, variant: str | None) -> None:
    text = CliRunner().invoke(command, [argument, "mine"]).stdout
    on = re.sub(r"(?m)^# (\[target\.sm_80\].*\n)# (tile = )", r"\1\2", text)
    assert [t.arch for t in load_bytes(on.encode(), "mine.toml").targets] == ["sm_90a", "sm_80"]


def test_a_file_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "specs" / "mine.toml"
    assert CliRunner().invoke(command, ["gemm", "mine", "-o", str(path)]).exit_code == 0
    assert load(path).kernel == "mine"
    path.write_text("kept")
    refused = CliRunner().invoke(command, ["gemm", "mine", "-o", str(path)])
    assert (refused.exit_code, path.read_text()) == (2, "kept")
    assert CliRunner().invoke(command, ["gemm", "mine", "-o", str(path), "--force"]).exit_code == 0
    assert load(path).kernel == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gem", "mine"], "did you mean `gemm`?"),
        (["gemm", "../mine"], "a kernel's name is a lower-case letter"),
        (["gemm", "class"], "`class` is a Python keyword"),
        (["attention/gqa", "mine"], "choose one of attention/mla_decode"),
        (["gemm/dual", "mine"], "choose one of gemm"),
    ],
)
def test_a_misuse_exits_2_and_says_what_there_is(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert message in result.output
