"""Whatever kills an update or a build, at any change of the file system: the tree is the old one or the new one, whole."""

from __future__ import annotations

import itertools
import shutil

import pytest

from tests.vendor.faults import killed_at
from tilegen.emit import tree
from tilegen.emit.build import Built, write
from tilegen.emit.tree import locked, read_tree, write_file
from tilegen.vendor.lock import read_lock
from tilegen.vendor.source import open_source
from tilegen.vendor.vendoring import adding, apply, updating


@pytest.fixture(params=["exchange", "journal"])
def way(request, monkeypatch):
    """Both ways of putting a tree into place: one exchange of names, and file by file where that is not to be had."""
    if request.param == "journal":
        monkeypatch.setattr(tree, "_exchange", lambda first, second: False)
    return request.param


EVERY = [
    pytest.param(1, marks=[pytest.mark.slow, pytest.mark.nightly], id="every-change"),
    pytest.param(7, marks=pytest.mark.slow, id="every-seventh-change"),
    pytest.param(29, id="every-29th-change"),
]


def outcomes(place, pristine, action, old, new, way, stride):
    """Kills ``action`` at every step; returns how often it left the old tree and how often the new one."""
    left = {"old": 0, "new": 0}
    for step in itertools.count(0, stride):
        if place.parent.exists():
            shutil.rmtree(place.parent)
        shutil.copytree(pristine.parent, place.parent)
        died = killed_at(step, action)
        if way == "journal":
            # A tree that is committed and not yet in place is finished by whoever takes the lock next.
            with locked(place):
                pass
        found = read_tree(place)
        assert found in (old, new), f"neither the old nor the new tree after step {step}"
        left["old" if found == old else "new"] += 1
        action()
        assert read_tree(place) == new, f"the next run did not finish after step {step}"
        assert [path.name for path in place.parent.iterdir()] == [place.name], "something is left beside the tree"
        if not died:
            assert found == new
            print(f"{left} by {way}, every {stride}")
            return left


@pytest.mark.parametrize("stride", EVERY)
def test_an_update_that_is_killed_at_any_change_leaves_the_old_folder_or_the_new_one(project, tmp_path, way, stride):
    kernels = tmp_path / "pristine" / "kernels"

    def vendor():
        with locked(kernels):
            apply(adding(kernels, open_source(project.generated), ["row_scale"], (), "folders", None), kernels)

    vendor()
    (kernels / "row_scale" / "api.py").write_bytes((kernels / "row_scale" / "api.py").read_bytes() + b"\n# ours\n")
    (kernels / "notes.txt").write_text("ours\n")
    project.upgrade("BLOCK_M = 16", "BLOCK_M = 32", lowered=False)
    source = open_source(project.generated)
    place = tmp_path / "work" / "kernels"

    def update():
        with locked(place):
            apply(updating(place, source, read_lock(place)), place)

    old = read_tree(kernels)
    shutil.copytree(kernels.parent, place.parent)
    update()
    new = read_tree(place)
    assert new != old
    assert new["row_scale/api.py"].endswith(b"# ours\n")
    assert new["notes.txt"] == b"ours\n"
    left = outcomes(place, kernels, update, old, new, way, stride)
    assert left["old"] > 20 // stride
    assert left["new"] > 1


@pytest.mark.parametrize("stride", EVERY)
def test_a_build_that_is_killed_at_any_change_leaves_the_old_tree_or_the_new_one(project, tmp_path, way, stride):
    pristine = tmp_path / "pristine" / "generated"
    shutil.copytree(project.generated, pristine)
    old = read_tree(pristine)
    project.upgrade("BLOCK_M = 16", "BLOCK_M = 32", lowered=False)
    new = read_tree(project.generated)
    place = tmp_path / "work" / "generated"

    def build():
        with locked(place):
            write(Built(new, (), ("row_scale/kernel.py",), (), ()), place)

    left = outcomes(place, pristine, build, old, new, way, stride)
    assert left["old"] > 20 // stride
    assert left["new"] > 1


def test_a_first_copy_that_is_killed_at_any_change_leaves_nothing_or_all(project, tmp_path):
    source, place = open_source(project.generated), tmp_path / "work" / "kernels"

    def vendor():
        with locked(place):
            apply(adding(place, source, ["small_gemm"], (), "folders", None), place)

    vendor()
    new = read_tree(place)
    for step in itertools.count():
        shutil.rmtree(place.parent)
        place.parent.mkdir()
        died = killed_at(step, vendor)
        assert read_tree(place) in ({}, new)
        if not died:
            break
    assert step > 10


def test_a_file_that_is_killed_at_any_change_is_the_old_one_or_the_new_one(tmp_path):
    path = tmp_path / "wheel"
    for step in itertools.count():
        path.write_bytes(b"old")
        died = killed_at(step, lambda: write_file(path, b"new"))
        assert path.read_bytes() in (b"old", b"new")
        if not died:
            break
    assert step > 1
