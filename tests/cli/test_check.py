"""`tilegen check`: exit codes, forms, the cache, and bad input of every kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tilegen import cache
from tilegen.check import report
from tilegen.cli import main

BROKEN = Path(__file__).parents[1] / "check" / "broken"
SPECS = Path(__file__).parents[2] / "specs"
GOOD = (SPECS.parent / "tests" / "check" / "plain_gemm.toml").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _fresh_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


def write(path: str, text: str) -> Path:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")
    return Path(path)


# -- what is checked


def test_without_arguments_the_folder_specs_is_checked() -> None:
    write("specs/one.toml", GOOD)
    write("specs/more/two.toml", GOOD.replace('"gemm_relu"', '"other"'))
    result = check()
    assert result.exit_code == 0
    assert [line.split(":")[0] for line in result.output.splitlines()] == ["specs/more/two.toml", "specs/one.toml"]


def test_a_kernel_is_found_by_its_name_whatever_its_file_is_called() -> None:
    write("specs/a_file.toml", GOOD)
    assert "specs/a_file.toml: gemm_relu passes" in check("gemm_relu").output


def test_a_spec_that_is_named_twice_is_checked_once() -> None:
    write("specs/a.toml", GOOD)
    assert check("specs", "specs/a.toml").output.count("passes") == 1


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("nothing.toml", "there is no file or folder `nothing.toml`"),
        ("empty", "the folder empty has no spec"),
        ("x" * 5000, "is no path and no kernel name"),
        ("a\0b", "there is no file or folder `a?b`"),
    ],
)
def test_what_names_no_spec_is_misuse(argument: str, message: str) -> None:
    Path("empty").mkdir()
    result = check(argument)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


def test_a_near_kernel_name_is_offered() -> None:
    write("specs/a.toml", GOOD)
    result = check("gemm_rel")
    assert result.exit_code == 2
    assert "did you mean `gemm_relu`?" in result.output


# -- bad files


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'kernel = "\xff"', "bad.toml:1:11"),
        (b"", "lacks `kernel`"),
        (b"\x00\x01\x02", "this is not TOML"),
        (b"a = " + b"[" * 10_000, "error["),
        (b'kernel = "x"\n' * 3, "is given twice"),
        (b"x" * ((1 << 20) + 1), "a spec has at most"),
    ],
    ids=["not UTF-8", "empty", "binary", "nested", "twice", "huge"],
)
def test_a_bad_file_is_a_finding_and_not_a_traceback(content: bytes, message: str) -> None:
    Path("bad.toml").write_bytes(content)
    result = check("bad.toml")
    assert result.exit_code == 1
    assert message in result.output
    assert isinstance(result.exception, SystemExit)


def test_a_file_that_cannot_be_read_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    write("locked.toml", GOOD)

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    result = check("locked.toml")
    assert result.exit_code == 1
    assert "cannot read locked.toml: Permission denied" in result.output


def test_one_bad_spec_does_not_hide_the_verdict_on_another() -> None:
    write("specs/a.toml", "nonsense")
    write("specs/b.toml", GOOD)
    result = check()
    assert result.exit_code == 1
    assert "specs/b.toml: gemm_relu passes" in result.output


# -- forms


def test_json_has_every_finding_with_its_place() -> None:
    result = check(BROKEN / "block_n_272_under_tma.toml", "--format", "json")
    value = json.loads(result.stdout)
    assert value["ok"] is False
    (spec,) = value["specs"]
    finding = spec["diagnostics"][0]
    assert finding["code"] == "TG-C2"
    assert (finding["span"]["line"], finding["span"]["column"]) == (20, 11)
    assert spec["rules"]["TG-C2"]["refuted"] == 2


def test_github_commands_escape_what_would_end_them() -> None:
    result = check(BROKEN / "threads_100.toml", "--format", "github")
    (line,) = result.stdout.splitlines()
    assert line.startswith("::error title=TG-A3 threads-whole-warps,file=")
    assert ",line=22,endLine=22,col=11,endColumn=13::threads are a whole number of warps%0A" in line


def test_github_shows_what_is_slow_as_a_warning_and_under_strict_as_an_error() -> None:
    slow = BROKEN.parent / "slow" / "row_pitch_4100.toml"
    assert check(slow, "--format", "github").stdout.startswith("::warning ")
    assert check(slow, "--format", "github", "--strict").stdout.startswith("::error ")


def test_markdown_is_a_table_and_a_list_of_findings() -> None:
    text = check(BROKEN / "threads_100.toml", "--format", "markdown").stdout
    assert text.startswith("| spec | kernel | result | proved | refuted | undecided |\n|---|")
    assert "| gemm_relu | fails |" in text
    assert "**error** TG-A3 threads-whole-warps:" in text


@pytest.mark.parametrize("form", ["text", "json", "github", "sarif", "markdown"])
def test_no_form_writes_colour_or_progress_when_piped(form: str) -> None:
    result = check(BROKEN, "--format", form)
    assert "\x1b" not in result.output
    assert "\r" not in result.output
    assert result.stderr == ""


def test_an_unknown_form_is_misuse() -> None:
    assert check("x", "--format", "yaml").exit_code == 2


# -- the cache


def test_a_second_check_takes_the_known_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.toml", GOOD)
    first = check("a.toml").output
    monkeypatch.setattr(report, "report_of", lambda *_: pytest.fail("it was checked again"))
    assert check("a.toml").output == first


def test_a_changed_spec_and_a_changed_path_are_checked_again() -> None:
    write("a.toml", GOOD)
    assert check("a.toml").exit_code == 0
    write("a.toml", GOOD.replace("threads = 256", "threads = 100"))
    assert check("a.toml").exit_code == 1
    Path("a.toml").rename("b.toml")
    assert "--> b.toml:" in check("b.toml").output


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"path": 1}', "null", "\x00", '{"diagnostics": [{}]}'])
def test_a_corrupt_entry_is_ignored(content: str) -> None:
    write("a.toml", GOOD)
    first = check("a.toml").output
    entries = list((cache.cache_folder() / "verdicts").rglob("*.json"))
    assert len(entries) == 1
    entries[0].write_text(content, encoding="utf-8")
    assert check("a.toml").output == first


def test_a_cache_that_cannot_be_written_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    write("a_file", "")
    monkeypatch.setenv("TILEGEN_CACHE_DIR", "a_file/below")
    write("a.toml", GOOD)
    assert check("a.toml").exit_code == 0


def test_a_cached_report_says_the_same_as_a_fresh_one() -> None:
    for spec in sorted(BROKEN.glob("*.toml")):
        fresh = check(spec, "--no-cache").output
        assert check(spec).output == fresh
        assert check(spec).output == fresh


# -- speed and imports


def run_python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "TILEGEN_CACHE_DIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=root, env=environment
    )


CHECK = """
import sys
from tilegen.cli import main
try:
    main(["check", "specs/gemm_relu.toml", "tests/check/broken"])
