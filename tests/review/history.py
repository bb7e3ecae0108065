"""A repository with ten commits of spec changes, for the tests of ``tilegen diff``."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

LINEAR = """\
# A linear layer's product with ReLU.
kernel = "linear"
family = "gemm"
schedule = "plain"
doc = "relu(a @ b)"

[dims]
M = { dynamic = true, max = 65_536, doc = "rows of a" }
N = { values = [1024, 4096] }
K = { values = [1024, 4096] }

[tensors]
a = { shape = "M K", dtype = "float16" }
b = { shape = "K N", dtype = "same_as(a)" }
c = { shape = "M N", dtype = "same_as(a)" }

[compute]
accum = "float32"
c = "relu(acc)"

[tile]
BLOCK_M = 64
BLOCK_N = 128
BLOCK_K = 64
threads = 128
stages = 3
policy = "square"
swizzle = { panel = 10, order = "row" }

[target.sm_90a]
"""

NORM = """\
kernel = "norm_silu"
family = "row_norm"

[dims]
M = { dynamic = true, max = 65_536 }
C = { values = [256, 512], also = "C % 64 == 0 and C <= 1024" }

[tensors]
x     = { shape = "M C", dtype = "float16" }
gamma = { shape = "C",   dtype = "same_as(x)" }
y     = { shape = "M C", dtype = "same_as(x)" }

[compute]
norm = "rms"
eps = 1e-5
accum = "float32"
y = "silu(x * rstd * gamma)"

[tile]
BLOCK_C = 64
threads = 128
BLOCK_M = "16 * threads // BLOCK_C"

[target.sm_90a]
"""

LOCK = """\
[[winner]]
target = "sm_90a"
when = "M <= 1024"
tile = { BLOCK_C = 64, threads = 64 }
card = "NVIDIA H200"
versions = { tilelang = "0.1.15", cuda = "13.0" }
ratio = 1.04
"""

TOLERANCE = """\
[tolerance]
rtol = 0.02
reason = "a flaky test"
"""

Edit = Callable[[dict[str, str]], None]
"""Changes the files of the repository, by path."""


def _in(path: str, old: str, new: str) -> Edit:
    def edit(files: dict[str, str]) -> None:
        assert files[path].count(old) == 1, (path, old)
        files[path] = files[path].replace(old, new)

    return edit


def _both(first: Edit, second: Edit) -> Edit:
    def edit(files: dict[str, str]) -> None:
        first(files)
        second(files)

    return edit


def _delete(path: str) -> Edit:
    return lambda files: files.__delitem__(path)


LINEAR_PATH, NORM_PATH, LOCK_PATH = "specs/linear.toml", "specs/norm.toml", "specs/norm.tune.toml"

START = {LINEAR_PATH: LINEAR, NORM_PATH: NORM, LOCK_PATH: LOCK}

COMMITS: Mapping[str, Edit] = {
    "harmless_rename": _in(LINEAR_PATH, 'kernel = "linear"', 'kernel = "linear_relu"'),
    "tile_that_halves_occupancy": _in(LINEAR_PATH, "BLOCK_K = 64", "BLOCK_K = 128"),
    "domain_widened_past_a_proof": _in(LINEAR_PATH, "max = 65_536", "max = 8_388_608"),
    "tolerance_loosened": _in(LINEAR_PATH, "[target", TOLERANCE + "\n[target"),
    "dtype_added": _in(NORM_PATH, 'dtype = "float16"', 'dtype = ["float16", "bfloat16"]'),
    "swizzle_changed": _in(LINEAR_PATH, '{ panel = 10, order = "row" }', '{ panel = 8, order = "column" }'),
    "comment_only": _in(NORM_PATH, "[tile]\n", "[tile]\n# 8 lanes share a row.\n"),
    "tuned_lock_changed": _both(_in(LOCK_PATH, "BLOCK_C = 64", "BLOCK_C = 128"), _in(LOCK_PATH, "1.04", "1.01")),
    "illegal_policy": _in(LINEAR_PATH, 'policy = "square"', 'policy = "col"'),
    "spec_deleted": _both(_delete(NORM_PATH), _delete(LOCK_PATH)),
}


def build(folder: Path, start: Mapping[str, str] = START, commits: Mapping[str, Edit] = COMMITS) -> Path:
    """The repository in ``folder``: a commit with tag ``start``, then one for each edit, tagged by its name."""
    files = dict(start)
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder, files, "start")
    for name, edit in commits.items():
        edit(files)
        commit(folder, files, name)
    return folder


def commit(folder: Path, files: Mapping[str, str], name: str) -> None:
    for path in [entry for entry in folder.rglob("*") if entry.is_file() and ".git" not in entry.parts]:
        path.unlink()
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", name)
    git(folder, "tag", name)


def git(folder: Path, *arguments: str) -> str:
    names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    apart = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    result = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**environment, **names, **apart},
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout
