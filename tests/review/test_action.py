"""The steps of the GitHub action, run by bash as a runner would, in a repository with a pull request."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.review import history

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}

GH = """\
#!/usr/bin/env bash
# Stands for GitHub's client: writes down what it is asked, and knows the comments of $COMMENTS.
printf '%s\\n' "$*" >> "$CALLS"
for word in "$@"; do
  case "$word" in body=@*) cp "${word#body=@}" "$POSTED" ;; esac
done
case "$*" in
  *--jq*) cat "$COMMENTS" ;;
  *) exit "${GH_CODE:-0}" ;;
esac
"""


class Runner:
    """What a runner gives to a step: files for outputs and the summary, inputs, and the event."""

    def __init__(self, folder: Path, repository: Path, base: str) -> None:
        self.repository = repository
        self.folder = folder
        self.outputs: dict[str, dict[str, str]] = {}
        self.inputs = {name: str(entry["default"]) for name, entry in ACTION["inputs"].items()}
        self.inputs |= {"base": base, "token": "t", "install": str(ROOT)}
        self.github = {"repository": "o/r", "event.pull_request.number": "7", "event_name": "pull_request"}
        binaries = folder / "bin"
        binaries.mkdir()
        (binaries / "gh").write_text(GH)
        (binaries / "gh").chmod(0o755)
        (binaries / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (binaries / "python").chmod(0o755)
        (folder / "comments").write_text("")
        self.environment = {
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder),
            "TILEGEN_CACHE_DIR": str(folder / "cache"),
            "RUNNER_TEMP": str(folder),
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "CALLS": str(folder / "calls"),
            "COMMENTS": str(folder / "comments"),
            "POSTED": str(folder / "posted"),
        }

    def run(self, name: str, more: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """One step, with the expressions of its ``env`` filled in; its outputs are kept under its id."""
        step = STEPS[name]
        environment = {key: self._filled(str(value)) for key, value in step.get("env", {}).items()}
        output = self.folder / "output"
        output.write_text("")
        result = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.repository,
            env={**self.environment, **environment, **(more or {})},
            capture_output=True,
            text=True,
        )
        pairs = [line.partition("=") for line in output.read_text().splitlines()]
        self.outputs[step.get("id", name)] = {key: value for key, _, value in pairs}
        return result

    def all(self) -> subprocess.CompletedProcess[str]:
        """Check, diff, comment and verdict, as a pull request runs them; the result of the last."""
        for name in ("Check", "Diff", "Comment"):
            result = self.run(name)
            assert result.returncode == 0, (name, result.stdout, result.stderr)
        return self.run("Verdict")

    def _filled(self, text: str) -> str:
        def value(match: re.Match[str]) -> str:
            kind, _, rest = match[1].strip().partition(".")
            if kind == "inputs":
                return self.inputs[rest]
            if kind == "github":
                return self.github[rest]
            step, _, key = rest.partition(".outputs.")
            return self.outputs.get(step, {}).get(key, "")

        return re.sub(r"\$\{\{(.*?)\}\}", value, text)


@pytest.fixture
def runner(repository: Path, tmp_path: Path) -> Runner:
    return Runner(tmp_path, repository, "start")


def at(runner: Runner, commit: str, base: str) -> Runner:
    history.git(runner.repository, "checkout", "--quiet", commit)
    runner.inputs["base"] = base
    return runner


def test_no_step_lets_an_input_into_its_script() -> None:
    """An expression in a script is where a pull request from a stranger could run what it likes."""
    for name, step in STEPS.items():
        assert "${{" not in step["run"], name
        assert step["shell"] == "bash", name


def test_a_harmless_change_passes_and_is_commented_once(runner: Runner) -> None:
    at(runner, "tile_that_halves_occupancy", "start")
    assert runner.all().returncode == 0
    posted = (runner.folder / "posted").read_text()
    assert posted.startswith("<!-- tilegen diff -->")
    assert "(halved)" in posted
    assert posted == (runner.folder / "summary").read_text()
    calls = (runner.folder / "calls").read_text()
    assert "--method POST repos/o/r/issues/7/comments" in calls
    (runner.folder / "comments").write_text("12345\n")
    runner.run("Comment")
    assert "--method PATCH repos/o/r/issues/comments/12345" in (runner.folder / "calls").read_text()


def test_a_refuted_proof_is_marked_on_its_line_and_fails_the_job(runner: Runner) -> None:
    at(runner, "domain_widened_past_a_proof", "domain_widened_past_a_proof~1")
    checked = runner.run("Check")
    assert checked.returncode == 0
    assert "::error title=TG-A5 grid-limits,file=specs/linear.toml,line=8" in checked.stdout
    sarif = json.loads(Path(runner.outputs["check"]["sarif"]).read_text())
    errors = [result["ruleId"] for result in sarif["runs"][0]["results"] if result["level"] == "error"]
    assert errors == ["TG-A5"]
    verdict = runner.all()
    assert verdict.returncode != 0
    assert "tilegen check: findings" in verdict.stdout
    assert "tilegen diff: changes" in verdict.stdout


def test_a_change_below_the_level_passes_and_at_it_fails(runner: Runner) -> None:
    at(runner, "tile_that_halves_occupancy", "start")
    runner.inputs["fail-on"] = "warning"
    assert runner.all().returncode == 1
    runner.inputs["fail-on"] = "never"
    assert runner.all().returncode == 0


def test_a_token_that_may_only_read_costs_the_comment_not_the_job(runner: Runner) -> None:
    at(runner, "dtype_added", "dtype_added~1")
    runner.run("Diff")
    result = runner.run("Comment", {"GH_CODE": "1"})
    assert result.returncode == 0
    assert "::notice" in result.stdout


@pytest.mark.parametrize("base", ["", "0" * 40])
def test_the_first_push_of_a_branch_compares_nothing(runner: Runner, base: str) -> None:
    at(runner, "dtype_added", base)
    assert runner.run("Diff").returncode == 0
    assert "no kernel changed" in (runner.folder / "summary").read_text()


def test_a_base_that_was_not_fetched_ends_the_job_with_the_mend(runner: Runner) -> None:
    at(runner, "dtype_added", "f" * 40)
    result = runner.run("Diff")
    assert result.returncode == 2
    assert "fetch-depth: 0" in result.stderr


def test_a_forced_push_is_compared_with_its_parent(runner: Runner) -> None:
    at(runner, "tile_that_halves_occupancy", "f" * 40)
    runner.github["event_name"] = "push"
    result = runner.run("Diff")
    assert result.returncode == 0, result.stderr
    assert "::notice" in result.stdout
    assert "(halved)" in (runner.folder / "summary").read_text()
    assert "renamed" not in (runner.folder / "summary").read_text()  # a commit before the parent


TINY = """\
kernel = "tiny_norm"
family = "row_norm"

