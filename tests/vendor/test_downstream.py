"""A downstream repository takes two kernels, edits one, gets an upgrade, and never needs tilegen."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tilegen.emit.tree import read_tree

pytestmark = pytest.mark.slow  # a tree is built for them

REFUSE = """\
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in {refused!r}:
            raise ImportError(name + ' is not installed here')
sys.meta_path.insert(0, Refuse())
"""


def git(folder, *arguments):
    identity = ["-c", "user.name=Acme", "-c", "user.email=acme@example.com"]
    return subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def without(refused, code, cwd, path=()):
    """Runs Python code in a fresh process in which some packages cannot be imported."""
    text = REFUSE.format(refused=refused) + f"sys.path[:0] = {list(map(str, path))!r}\n" + code
    return subprocess.run([sys.executable, "-c", text], cwd=cwd, capture_output=True, text=True)


def test_a_downstream_repository_checks_updates_and_resolves(project, tmp_path):
    repository = tmp_path / "engine"
    kernels = repository / "engine" / "kernels"
    kernels.parent.mkdir(parents=True)
    git(repository, "init", "-q")

    # Vendor two kernels, and commit them.
    project.tilegen("vendor", kernels, "--kernels", "row_scale,small_gemm")
    lock = json.loads((kernels / "tilegen.lock").read_text())
    assert lock["renew"] == "tilegen vendor --update engine/kernels"
    assert lock["origin"] == "../../../project/generated"
    assert set(lock["kernels"]) == {"row_scale", "small_gemm"}
    assert lock["kernels"]["row_scale"]["targets"] == ["sm_80", "sm_86"]
    assert lock["files"].keys() == read_tree(kernels).keys() - {"tilegen.lock", "tilegen.base"}
    assert "Apache License" in (kernels / "LICENSE").read_text()
    assert "by the Acme authors" in (kernels / "NOTICE").read_text()
    assert "tmp" not in (kernels / "tilegen.lock").read_text()
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "Vendor kernels")

    # Their golden tests pass there, and nothing there imports tilegen.
    result = without(
        {"tilegen"}, "import pytest\nsys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', 'kernels']))", kernels.parent
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert " passed" in result.stdout
    for name, text in read_tree(kernels).items():
        if name.endswith(".py"):
            assert not any(
                line.strip().startswith(("import tilegen", "from tilegen")) for line in text.decode().split("\n")
            )

    # As vendored: nothing to report.
    assert "as vendored, and current" in project.tilegen("vendor", "--check", kernels)

    # Edits of its own: one far from what will change upstream, one in the very line that will.
    api, source = kernels / "row_scale" / "api.py", kernels / "row_scale" / "kernel.py"
    api.write_text(api.read_text() + "\n\nENGINE = 'acme'\n")
    text = source.read_text()
    line = next(line for line in text.splitlines() if "BLOCK_M=16" in line)
    source.write_text(text.replace(line, line.replace("BLOCK_M=16", "BLOCK_M=8")))
    said = project.tilegen("vendor", "--check", kernels, code=1)
    assert "edited: row_scale/api.py\n" in said
    assert "edited: row_scale/kernel.py\n" in said
    mine = read_tree(kernels)

    # The spec is upgraded.
    project.upgrade("BLOCK_M = 16", "BLOCK_M = 32")
    said = project.tilegen("vendor", "--check", kernels, code=1)
    assert "stale: row_scale (the spec specs/row_scale.toml changed)" in said
    assert "small_gemm" not in said.replace("small_gemm/", "")

    # Update: the edit elsewhere is merged, the one in the same line is marked, the other kernel stays.
    said = project.tilegen("vendor", "--update", kernels, code=1)
    assert "conflict: row_scale/kernel.py (both sides changed the same lines)" in said
    marked = source.read_text()
    for piece in (
        "<<<<<<< here",
        "BLOCK_M=8",
        "||||||| as vendored",
        "BLOCK_M=16",
        "=======",
        "BLOCK_M=32",
        ">>>>>>> upstream",
    ):
        assert piece in marked
    assert api.read_text().endswith("ENGINE = 'acme'\n")
    assert {name: text for name, text in read_tree(kernels).items() if name.startswith("small_gemm/")} == {
        name: text for name, text in mine.items() if name.startswith("small_gemm/")
    }

    # Until it is resolved, check says so, and neither another update nor accepting goes on top.
    assert "conflict: row_scale/kernel.py" in project.tilegen("vendor", "--check", kernels, code=1)
    before = read_tree(kernels)
    for option in ("--update", "--accept"):
        assert "resolve them first" in project.tilegen("vendor", option, kernels, code=1)
    assert read_tree(kernels) == before

    # Resolve: keep the edit. Accepted edits are listed, and pass.
    ours, _, rest = marked.partition("<<<<<<< here\n")
    resolved = ours + rest.partition("||||||| as vendored\n")[0] + rest.partition(">>>>>>> upstream\n")[2]
    assert resolved.count("BLOCK_M=8") == 1
    source.write_text(resolved)
    assert "edited: row_scale/kernel.py" in project.tilegen("vendor", "--check", kernels, code=1)
    project.tilegen("vendor", kernels, "--accept")
    said = project.tilegen("vendor", "--check", kernels)
    assert "accepted: row_scale/kernel.py (edited here)" in said
    assert "as vendored, and current" in said
    assert "up to date" in project.tilegen("vendor", "--update", kernels)

    # A further upgrade elsewhere keeps the accepted edit accepted, merged or not.
    project.upgrade('c = "relu(acc)"', 'c = "silu(acc)"', "small_gemm", lowered=False)
    project.tilegen("vendor", "--update", kernels)
    assert "silu" in (kernels / "small_gemm" / "kernel.py").read_text()
    assert "BLOCK_M=8" in source.read_text()
    project.tilegen("vendor", "--check", kernels)


def test_check_needs_neither_tilelang_nor_torch_nor_the_generated_tree(project, tmp_path):
    kernels = tmp_path / "elsewhere" / "kernels"
    project.tilegen("vendor", kernels, "--kernels", "row_scale")
    (project.folder / "generated").rename(project.folder / "moved")
    (kernels / "row_scale" / "api.py").unlink()
    (kernels / "row_scale" / "kernel.py").write_bytes(
        (kernels / "row_scale" / "kernel.py").read_bytes().replace(b"\n", b"\r\n")
    )
    (kernels / "notes.txt").write_text("mine\n")
    from tests.vendor.conftest import ROOT

    refused = {"torch", "tilelang", "tvm", "sympy", "z3", "numpy", "socket", "libcst", "jinja2"}
    code = f"from tilegen.cli import main\nmain(['vendor', '--check', {str(kernels)!r}])"
    result = without(refused, code, tmp_path, path=[ROOT])
    assert result.returncode == 1, result.stderr
    assert result.stdout.splitlines() == [
        "missing: row_scale/api.py",
        "edited: row_scale/kernel.py (line endings alone)",
        "unknown: notes.txt",
    ]
    assert "not compared with the generated tree" in result.stderr


def test_check_prints_json_for_other_programs(project, tmp_path):
    kernels = tmp_path / "kernels"
    project.tilegen("vendor", kernels, "--kernels", "row_scale")
    (kernels / "stray.py").write_text("")
    (kernels / "tilegen.base").write_bytes(b"")
    found = json.loads(project.tilegen("vendor", kernels, "--check", "--format", "json", code=1))
    assert [(entry["kind"], entry["name"]) for entry in found] == [("damaged", "tilegen.base"), ("unknown", "stray.py")]


@pytest.mark.nightly
def test_one_target_alone_is_printed_again_and_its_golden_tests_pass(project, tmp_path):
    kernels = tmp_path / "repository" / "kernels"
    project.tilegen("vendor", kernels, "--kernels", "row_scale", "--targets", "sm_86")
    source = (kernels / "row_scale" / "kernel.py").read_text()
    assert 'ARCHES = ("sm_86",)' in source
    facts = json.loads((kernels / "row_scale" / "golden" / "facts.json").read_text())
    assert {entry["key"]["arch"] for entry in facts["lowering"]} == {"sm_86"}
    result = without(
        {"tilegen"}, "import pytest\nsys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', 'kernels']))", kernels.parent
    )
    assert result.returncode == 0, result.stdout + result.stderr
    project.tilegen("vendor", "--check", kernels)
    project.upgrade("BLOCK_M = 16", "BLOCK_M = 32", lowered=False)
    project.tilegen("vendor", "--update", kernels)
    assert 'ARCHES = ("sm_86",)' in (kernels / "row_scale" / "kernel.py").read_text()


def test_kernels_are_added_later_and_files_of_the_repository_are_never_overwritten(project, tmp_path):
    kernels = tmp_path / "kernels"
    project.tilegen("vendor", kernels, "--kernels", "row_scale")
    (kernels / "row_scale" / "api.py").write_text("# mine\n")
    project.tilegen("vendor", kernels, "--kernels", "small_gemm")
    assert (kernels / "row_scale" / "api.py").read_text() == "# mine\n"
    assert "edited: row_scale/api.py" in project.tilegen("vendor", kernels, "--check", code=1)
    assert "holds row_scale already" in project.tilegen("vendor", kernels, "--kernels", "row_scale", code=1)
    other = tmp_path / "other"
    (other / "row_scale").mkdir(parents=True)
    (other / "row_scale" / "api.py").write_text("# mine\n")
    assert "would be overwritten: row_scale/api.py" in project.tilegen(
        "vendor", other, "--kernels", "row_scale", code=1
    )
    assert read_tree(other) == {"row_scale/api.py": b"# mine\n"}


def test_an_update_restores_what_is_missing_and_removes_what_is_gone_upstream(project, tmp_path):
    kernels = tmp_path / "kernels"
    project.tilegen("vendor", kernels, "--kernels", "row_scale")
    (kernels / "row_scale" / "api.py").unlink()
    (kernels / "extra.txt").write_text("of the repository\n")
    golden = [name for name in read_tree(kernels) if name.endswith(".npy")]
    project.upgrade("values = [64]", "values = [32]", lowered=False)
    project.tilegen("vendor", "--update", kernels)
    assert (kernels / "row_scale" / "api.py").exists()
    assert not any((kernels / name).exists() for name in golden)
    assert (kernels / "extra.txt").read_text() == "of the repository\n"


def test_misuse_and_broken_locks_are_clear(project, tmp_path):
    kernels = tmp_path / "kernels"
    assert "give one of --kernels, --check" in project.tilegen("vendor", kernels, code=2)
    assert "holds no tilegen.lock" in project.tilegen("vendor", "--check", kernels, code=2)
    assert "did you mean row_scale?" in project.tilegen("vendor", kernels, "--kernels", "row_scal", code=1)
    said = project.tilegen("vendor", kernels, "--kernels", "small_gemm", "--targets", "sm_90a", code=1)
    assert "small_gemm is not built for sm_90a" in said
    assert "nowhere does not exist" in project.tilegen("vendor", kernels, "--kernels", "a", "--from", "nowhere", code=2)
    assert not kernels.exists()
    project.tilegen("vendor", kernels, "--kernels", "row_scale")
    lock = kernels / "tilegen.lock"
    whole = lock.read_text()
    for broken, says in [
        ("{", "cannot be read"),
        ('{"format": 1}', "is not a lock file"),
        (whole.replace('"format": 1', '"format": 9'), "has format 9"),
        (whole.replace('"LICENSE"', '"../../LICENSE"'), "is not a lock file"),
    ]:
        lock.write_text(broken)
        assert says in project.tilegen("vendor", "--check", kernels, code=1)
    edited = project.generated / "row_scale" / "api.py"
    edited.write_text(edited.read_text() + "# edited\n")
    said = project.tilegen("vendor", tmp_path / "new", "--kernels", "row_scale", code=1)
    assert "is not what the manifest says" in said


def test_a_repository_itself_is_no_place_to_vendor_into(project, tmp_path):
    git(tmp_path, "init", "-q", "repository")
    said = project.tilegen("vendor", tmp_path / "repository", "--kernels", "row_scale", code=1)
    assert "is the root of a repository" in said
