"""The hooks, by ``pre-commit run`` on a sample repository that takes them from this one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.review import history
from tests.review.test_action import TINY

ROOT = Path(__file__).parents[2]
pytest.importorskip("pre_commit")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """This repository as its files stand, as a repository with one commit: what a user's configuration names."""
    folder = tmp_path / "tilegen"
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "tilegen", "pyproject.toml", "README.md",
         "LICENSE", ".pre-commit-hooks.yaml"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    history.git(folder, "init", "--quiet")
    history.git(folder, "add", "--all")
    history.git(folder, "commit", "--quiet", "-m", "a")
    return folder


def run(folder: Path, source: Path, hook: str, *files: str) -> subprocess.CompletedProcess[str]:
    """``pre-commit run`` with one hook on all files of a sample repository, or as the options say."""
    revision = history.git(source, "rev-parse", "HEAD").strip()
    (folder / ".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: {source}\n  rev: {revision}\n  hooks:\n  - {hook}\n"
    )
    history.git(folder, "add", "--all")
    binaries = folder.parent / "bin"
    binaries.mkdir(exist_ok=True)
    command = binaries / "tilegen"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tilegen "$@"\n')
    command.chmod(0o755)
    site = next(path for path in map(Path, sys.path) if (path / "click").is_dir())
    environment = {
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "HOME": str(folder.parent),
        "PRE_COMMIT_HOME": str(folder.parent / "store"),
        "TILEGEN_CACHE_DIR": str(folder.parent / "cache"),
        "PYTHONPATH": f"{ROOT}:{site}" if "system" in hook else str(site),
        # The hook's own environment installs tilegen; the rest is found where this test runs.
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "false",
        "NO_COLOR": "1",
    }
    return subprocess.run(
        [sys.executable, "-m", "pre_commit", "run", "--verbose", *(files or ("--all-files",))],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    folder = tmp_path / "sample"
    (folder / "specs").mkdir(parents=True)
    (folder / history.LINEAR_PATH).write_text(history.LINEAR)
    (folder / history.NORM_PATH).write_text(history.NORM)
    (folder / history.LOCK_PATH).write_text(history.LOCK)
    (folder / "other.toml").write_text("no = 'spec'\n")
    history.git(folder, "init", "--quiet")
    return folder


@pytest.mark.parametrize(
    "hook",
    [
        pytest.param("{id: tilegen-check}", marks=[pytest.mark.slow, pytest.mark.nightly]),
        "{id: tilegen-check, language: system}",
    ],
)
def test_a_legal_spec_passes_and_an_illegal_one_fails_on_its_line(sample: Path, source: Path, hook: str) -> None:
    passed = run(sample, source, hook)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "tilegen check" in passed.stdout
    assert "linear passes" in passed.stdout
    assert passed.stdout.count("norm_silu passes") == 1
    assert "other.toml" not in passed.stdout
    spec = sample / history.LINEAR_PATH
    spec.write_text(history.LINEAR.replace("square", "col"))
    failed = run(sample, source, hook)
    assert failed.returncode == 1
    assert "specs/linear.toml:27:10" in failed.stdout


def test_a_winner_that_is_illegal_is_caught_though_its_spec_did_not_change(sample: Path, source: Path) -> None:
    history.git(sample, "add", "--all")
    history.git(sample, "commit", "--quiet", "-m", "a")
    (sample / history.LOCK_PATH).write_text(history.LOCK.replace("threads = 64", "threads = 7"))
    failed = run(sample, source, "{id: tilegen-check, language: system}", "--files", history.LOCK_PATH)
    assert failed.returncode == 1
    assert "specs/norm.tune.toml:4" in failed.stdout
    assert "linear passes" not in failed.stdout


@pytest.mark.slow
def test_a_generated_tree_that_is_not_what_the_specs_give_fails_the_build_hook(tmp_path: Path, source: Path) -> None:
    """It lowers for real, once: what is then known of the kernel holds for the other runs."""
    folder, hook = tmp_path / "tiny", "{id: tilegen-build, language: system}"
    (folder / "specs").mkdir(parents=True)
    (folder / "specs" / "tiny_norm.toml").write_text(TINY)
    history.git(folder, "init", "--quiet")
    missing = run(folder, source, hook)
    assert missing.returncode == 1, missing.stdout + missing.stderr
    assert "tiny_norm/kernel.py" in missing.stdout
    assert not (folder / "generated").exists(), "a hook writes nothing"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TILEGEN_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-m", "tilegen", "build"], cwd=folder, env=environment, check=True)
    passed = run(folder, source, hook)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    kernel = folder / "generated" / "tiny_norm" / "kernel.py"
    kernel.write_text(kernel.read_text() + "# edited by hand\n")
    assert run(folder, source, hook).returncode == 1
