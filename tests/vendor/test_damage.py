"""Folders, locks and manifests that were damaged or edited by hand: a clear message, and nothing half-written."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.vendor.conftest import ROOT, Upstream
from tilegen.cli import main
from tilegen.emit import tree
from tilegen.emit.tree import change_tree, read_tree, replace_tree

COMMANDS = (("--check",), ("--update",), ("--accept",), ("--kernels", "small_gemm"))


def entries(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def edit(text: bytes) -> bytes:
        content = json.loads(text)
        change(content)
        return json.dumps(content).encode()

    return edit


LOCKS = {
    "conflict": (lambda text: b"<<<<<<< HEAD\n" + text + b"=======\n" + text + b">>>>>>> theirs\n", "marks of a merge"),
    "latin": (lambda text: text + b"\xff", "cannot be read .*restore it from version control"),
    "list": (lambda _: b"[]", "an entry is of another type"),
    "no-origin": (entries(lambda lock: lock.pop("origin")), "no entry 'origin'"),
    "no-kernel": (entries(lambda lock: lock.update(kernels={})), "it names no kernel"),
    "backslashes": (
        entries(lambda lock: lock.update(files={name.replace("/", "\\"): "" for name in lock["files"]})),
        r"row_scale\\\S+ has backslashes: folders are parted by /",
    ),
    "outside": (entries(lambda lock: lock["files"].update({"../api.py": ""})), "is not one of a vendored file"),
    "no-text": (entries(lambda lock: lock["files"].update({"\udcff\0.py": ""})), "is not one of a vendored file"),
    "newer": (entries(lambda lock: lock.update(format=2)), "update tilegen"),
}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_edited_by_hand_is_refused_by_every_command(upstream: Upstream, kernels: Path, name: str) -> None:
    edit, said = LOCKS[name]
    (kernels / "tilegen.lock").write_bytes(edit((kernels / "tilegen.lock").read_bytes()))
    before = read_tree(kernels)
    for command in COMMANDS:
        assert re.search(said, upstream.vendor(kernels, *command, code=1))
    assert read_tree(kernels) == before


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_lock_that_an_editor_wrote_in_its_own_way_is_read(upstream: Upstream, kernels: Path, encoding: str) -> None:
    lock = kernels / "tilegen.lock"
    lock.write_bytes(lock.read_text().replace("\n", "\r\n").encode(encoding))
    assert "as vendored, and current" in upstream.vendor(kernels, "--check")
    upstream.grown()
    upstream.vendor(kernels, "--update")
    assert lock.read_bytes().startswith(b"{\n")


@pytest.mark.parametrize("damage", ["gone", "cut", "forged"])
def test_base_texts_that_are_damaged_are_no_start_of_a_merge(upstream: Upstream, kernels: Path, damage: str) -> None:
    base, lock = kernels / "tilegen.base", kernels / "tilegen.lock"
    content = bytearray(base.read_bytes())
    if damage == "gone":
        base.unlink()
    elif damage == "cut":
        base.write_bytes(content[:-30])
    else:  # with a hash to match, and a stream that does not unpack
        content[60] ^= 0xFF
        content[61] ^= 0x5A
        base.write_bytes(content)
        edit = entries(lambda lock: lock.update(base=hashlib.sha256(content).hexdigest()))
        lock.write_bytes(edit(lock.read_bytes()))
    before = read_tree(kernels)
    said = "missing: tilegen.base" if damage == "gone" else "damaged: tilegen.base"
    assert said in upstream.vendor(kernels, "--check", code=1)
    said = "is missing, and edits" if damage == "gone" else "is not what tilegen.lock says"
    assert said in upstream.vendor(kernels, "--update", code=1)
    assert read_tree(kernels) == before


def kernel_entry(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    return entries(lambda manifest: change(manifest["kernels"]["row_scale"]))


MANIFESTS = {
    "no-version": entries(lambda manifest: manifest.pop("tilegen")),
    "no-kernels": entries(lambda manifest: manifest.update(kernels={})),
    "a-list": entries(lambda manifest: manifest.update(kernels=[])),
    "no-spec": kernel_entry(lambda kernel: kernel["spec"].pop("path")),
    "no-targets": kernel_entry(lambda kernel: kernel.update(targets=None)),
    "no-hashes": kernel_entry(lambda kernel: kernel.update(files=list(kernel["files"]))),
    "outside": kernel_entry(lambda kernel: kernel["files"].update({"../../evil.py": "0" * 64})),
    "cut": lambda text: text[: len(text) // 2],
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_damaged_manifest_of_the_generated_tree_is_refused(
    upstream: Upstream, kernels: Path, tmp_path: Path, name: str
) -> None:
    manifest = upstream.generated / "manifest.json"
    manifest.write_bytes(MANIFESTS[name](manifest.read_bytes()))
    before = read_tree(kernels)
    for folder, command in (
        (kernels, ("--check",)),
        (kernels, ("--update",)),
        (tmp_path / "new", ("--kernels", "row_scale")),
    ):
        assert re.search("build the tree again|holds no kernels", upstream.vendor(folder, *command, code=1))
    packaged = CliRunner().invoke(main, ["package", "--name", "acme", "--from", str(upstream.generated)])
    assert (packaged.exit_code, packaged.output.startswith("error: ")) == (1, True)
    assert read_tree(kernels) == before
    assert not (tmp_path / "new").exists()


def test_a_folder_where_a_file_belongs_is_named_and_stays(upstream: Upstream, kernels: Path) -> None:
    (kernels / "row_scale" / "api.py").unlink()
    (kernels / "row_scale" / "api.py").mkdir()
    (kernels / "row_scale" / "api.py" / "mine").write_text("mine")
    before = read_tree(kernels)
    assert "missing: row_scale/api.py" in upstream.vendor(kernels, "--check", code=1)
    assert f"row_scale/api.py in {kernels} is a folder where a file" in upstream.vendor(kernels, "--update", code=1)
    assert read_tree(kernels) == before


def test_a_file_where_a_folder_belongs_is_named_and_stays(upstream: Upstream, tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "row_scale").write_text("mine")
    said = upstream.vendor(tmp_path / "kernels", "--kernels", "row_scale", code=1)
    assert f"row_scale in {tmp_path / 'kernels'} is a folder where a file belongs, or a file" in said
    assert read_tree(tmp_path / "kernels") == {"row_scale": b"mine"}


def test_a_pipe_is_unknown_and_is_not_read(upstream: Upstream, kernels: Path) -> None:
    """To read it would wait for ever."""
    os.mkfifo(kernels / "pipe")
    assert "unknown: pipe" in upstream.vendor(kernels, "--check", code=1)
    upstream.grown()
    assert "is a pipe, a socket or a device" in upstream.vendor(kernels, "--update", code=1)
    (kernels / "pipe").unlink()
    upstream.vendor(kernels, "--update")


def test_a_large_file_that_is_not_vendored_is_not_read(
    upstream: Upstream, kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kernels / "weights.bin").write_bytes(b"large")
    read: list[str] = []
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path.name) or real(path))  # type: ignore[func-returns-value]
    assert "unknown: weights.bin" in upstream.vendor(kernels, "--check", code=1)
    upstream.grown()
    upstream.vendor(kernels, "--update")
    assert "kernel.py" in read
    assert "weights.bin" not in read
    assert real(kernels / "weights.bin") == b"large"


@pytest.mark.parametrize("name", ["[a]", "*", "a b", "a\nb", "é", "%s", "-x", os.fsdecode(b"\xff")])
def test_a_folder_of_any_name_is_filled_checked_and_updated(upstream: Upstream, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "engine" / name
    upstream.vendor(folder, "--kernels", "row_scale")
    upstream.grown()
    assert "4 updated" in upstream.vendor(folder, "--update")
    assert "as vendored, and current" in upstream.vendor(folder, "--check")
    assert [path.name for path in folder.parent.iterdir()] == [name]


def test_a_file_whose_name_is_no_text_is_listed(upstream: Upstream, kernels: Path) -> None:
    (kernels / os.fsdecode(b"\xff.py")).write_text("")
    assert "unknown: \\udcff.py" in upstream.vendor(kernels, "--check", code=1)
    assert json.loads(upstream.vendor(kernels, "--check", "--format", "json", code=1))[0]["name"] == "\udcff.py"


def test_what_another_folder_is_in_the_middle_of_is_left_alone(upstream: Upstream, tmp_path: Path) -> None:
    """A name of a folder is no pattern."""
    (tmp_path / ".other.tilegen-1234").mkdir()
    upstream.vendor(tmp_path / "*", "--kernels", "row_scale")
    assert (tmp_path / ".other.tilegen-1234").exists()


def test_the_generated_tree_does_not_lie_in_a_vendored_folder(upstream: Upstream) -> None:
    before = read_tree(upstream.folder)
    for folder in (upstream.folder, Path("/")):
        assert "vendor into a folder of its own" in upstream.vendor(folder, "--kernels", "row_scale", code=1)
    assert read_tree(upstream.folder) == before


def test_an_update_from_within_the_folder_leaves_the_shell_where_it_is(upstream: Upstream, kernels: Path) -> None:
    """An exchange of names would leave it in the old folder, which is removed."""
    upstream.grown()
    tilegen = f"{sys.executable} -m tilegen vendor . --from {upstream.generated}"
    result = subprocess.run(
        ["sh", "-ec", f"{tilegen} --update; {tilegen} --check; ls; cd row_scale"],
        cwd=kernels,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert ".: 4 updated" in result.stdout
    assert "as vendored, and current" in result.stdout
    assert [path.name for path in kernels.parent.iterdir()] == ["kernels"]


def test_check_finishes_an_update_that_was_killed_half_way(
    upstream: Upstream, kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where names are not exchanged, files are moved one by one; half of them there is no edit of anybody."""
    upstream.grown()
    moved: list[str] = []
    real = os.replace

    def replace(source: Path, target: Path) -> None:
        if len(moved) == 3:
            raise KeyboardInterrupt
        moved.append(str(target))
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(tree, "_exchange", lambda _first, _second: False)
        patch.setattr(tree.os, "replace", replace)
        upstream.vendor(kernels, "--update", code=1)
    assert len(list(kernels.parent.iterdir())) == 3
    assert "as vendored, and current" in upstream.vendor(kernels, "--check")
    assert [path.name for path in kernels.parent.iterdir()] == ["kernels"]


