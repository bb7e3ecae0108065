"""Two processes that build, vendor or cache at once: each waits, and nothing is lost or torn."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading

import pytest

from tests.vendor.conftest import ROOT
from tilegen import cache
from tilegen.emit.tree import locked, read_tree


def start(project, cache_folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TILEGEN_CACHE_DIR": str(cache_folder)}
    return subprocess.Popen(
        [sys.executable, "-m", "tilegen", *map(str, arguments)],
        cwd=project.folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(processes):
    for process in processes:
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output


@pytest.mark.slow
@pytest.mark.nightly
def test_two_builds_of_different_kernels_at_once_both_end_up_in_the_tree(project, tmp_path):
    """Each build takes over what the other kernels have in the tree: unlocked, the later one would lose the earlier."""
    whole = read_tree(project.generated)
    shutil.rmtree(project.generated)
    builds = [start(project, tmp_path / "cache", "build", "--only", name) for name in ("row_scale", "small_gemm")]
    finish(builds)
    assert read_tree(project.generated) == whole
    # And what both wrote into the one cache serves a third.
    check = start(project, tmp_path / "cache", "build", "--check")
    finish([check])


def test_vendoring_at_once_gives_both_kernels_and_one_lock(project, tmp_path):
    kernels = tmp_path / "kernels"
    finish([start(project, tmp_path, "vendor", kernels, "--kernels", name) for name in ("row_scale", "small_gemm")])
    finish([start(project, tmp_path, "vendor", kernels, "--check", "--from", "generated")])
    assert {path.name for path in kernels.iterdir() if path.is_dir()} == {"row_scale", "small_gemm"}


def test_a_tree_is_held_by_one_at_a_time(tmp_path):
    place, inside, overlaps = tmp_path / "tree", [], []

    def hold():
        for _ in range(20):
            with locked(place):
                inside.append(1)
                overlaps.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=hold) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == [1] * 80


def test_an_entry_of_the_cache_is_never_seen_half_written(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path))
    values = [[number] * 20_000 for number in range(3)]
    cache.write("kind", "key", values[0])
    writers = []
    for value in values:
        child = os.fork()
        if child == 0:
            for _ in range(60):
                cache.write("kind", "key", value)
            os._exit(0)
        writers.append(child)
    seen = [cache.read("kind", "key") for _ in range(200)]
    for child in writers:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert all(value in values for value in seen)


COMPILE = """\
import sys
from generated.row_scale import _compiled, kernel
key = kernel.compile_keys("sm_80", 108)[0]
cache = _compiled.KernelCache(kernel.build)
cache.get(**key)
sys.exit(0 if len(cache.compile_seconds) == 1 else 3)
"""


@pytest.mark.slow
@pytest.mark.nightly
def test_processes_that_compile_one_kernel_at_once_leave_a_cache_that_serves_the_next(project, tmp_path):
    """TileLang's own disk cache, through the generated code, without a GPU."""
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")
    environment = {**os.environ, "TILELANG_CACHE_DIR": str(tmp_path / "tilelang")}

    def compiling():
        return subprocess.Popen(
            [sys.executable, "-c", COMPILE],
            cwd=project.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    finish([compiling() for _ in range(3)])
    cached = {path: path.read_bytes() for path in (tmp_path / "tilelang").rglob("*") if path.is_file()}
    assert any(path.suffix == ".so" for path in cached)
    # The next process finds it whole: it loads, and writes nothing.
    finish([compiling()])
    assert {path: path.read_bytes() for path in (tmp_path / "tilelang").rglob("*") if path.is_file()} == cached