except SystemExit:
    pass
loaded = {{"torch", "tilelang", "tvm", {more}}} & set(sys.modules)
assert not loaded, loaded
"""


def test_a_check_imports_neither_torch_nor_tilelang_and_a_known_one_no_sympy_either(tmp_path: Path) -> None:
    cold = run_python(CHECK.format(more=""), tmp_path)
    assert cold.returncode == 0, cold.stderr
    warm = run_python(CHECK.format(more='"sympy", "pydantic", "z3", "tree_sitter", "rich"'), tmp_path)
    assert warm.returncode == 0, warm.stderr
    assert warm.stdout == cold.stdout


def test_the_version_imports_next_to_nothing(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom tilegen.cli import main\ntry:\n    main(['--version'])\nexcept SystemExit:\n    pass\n"
        "assert not {'sympy', 'pydantic', 'z3', 'torch', 'tilelang', 'rich', 'jinja2', 'numpy'} & set(sys.modules)"
    )
    done = run_python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tilegen ")


def test_a_known_verdict_takes_little_processor_time(tmp_path: Path) -> None:
    """The processor's time and not the clock's, which other work on the machine stretches."""
    run_python(CHECK.format(more=""), tmp_path)
    code = CHECK.format(more="") + "\nimport time\nprint(time.process_time(), file=sys.stderr)"
    seconds = min(float(run_python(code, tmp_path).stderr.splitlines()[-1]) for _ in range(3))
    assert seconds < 0.5


def test_checking_is_deterministic() -> None:
    first = [check(BROKEN / name, "--no-cache").output for name in ("grid_y_over.toml", "threads_100.toml")]
    again = [check(BROKEN / name, "--no-cache").output for name in ("threads_100.toml", "grid_y_over.toml")]
    assert first == again[::-1]