[dims]
M = { dynamic = true, max = 1024 }
C = { values = [64] }

[tensors]
x     = { shape = "M C", dtype = "float16" }
gamma = { shape = "C",   dtype = "same_as(x)" }
y     = { shape = "M C", dtype = "same_as(x)" }

[compute]
norm = "rms"
eps = 1e-5
accum = "float32"
y = "x * rstd * gamma"

[tile]
BLOCK_C = 64
threads = 64

[target.sm_80]
"""
"""One kernel of one instance, which takes a second or two to lower."""


@pytest.mark.slow
def test_the_build_check_fails_the_job_where_the_generated_tree_is_not_what_the_specs_give(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The step lowers for real, in the first of its three runs; what it then knows of the kernel holds for the others."""
    runner = Runner(
        tmp_path_factory.mktemp("runner"),
        history.build(tmp_path_factory.mktemp("tiny"), {"specs/tiny_norm.toml": TINY}, {}),
        "start",
    )
    runner.inputs["build-check"] = "true"
    assert STEPS["Build check"]["if"] == "inputs.build-check == 'true'"

    missing = runner.run("Build check")
    assert missing.returncode == 0, missing.stderr
    assert runner.outputs["build"] == {"code": "1"}
    assert "tiny_norm/kernel.py" in missing.stdout
    assert not (runner.repository / "generated" / "tiny_norm").exists(), "a check writes nothing"
    verdict = runner.all()
    assert verdict.returncode != 0
    assert verdict.stdout == "tilegen build --check: the generated tree is not what the specs give\n"

    environment = runner.environment
    built = subprocess.run([sys.executable, "-m", "tilegen", "build"], cwd=runner.repository, env=environment)
    assert built.returncode == 0
    shutil.rmtree(runner.folder / "cache" / "stamp")  # a runner has not built the tree that it checks
    assert runner.run("Build check").returncode == 0
    assert runner.outputs["build"] == {"code": "0"}
    assert runner.all().returncode == 0

    kernel = runner.repository / "generated" / "tiny_norm" / "kernel.py"
    kernel.write_text(kernel.read_text() + "# edited by hand\n")
    edited = runner.run("Build check")
    assert runner.outputs["build"] == {"code": "1"}
    assert "tiny_norm/kernel.py" in edited.stdout
    assert runner.all().returncode != 0


PIP = """\
#!/bin/sh
# Stands for the interpreter: writes down what pip is asked, and is the real one for all else.
case "$*" in
  "-m pip install"*) echo "$*" >> "$PIP_CALLS"; exit "${PIP_CODE:-0}" ;;
  *) exec "%s" "$@" ;;
esac
"""


