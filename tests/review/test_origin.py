"""Every line of generated code that a key of the spec changes is explained by that key."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.review import history
from tilegen.cli import main
from tilegen.emit.rendering import render
from tilegen.review.origin import Origin, origins
from tilegen.review.source import _Text
from tilegen.spec.loading import load_bytes
from tilegen.spec.model import Spec

ROOT = Path(__file__).parents[2]


def spec_of(text: str) -> Spec:
    return load_bytes(text.encode(), "specs/x.toml")


def text_of(name: str) -> str:
    return {"linear": history.LINEAR, "norm": history.NORM}.get(name) or (ROOT / "specs" / f"{name}.toml").read_text()


def changed_lines(before: str, after: str) -> list[int]:
    """Numbers of the lines of ``after`` that are new or others, without the module's docstring and hashes."""
    old, new = _Text(before), _Text(after)
    matcher = difflib.SequenceMatcher(None, old.plain, new.plain, autojunk=False)
    return [new.skipped + j + 1 for tag, _, _, j1, j2 in matcher.get_opcodes() if tag != "equal" for j in range(j1, j2)]


EDITS = [
    ("linear", "BLOCK_K = 64", "BLOCK_K = 32", "tile.BLOCK_K"),
    ("linear", "stages = 3", "stages = 2", "tile.stages"),
    ("linear", "panel = 10", "panel = 8", "tile.swizzle"),
    ("linear", "relu(acc)", "silu(acc)", "compute.c"),
    ("linear", "65_536", "131_072", "dims.M"),
    ("linear", 'dtype = "float16"', 'dtype = ["float16", "bfloat16"]', "tensors.a.dtype"),
    ("linear", 'policy = "square"', 'policy = "full_col"', "tile.policy"),
    ("linear", "values = [1024, 4096] }\nK", "values = [1024, 2048, 4096] }\nK", "dims.N"),
    ("norm", "C <= 1024", "C <= 512", "dims.C"),
    ("norm", "eps = 1e-5", "eps = 1e-6", "compute.eps"),
    ("norm", "silu(x * rstd * gamma)", "relu(x * rstd * gamma)", "compute.y"),
    ("rms_silu", '{ use = 128,  when = "C == 256" }', '{ use = 256,  when = "C == 256" }', "tile.BLOCK_C"),
    ("gemm_relu", "{ use = 6, when", "{ use = 5, when", "tile.stages"),
    ("mla_decode", "{ stages = 1 }", "{ stages = 1, BLOCK_N = 32 }", "tile.BLOCK_N"),
]


@pytest.mark.parametrize(("name", "old", "new", "path"), EDITS)
def test_a_line_that_a_key_changes_names_the_key(name: str, old: str, new: str, path: str) -> None:
    text = text_of(name)
    assert old in text
    spec = spec_of(text.replace(old, new, 1))
    before, after = render(spec_of(text)).files, render(spec).files
    file = "kernel.py" if path != "compute.eps" else "reference.py"
    found = origins(spec, file, after[file])
    lines = changed_lines(before[file], after[file])
    assert lines, "the edit changes nothing: choose another"
    for number in lines:
        origin = found[number - 1]
        if origin.text.strip() and not origin.text.strip().startswith(('"""', "#")):
            assert any(cause.path.partition("[")[0].endswith(path) for cause in origin.causes), origin


def kernel_of(name: str) -> tuple[Spec, list[Origin], str]:
    spec = spec_of(text_of(name))
    text = render(spec).files["kernel.py"]
    return spec, origins(spec, "kernel.py", text), text


def only(found: list[Origin], text: str) -> Origin:
    (origin,) = [entry for entry in found if entry.text.strip() == text]
    return origin


def test_a_product_is_decided_by_the_tile_the_policy_and_the_operands() -> None:
    _, found, _ = kernel_of("linear")
    (origin,) = [entry for entry in found if entry.text.strip().startswith("T.gemm(")]
    assert origin.construct is not None
    assert origin.construct.what == "a product on the tensor cores"
    paths = {cause.path for cause in origin.causes}
    assert {"tile.BLOCK_M", "tile.BLOCK_N", "tile.BLOCK_K", "tile.threads", "tile.policy", "tensors.a.dtype"} <= paths


def test_a_branch_of_the_tile_rules_names_the_line_of_its_rule() -> None:
    _, found, _ = kernel_of("rms_silu")
    source = text_of("rms_silu").split("\n")
    (cause,) = only(found, "elif C <= 1280:").causes
    assert cause.span is not None
    assert 'when = "C <= 1280"' in source[cause.span.line - 1]


def test_a_case_of_a_table_names_one_rule_for_each_parameter() -> None:
    _, found, _ = kernel_of("mla_decode")
    lines = [entry for entry in found if entry.text.strip().startswith("return dict(BLOCK_H=16")]
    assert all("tile.BLOCK_H[0]" in {cause.path for cause in entry.causes} for entry in lines)
    assert any(any("num_split[1]" in cause.path for cause in entry.causes) for entry in lines)


def test_a_branch_of_a_winner_names_its_place_in_the_lock() -> None:
    spec = load_bytes(history.NORM.encode(), "specs/norm.toml", history.LOCK.encode())
    found = origins(spec, "kernel.py", render(spec).files["kernel.py"])
    tuned = [entry for entry in found if any(cause.path.startswith("winner[0]") for cause in entry.causes)]
    assert tuned[0].text.strip() == "if M <= 1024:"
    (cause,) = tuned[0].causes
    assert cause.span is not None
    assert (cause.path, cause.span.file, cause.span.line) == ("winner[0].when", "specs/norm.tune.toml", 3)
    rest = next(entry for entry in found if "BLOCK_C=64" in entry.text and entry.number > tuned[-1].number)
    assert "tile.BLOCK_C" in {cause.path for cause in rest.causes}


def explain(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments], catch_exceptions=False)


@pytest.fixture
def generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one spec and its generated sources; the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "linear.toml").write_text(history.LINEAR)
    from tilegen.spec.loading import load

    folder = tmp_path / "generated" / "linear"
    folder.mkdir(parents=True)
    for name, text in render(load(Path("specs/linear.toml"))).files.items():
        (folder / name).write_text(text)
    return folder


def line_with(path: Path, text: str) -> int:
    return next(number for number, line in enumerate(path.read_text().split("\n"), 1) if text in line)


def test_explain_shows_the_spec_line_and_the_rules_behind(generated: Path) -> None:
    number = line_with(generated / "kernel.py", "T.gemm(")
    result = explain(f"generated/linear/kernel.py:{number}")
    assert result.exit_code == 0
    assert 'specs/linear.toml:27\n      policy = "square"' in result.stdout
    assert "TG-D3   warp-partition" in result.stdout
    assert "proved" in result.stdout
    (entry,) = json.loads(explain(f"generated/linear/kernel.py:{number}", "--format", "json").stdout)
    assert entry["schedule"] == "plain"
    assert "TG-D3" in {rule["code"] for rule in entry["rules"]}


def test_a_line_of_an_edited_file_is_found_again_and_a_new_one_is_said_to_be_by_hand(generated: Path) -> None:
    file = generated / "kernel.py"
    lines = file.read_text().split("\n")
    number = line_with(file, "T.gemm(")
    file.write_text("\n".join([*lines[: number - 1], "                T.print(acc)", *lines[number - 1 :]]))
    assert "written by hand" in explain(f"generated/linear/kernel.py:{number}").stdout
    assert "a product on the tensor cores" in explain(f"generated/linear/kernel.py:{number + 1}").stdout.lower()


@pytest.mark.parametrize(
    ("change", "place", "says"),
    [
        (
            lambda root: (root / "specs/linear.toml").write_text(history.LINEAR + "\n"),
            "kernel.py:3",
            "has changed since",
        ),
        (lambda root: (root / "specs/linear.toml").unlink(), "kernel.py:3", "is not here; say where it is with --spec"),
        (lambda root: None, "kernel.py:999999", "lines"),
        (lambda root: None, "absent.py:1", "cannot read"),
        (
            lambda root: (root / "generated/linear/kernel.py").write_text("x = 1\n"),
            "kernel.py:1",
            "no folder that tilegen",
        ),
    ],
)
def test_what_cannot_be_explained_is_misuse(generated: Path, change, place: str, says: str) -> None:  # type: ignore[no-untyped-def]
    change(generated.parents[1])
    result = explain(f"generated/linear/{place}")
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_support_file_is_the_same_beside_every_kernel(generated: Path) -> None:
    assert "is the same beside every kernel" in explain("generated/linear/_runtime.py:5").stdout


def test_a_vendored_copy_is_explained_with_the_spec_named(generated: Path, tmp_path: Path) -> None:
    away = tmp_path / "other" / "a" / "b"
    away.mkdir(parents=True)
    generated.rename(away / "linear")
    number = line_with(away / "linear" / "kernel.py", "T.use_swizzle")
    (tmp_path / "specs").rename(tmp_path / "moved")
    result = explain(f"{away}/linear/kernel.py:{number}", "--spec", "moved/linear.toml")
    assert "swizzle = { panel = 10" in result.stdout


def test_a_line_of_the_docstring_names_what_it_quotes() -> None:
    spec = spec_of(text_of("norm"))
    found = origins(spec, "kernel.py", render(spec).files["kernel.py"])
    paths = {cause.path for cause in found[0].causes}
    assert paths == {"kernel", "compute.norm", "compute.y"}
    budget = next(origin for origin in found if origin.text.startswith("Budget on sm_90a"))
    assert [cause.path for cause in budget.causes] == ["target.sm_90a"]
    quiet = next(origin for origin in found if origin.text.startswith("Change the spec"))
    assert (quiet.causes, quiet.docstring) == ((), True)
