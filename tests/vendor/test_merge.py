"""What becomes of a file that changed here, upstream, or on both sides."""

from __future__ import annotations

import pytest

from tilegen.vendor import merge as merging
from tilegen.vendor.lock import pack
from tilegen.vendor.merge import MergeError, is_marked, merge

OLD, HERE, NEW = b"a\nb\nc\nd\ne\n", b"A\nb\nc\nd\ne\n", b"a\nb\nc\nd\nE\n"


@pytest.mark.parametrize(
    ("base", "here", "upstream", "kind", "content"),
    [
        (OLD, OLD, OLD, "unchanged", OLD),
        (OLD, OLD, NEW, "updated", NEW),
        (OLD, HERE, OLD, "kept", HERE),
        (OLD, NEW, NEW, "unchanged", NEW),
        (OLD, HERE, NEW, "merged", b"A\nb\nc\nd\nE\n"),
        (None, None, NEW, "added", NEW),
        (OLD, OLD, None, "removed", None),
        (OLD, None, None, "unchanged", None),
        (OLD, None, NEW, "restored", NEW),
        (OLD, None, OLD, "restored", OLD),
        (OLD, HERE, None, "conflict", HERE),
        (b"\0\1", b"\0\2", b"\0\3", "conflict", b"\0\2"),
    ],
)
def test_each_outcome(base, here, upstream, kind, content):
    merged = merge(base, here, upstream)
    assert (merged.kind, merged.content) == (kind, content)


def test_changes_of_the_same_lines_are_marked_with_all_three_texts():
    merged = merge(b"a\nb\nc\n", b"a\nmine\nc\n", b"a\ntheirs\nc\n")
    assert merged.kind == "conflict"
    assert merged.content == (b"a\n<<<<<<< here\nmine\n||||||| as vendored\nb\n=======\ntheirs\n>>>>>>> upstream\nc\n")
    assert is_marked(merged.content)
    assert not is_marked(b"a\n=======\nb << c\n")


def test_a_file_of_the_same_name_on_both_sides_is_marked_and_not_overwritten():
    merged = merge(None, b"mine\n", b"theirs\n")
    assert merged.kind == "conflict"
    assert b"mine" in merged.content
    assert b"theirs" in merged.content


def test_without_git_an_edited_file_is_an_error_and_an_unedited_one_is_not(monkeypatch):
    monkeypatch.setattr(merging.shutil, "which", lambda name: None)
    assert merge(OLD, OLD, NEW).kind == "updated"
    with pytest.raises(MergeError, match="git is not installed"):
        merge(OLD, HERE, NEW)


def test_an_archive_of_the_same_files_has_the_same_bytes():
    assert pack({"a": b"1", "b/c": b"2"}) == pack({"b/c": b"2", "a": b"1"})
