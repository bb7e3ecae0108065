"""Vendored folders as they come to be: other line ends, links, folders in folders, kernels and targets that come and go."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.vendor.conftest import GEMM, Upstream
from tilegen.cli import main
from tilegen.emit.tree import read_tree


def crlf(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def test_line_ends_of_another_system_are_no_edit_that_an_update_trips_over(upstream: Upstream, kernels: Path) -> None:
    crlf(kernels / "row_scale" / "kernel.py")
    upstream.grown()
    assert "conflict" not in upstream.vendor(kernels, "--update")
    assert b"\r" not in (kernels / "row_scale" / "kernel.py").read_bytes()
    upstream.vendor(kernels, "--check")


def test_an_edit_under_other_line_ends_is_merged(upstream: Upstream, kernels: Path) -> None:
    source = kernels / "row_scale" / "kernel.py"
    source.write_text(source.read_text() + "\nENGINE = 'acme'\n")
    crlf(source)
    upstream.grown()
    assert "1 merged" in upstream.vendor(kernels, "--update")
    text = source.read_text()
    assert text.endswith("ENGINE = 'acme'\n")
    assert "BLOCK_M=32" in text


def test_a_folder_that_is_a_link_is_not_written_through(upstream: Upstream, kernels: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    shutil.move(kernels / "row_scale", outside)
    (kernels / "row_scale").symlink_to(outside)
    before = read_tree(outside)
    said = upstream.vendor(kernels, "--check", code=1)
    assert said.startswith("edited: row_scale (a link to another folder, which is not looked into)\n1 difference;")
    upstream.grown()
    assert "is not written through" in upstream.vendor(kernels, "--update", code=1)
    assert read_tree(outside) == before
    assert (kernels / "row_scale").is_symlink()


def test_a_file_that_is_a_link_is_replaced_and_its_aim_stays(upstream: Upstream, kernels: Path, tmp_path: Path) -> None:
    source, aim = kernels / "row_scale" / "kernel.py", tmp_path / "aim.py"
    shutil.move(source, aim)
    source.symlink_to(aim)
    before = aim.read_bytes()
    upstream.grown()
    upstream.vendor(kernels, "--update")
    assert aim.read_bytes() == before
    assert not source.is_symlink()


def test_a_link_to_nothing_is_in_nobodys_way(upstream: Upstream, kernels: Path) -> None:
    (kernels / "x").symlink_to("nowhere")
    upstream.vendor(kernels, "--check")
    upstream.grown()
    upstream.vendor(kernels, "--update")
    assert (kernels / "x").is_symlink()


def test_a_destination_that_is_a_link_stays_one(upstream: Upstream, kernels: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(kernels)
    upstream.grown()
    upstream.vendor(link, "--update")
    assert link.is_symlink()
    upstream.vendor(kernels, "--check")


def test_a_folder_vendored_inside_another_is_its_own(upstream: Upstream, kernels: Path) -> None:
    upstream.vendor(kernels / "inner", "--kernels", "small_gemm")
    upstream.vendor(kernels, "--check")
    inner = read_tree(kernels / "inner")
    upstream.grown()
    upstream.vendor(kernels, "--update")
    assert read_tree(kernels / "inner") == inner
    upstream.vendor(kernels / "inner", "--check")


def test_the_generated_tree_is_no_place_to_vendor_into(upstream: Upstream) -> None:
    before = read_tree(upstream.generated)
    for folder in (upstream.generated, upstream.generated / "sub"):
        assert "lies in generated" in upstream.vendor(folder, "--kernels", "row_scale", code=1)
    assert read_tree(upstream.generated) == before


def test_a_folder_is_filled_from_one_tree(upstream: Upstream, kernels: Path, tmp_path: Path) -> None:
    other = Upstream(tmp_path / "other", small_gemm=GEMM)
    before = read_tree(kernels)
    said = upstream.vendor(kernels, "--kernels", "small_gemm", "--from", other.generated, code=1)
    assert "holds row_scale, of another generated tree" in said
    assert read_tree(kernels) == before


def test_a_target_that_comes_upstream_comes_with_the_update_unless_targets_were_chosen(
    upstream: Upstream, kernels: Path, tmp_path: Path
) -> None:
    chosen = tmp_path / "engine" / "chosen"
    upstream.vendor(chosen, "--kernels", "row_scale", "--targets", "sm_86")
    upstream.upgrade("[target.sm_86]", "[target.sm_86]\n[target.sm_89]", lowered=False)
    for folder in (kernels, chosen):
        upstream.vendor(folder, "--update")
    assert 'ARCHES = ("sm_80", "sm_86", "sm_89")' in (kernels / "row_scale" / "kernel.py").read_text()
    assert 'ARCHES = ("sm_86",)' in (chosen / "row_scale" / "kernel.py").read_text()


def test_a_lock_that_does_not_say_whether_targets_were_chosen_is_read(upstream: Upstream, kernels: Path) -> None:
    lock = json.loads((kernels / "tilegen.lock").read_text())
    del lock["kernels"]["row_scale"]["all_targets"]
    (kernels / "tilegen.lock").write_text(json.dumps(lock))
    upstream.vendor(kernels, "--check")
    upstream.vendor(kernels, "--update")
    assert json.loads((kernels / "tilegen.lock").read_text())["kernels"]["row_scale"]["all_targets"] is True


def test_a_kernel_renamed_upstream_is_let_go_of_and_taken_anew(upstream: Upstream, kernels: Path) -> None:
    upstream.vendor(kernels, "--kernels", "small_gemm")
    spec = upstream.folder / "specs" / "row_scale.toml"
    spec.write_text(spec.read_text().replace("row_scale", "row_norm_of_64"))
    upstream.build()
    (kernels / "row_scale" / "api.py").write_text("# mine\n")
    before = read_tree(kernels)
    said = upstream.vendor(kernels, "--update", code=1)
    assert "does not hold row_scale any more" in said
    assert "--remove row_scale" in said
    assert read_tree(kernels) == before
    said = upstream.vendor(kernels, "--remove", "row_scale")
    assert said.splitlines()[0] == "kept: row_scale/api.py (edited here)"
    left = {name for name in read_tree(kernels) if name.startswith("row_scale/")}
    assert left == {"row_scale/api.py"}
    assert b"row_scale" not in (kernels / "NOTICE").read_bytes()
    upstream.vendor(kernels, "--kernels", "row_norm_of_64")
    assert "unknown: row_scale/api.py" in upstream.vendor(kernels, "--check", code=1)
    (kernels / "row_scale" / "api.py").unlink()
    upstream.vendor(kernels, "--check")


def test_a_kernel_that_is_not_there_or_the_last_one_is_not_removed(upstream: Upstream, kernels: Path) -> None:
    before = read_tree(kernels)
    assert "holds no small_gemm; it has row_scale" in upstream.vendor(kernels, "--remove", "small_gemm", code=1)
    assert "nothing would be left" in upstream.vendor(kernels, "--remove", "row_scale", code=1)
    assert read_tree(kernels) == before


def test_the_command_that_renews_a_folder_can_be_pasted(upstream: Upstream, tmp_path: Path) -> None:
    folder = tmp_path / "engine" / "the kernels"
    upstream.vendor(folder, "--kernels", "row_scale")
    assert json.loads((folder / "tilegen.lock").read_text())["renew"] == "tilegen vendor --update 'the kernels'"


def test_a_destination_that_may_not_be_written_says_so_and_stays(
    upstream: Upstream, kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the folder above is read-only; root, as whom a container runs tests, may write anywhere."""

    def refused(*, prefix: str, dir: Path) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(dir))

    upstream.grown()
    before = read_tree(kernels)
    monkeypatch.setattr("tilegen.emit.tree.tempfile.mkdtemp", refused)
    assert f"error: {kernels.parent}: Permission denied" in upstream.vendor(kernels, "--update", code=1)
    assert read_tree(kernels) == before


@pytest.mark.parametrize("name", ["torch", "class", "io", "tilegen"])
def test_a_wheel_does_not_stand_in_for_another_module(upstream: Upstream, tmp_path: Path, name: str) -> None:
    arguments = ["package", "--name", name, "--from", str(upstream.generated), "--out", str(tmp_path / "dist")]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 1
    assert "in place of another module" in result.output
    assert not (tmp_path / "dist").exists()