@pytest.mark.parametrize("closed", ["out/a/b", "out", "."], ids=["inside", "the-folder", "above"])
@pytest.mark.parametrize("change", [change_tree, replace_tree])
def test_a_folder_that_may_not_be_changed_is_named_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path, dict[str, bytes]], None], closed: str
) -> None:
    """The old tree could not be removed after the exchange, and would lie beside the new one for ever."""
    replace_tree(tmp_path / "out", {"a/b/c.py": b"old"})
    monkeypatch.setattr(tree.os, "access", lambda path, _mode: Path(path) != tmp_path / closed)
    with pytest.raises(PermissionError) as raised:
        change(tmp_path / "out", {"a/b/c.py": b"new"})
    assert raised.value.filename == str(tmp_path / closed)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert read_tree(tmp_path / "out") == {"a/b/c.py": b"old"}


def test_a_file_that_cannot_be_copied_is_named(
    upstream: Upstream, kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copytree(*_arguments: object, **_options: object) -> None:
        raise tree.shutil.Error([("row_scale/api.py", "to", "Permission denied"), ("another", "to", "the same")])

    upstream.grown()
    monkeypatch.setattr(tree.shutil, "copytree", copytree)
    assert "error: row_scale/api.py: Permission denied" in upstream.vendor(kernels, "--update", code=1)
    assert [path.name for path in kernels.parent.iterdir()] == ["kernels"]


def test_an_edit_that_is_no_text_is_a_conflict_without_marks(upstream: Upstream, kernels: Path) -> None:
    edited = kernels / "row_scale" / "kernel.py"
    edited.write_bytes(edited.read_bytes() + b"# \xff\n")
    mine = edited.read_bytes()
    upstream.grown()
    said = upstream.vendor(kernels, "--update", code=1)
    assert "conflict: row_scale/kernel.py (no text, and changed on both sides" in said
    assert "settle what is in conflict" in said
    assert edited.read_bytes() == mine


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--version", "", "'' is not a version"),
        ("--version", "1.0\n", "is not a version"),
        ("--version", "latest", "is not a version"),
        ("--name", "a" * 300, "100 at most"),
        ("--name", "a/b", "cannot name a distribution"),
        ("--name", "é", "cannot name a distribution"),
        ("--name", "", "cannot name a distribution"),
    ],
)
def test_a_wheel_has_a_name_and_a_version(
    upstream: Upstream, tmp_path: Path, option: str, value: str, said: str
) -> None:
    named = {"--name": "acme", "--from": str(upstream.generated), "--out": str(tmp_path / "dist"), option: value}
    result = CliRunner().invoke(main, ["package", *(word for pair in named.items() for word in pair)])
    assert result.exit_code == 1
    assert said in result.output
    assert not (tmp_path / "dist").exists()