@pytest.fixture
def asked(runner: Runner) -> Path:
    """The file of what pip is asked in place of installing anything but tilegen's own metadata."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = [f"{line}; extra == 'x'" for lines in declared["optional-dependencies"].values() for line in lines]
    metadata = [f"Requires-Dist: {line}" for line in (*declared["dependencies"], *optional)]
    folder = runner.folder / "installed" / "tilegen-9.9.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("\n".join(["Metadata-Version: 2.4", "Name: tilegen", "Version: 9.9", *metadata]))
    runner.environment["PYTHONPATH"] = str(folder.parent)
    calls = runner.folder / "pip-calls"
    (runner.folder / "bin" / "python").write_text(PIP % sys.executable)
    runner.environment["PIP_CALLS"] = str(calls)
    return calls


def test_torch_and_tilelang_are_not_asked_for_where_nothing_is_built(runner: Runner, asked: Path) -> None:
    result = runner.run("Install")
    assert result.returncode == 0, result.stderr
    requirements = runner.folder / "tilegen-requirements.txt"
    assert asked.read_text().splitlines() == [
        f"-m pip install --quiet --no-deps {ROOT}",
        f"-m pip install --quiet -c {ROOT}/constraints.txt -r {requirements}",
    ]
    names = {re.split("[<>=!~ ]", line)[0] for line in requirements.read_text().splitlines()}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert names == {re.split("[<>=!~ ]", line)[0] for line in declared} - {"torch", "tilelang"}


def test_a_build_check_installs_all_of_it_with_torch_pinned(runner: Runner, asked: Path) -> None:
    runner.inputs["build-check"] = "true"
    assert runner.run("Install").returncode == 0
    assert asked.read_text() == f"-m pip install --quiet -c {ROOT}/constraints.txt {ROOT}\n"
    pins = (ROOT / "constraints.txt").read_text()
    assert re.search(r"^torch==\d", pins, re.MULTILINE)
    assert re.search(r"^tilelang==\d", pins, re.MULTILINE)


def test_a_version_from_an_index_is_asked_for_as_it_is(runner: Runner, asked: Path) -> None:
    runner.inputs |= {"build-check": "true", "install": "tilegen==9.9"}
    assert runner.run("Install").returncode == 0
    assert asked.read_text() == "-m pip install --quiet tilegen==9.9\n"


def test_an_installation_that_fails_ends_the_job(runner: Runner, asked: Path) -> None:
    assert runner.run("Install", {"PIP_CODE": "1"}).returncode == 1


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("whole", ["false", "true"])
def test_the_steps_run_on_what_the_install_step_installs(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, whole: str
) -> None:
    """In an environment of its own, from the package index, with nothing of this one: as on a fresh runner."""
    files = {"specs/tiny_norm.toml": TINY}

    def edit(files: dict[str, str]) -> None:
        files["specs/tiny_norm.toml"] = TINY.replace("threads = 64", "threads = 128")

    repository = history.build(tmp_path_factory.mktemp("tiny"), files, {"edit": edit})
    runner = Runner(tmp_path, repository, "start")
    runner.inputs |= {"build-check": whole, "install": str(checkout(tmp_path / "action"))}
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    del runner.environment["PYTHONPATH"]
    (tmp_path / "bin" / "python").unlink()
    runner.environment["PATH"] = f"{environment / 'bin'}:{runner.environment['PATH']}"
    runner.environment |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "XDG_"))}

    installed = runner.run("Install")
    assert installed.returncode == 0, installed.stderr
    site = next(environment.glob("lib/python*/site-packages"))
    assert (site / "tilegen" / "cli" / "diff.py").exists()
    assert ((site / "torch").exists(), (site / "tilelang").exists()) == (whole == "true", whole == "true")
    pins = dict(re.findall(r"^(\S+?)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    for name in ("click", "sympy") if whole == "false" else ("click", "sympy", "torch", "tilelang"):
        (found,) = site.glob(f"{name}-*.dist-info")
        assert found.name.removesuffix(".dist-info").split("-")[1].split("+")[0] == pins[name].split("+")[0]

    verdict = runner.all()
    assert verdict.returncode == 0, verdict.stdout
    assert "threads: 64 → 128" in (tmp_path / "posted").read_text()
    if whole == "true":
        assert runner.run("Build check").returncode == 0
        assert runner.outputs["build"] == {"code": "1"}  # nothing is generated in this repository
        assert runner.run("Verdict").returncode != 0


def checkout(folder: Path) -> Path:
    """What a runner checks out of the action: the files that git tracks, or would."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in (name for name in names if name and (ROOT / name).is_file()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder
