"""A tree is replaced whole: whatever fails on the way leaves the old one."""

import os

import pytest

from tilegen.emit import tree
from tilegen.emit.tree import change_tree, read_tree, replace_tree, write_file

OLD = {"a.txt": b"old", "sub/b.txt": b"old"}
NEW = {"a.txt": b"new", "sub/c.txt": b"new"}


def test_a_tree_is_created_and_then_replaced_whole(tmp_path):
    replace_tree(tmp_path / "out", OLD)
    assert read_tree(tmp_path / "out") == OLD
    replace_tree(tmp_path / "out", NEW)
    assert read_tree(tmp_path / "out") == NEW
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_without_an_exchange_of_names_it_is_replaced_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(tree, "_exchange", lambda first, second: False)
    replace_tree(tmp_path / "out", OLD)
    replace_tree(tmp_path / "out", NEW)
    assert read_tree(tmp_path / "out") == NEW
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("step", range(3))
def test_a_failure_at_any_write_leaves_the_old_tree(tmp_path, monkeypatch, step):
    replace_tree(tmp_path / "out", OLD)
    real, calls = tree._write, []

    def failing(path, content):
        if len(calls) == step:
            raise OSError("no space left on device")
        calls.append(path)
        real(path, content)

    monkeypatch.setattr(tree, "_write", failing)
    with pytest.raises(OSError, match="no space"):
        replace_tree(tmp_path / "out", {**NEW, "d.txt": b"new"})
    assert read_tree(tmp_path / "out") == OLD
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_failing_exchange_leaves_the_old_tree(tmp_path, monkeypatch):
    replace_tree(tmp_path / "out", OLD)
    monkeypatch.setattr(tree, "_exchange", lambda first, second: (_ for _ in ()).throw(OSError("busy")))
    with pytest.raises(OSError, match="busy"):
        replace_tree(tmp_path / "out", NEW)
    assert read_tree(tmp_path / "out") == OLD


def test_a_file_is_written_through_a_temporary_one(tmp_path):
    write_file(tmp_path / "sub" / "f", b"one")
    write_file(tmp_path / "sub" / "f", b"two")
    assert (tmp_path / "sub" / "f").read_bytes() == b"two"
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["f"]


def test_what_is_no_file_is_written_to_and_stays(tmp_path):
    """A device, for one: another file in its place would be found by every process."""
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_file(tmp_path / "pipe", b"text")
        assert os.read(reader, 9) == b"text"
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("change", [replace_tree, change_tree])
def test_what_is_no_folder_is_never_exchanged_with_one(tmp_path, change):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("mine")
    for name in ("pipe", "file"):
        with pytest.raises(NotADirectoryError) as raised:
            change(tmp_path / name, NEW)
        assert raised.value.filename == str(tmp_path / name)
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "file").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "file"}


def test_caches_of_python_and_pytest_are_no_part_of_a_tree(tmp_path):
    for name in ("a.py", "__pycache__/a.pyc", ".pytest_cache/x"):
        write_file(tmp_path / name, b"")
    assert read_tree(tmp_path) == {"a.py": b""}
