"""The two sides of a comparison follow git's own conventions, and nothing is checked out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.review import history
from tilegen.cli import main
from tilegen.review.revisions import RevisionError, revisions

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["diff", *arguments], catch_exceptions=False)


def last_line(*arguments: str) -> str:
    return run(*arguments).stdout.splitlines()[-1]


def test_without_arguments_the_working_tree_is_compared_with_head(repository: Path) -> None:
    assert last_line() == "HEAD → working tree: no kernel changed of 1"
    spec = repository / history.LINEAR_PATH
    spec.write_text(spec.read_text().replace("stages = 3", "stages = 2"))
    # The policy of the last commits is illegal, so this one is told value by value.
    assert "tile.stages: 3 → 2" in run().stdout


def test_a_new_file_counts_before_it_is_added_and_an_ignored_one_does_not(repository: Path) -> None:
    (repository / "specs/fresh.toml").write_text(history.NORM.replace("norm_silu", "fresh"))
    assert "fresh  added  specs/fresh.toml" in run().stdout
    (repository / ".gitignore").write_text("fresh.toml\n")
    assert last_line() == "HEAD → working tree: no kernel changed of 1"


def test_two_dots_compare_two_revisions(repository: Path) -> None:
    assert run("start..harmless_rename").stdout.replace("..", "") == run("start", "harmless_rename").stdout


def test_three_dots_take_the_merge_base(repository: Path) -> None:
    history.git(repository, "checkout", "--quiet", "-B", "side", "start")
    spec = repository / history.NORM_PATH
    spec.write_text(spec.read_text().replace("threads = 128", "threads = 256"))
    history.git(repository, "commit", "--quiet", "-am", "side")
    both = run("main...side").stdout
    assert both.startswith("norm_silu  changed")
    assert "merge base with main" in both
    assert run("main", "side", "--merge-base").stdout == both
    assert "linear" in run("main..side").stdout
    history.git(repository, "checkout", "--quiet", "main")


def test_nothing_is_checked_out_and_nothing_is_written(repository: Path) -> None:
    def state() -> str:
        return history.git(repository, "status", "--porcelain") + history.git(repository, "rev-parse", "HEAD")

    before = state()
    run("start", "dtype_added")
    assert state() == before


def test_a_subfolder_sees_the_specs_below_it(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository / "specs")
    assert "norm.toml" in run("start", "dtype_added", "--specs", ".").stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nonsense",), "git does not know the revision `nonsense`"),
        (("--", "--upload-pack=x"), "is no revision"),
        (("--specs", "../outside"), "lies outside the repository"),
    ],
)
def test_what_git_does_not_know_is_misuse(repository: Path, arguments: tuple[str, ...], says: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_folder_without_a_repository_is_misuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(RevisionError, match="not a git repository"):
        revisions(None, None)


@pytest.mark.parametrize("arguments", [(), ("main",), ("main...",), ("HEAD", "HEAD")])
def test_a_repository_without_a_commit_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    history.git(tmp_path, "init", "--quiet")
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert (result.exit_code, "no commit yet" in result.stderr) == (2, True)


def test_an_empty_revision_is_not_taken_for_head(repository: Path) -> None:
    """A variable of a CI job that is not set."""
    assert (run("").exit_code, run("main", "").exit_code) == (2, 2)


@pytest.fixture(params=["bare", "folder-of-git", "hook"])
def without_working_tree(
    request: pytest.FixtureRequest, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "bare.git"
    history.git(repository, "clone", "--quiet", "--bare", str(repository), str(bare))
    monkeypatch.chdir(repository / ".git" if request.param == "folder-of-git" else bare)
    if request.param == "hook":
        monkeypatch.setenv("GIT_DIR", ".")


@pytest.mark.usefixtures("without_working_tree")
def test_two_revisions_are_compared_where_there_is_no_working_tree() -> None:
    assert run("main~1", "main").stdout == run("main~1..main").stdout
    assert "1 kernel renamed" in last_line("start", "main")
    for arguments in ((), ("main",)):
        result = run(*arguments)
        assert (result.exit_code, "no working tree here" in result.stderr) == (2, True)


def test_a_shallow_clone_says_how_to_get_what_it_lacks(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.git(repository, "clone", "--quiet", "--depth", "1", repository.as_uri(), str(tmp_path / "shallow"))
    monkeypatch.chdir(tmp_path / "shallow")
    assert last_line() == "HEAD → working tree: no kernel changed of 1"
    for arguments in (("HEAD~1",), ("start",), ("HEAD~1...HEAD",)):
        result = run(*arguments)
        assert (result.exit_code, "git fetch --unshallow" in result.stderr) == (2, True)


def test_a_detached_worktree_is_compared_like_any_other(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.git(repository, "worktree", "add", "--quiet", "--detach", str(tmp_path / "detached"), "start")
    monkeypatch.chdir(tmp_path / "detached")
    try:
        assert last_line().startswith("HEAD → working tree: no kernel changed")
        (tmp_path / "detached" / history.NORM_PATH).unlink()
        assert "norm_silu  removed" in run().stdout
    finally:
        history.git(repository, "worktree", "remove", "--force", str(tmp_path / "detached"))


def test_a_merge_is_compared_with_either_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = {history.LINEAR_PATH: history.LINEAR, history.NORM_PATH: history.NORM}
    edits = {"ours": (history.LINEAR_PATH, "stages = 3", "stages = 4"), "theirs": (history.NORM_PATH, "= 64", "= 128")}
    history.build(tmp_path, both, {})
    for name, (path, old, new) in edits.items():
        history.git(tmp_path, "checkout", "--quiet", "-b", name, "start")
        (tmp_path / path).write_text(both[path].replace(old, new, 1))
        history.git(tmp_path, "commit", "--quiet", "-am", name)
    history.git(tmp_path, "merge", "--quiet", "--no-edit", "ours")
    monkeypatch.chdir(tmp_path)
    assert [run(f"HEAD^{parent}", "HEAD").stdout.split()[0] for parent in (1, 2)] == ["linear", "norm_silu"]
    assert last_line("start...HEAD").endswith("HEAD: 2 kernels changed, 0 unchanged")


def test_a_spec_that_is_not_utf8_is_an_error_not_a_crash(repository: Path) -> None:
    (repository / history.LINEAR_PATH).write_bytes(b"kernel = '\xff'\n")
    result = run()
    assert result.exit_code == 1
    assert "spec" in result.stdout


def test_diff_imports_neither_torch_nor_tilelang(repository: Path) -> None:
    code = (
        "import sys\nfrom tilegen.review.diff import diff\nfrom tilegen.review.revisions import revisions\n"
        "found = diff(*revisions('start', 'dtype_added'), ['specs'], 'generated', cached=False)\n"
        "assert found.kernels\nprint(*{name.split('.')[0] for name in sys.modules})"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert not set(result.stdout.split()) & {"torch", "tilelang", "tvm"}
