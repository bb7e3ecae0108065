"""Remembers, in the user's cache, that a tree is what a set of specs gives: an unchanged build answers in no time."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tilegen import cache
from tilegen.emit.tree import read_tree
from tilegen.spec.find import lock_path


def key(files: list[Path], only: tuple[str, ...], targets: tuple[str, ...], depth: str) -> str:
    """Digest of everything that a build depends on: spec files, options, tilegen itself, TileLang's version."""
    try:
        tilelang = version("tilelang")
    except PackageNotFoundError:
        tilelang = "absent"
    contents = [(str(file), _bytes(file).hex(), _bytes(lock_path(file)).hex()) for file in files]
    return cache.digest("build", contents, sorted(only), sorted(targets), depth, tilelang, cache.package_digest())


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _tree_digest(tree: Path) -> str:
    return cache.digest(sorted((name, cache.digest(content.hex())) for name, content in read_tree(tree).items()))


def is_current(key: str, tree: Path) -> bool:
    """Whether a build with this key gave exactly what ``tree`` holds now."""
    return cache.read("stamp", key) == _tree_digest(tree)


def remember(key: str, tree: Path) -> None:
    cache.write("stamp", key, _tree_digest(tree))
