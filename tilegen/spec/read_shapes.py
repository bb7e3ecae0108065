"""`shapes`: the combinations of the static dims that are built ahead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilegen.spec.document import Path
from tilegen.spec.keys import Key
from tilegen.spec.model import Dim
from tilegen.spec.reader import Reader


def read_shapes(reader: Reader, value: Any, dims: Mapping[str, Dim]) -> tuple[dict[str, int], ...]:
    """The shapes in increasing order; none where the spec has no such key. Each gives a size to every static dim."""
    if value is None:
        return ()
    before = len(reader.diagnostics)
    static = {name: dim for name, dim in dims.items() if not dim.dynamic}
    entries = reader.array(("shapes",), value, "a list of tables")
    if not entries and len(reader.diagnostics) == before:
        reader.error(
            "spec-empty-domain", "`shapes` is empty", ("shapes",), help="leave it out to build every combination"
        )
    shapes: list[dict[str, int]] = []
    for path, raw in entries:
        shape = _read_shape(reader, path, raw, static)
        if shape is not None and shape in shapes:
            reader.error("spec-duplicate-value", "this shape is listed twice", path)
        elif shape is not None:
            shapes.append(shape)
    if len(reader.diagnostics) == before:
        _check_used(reader, shapes, static)
    return tuple(sorted(shapes, key=lambda shape: tuple(shape.values())))


def _read_shape(reader: Reader, path: Path, raw: Any, static: Mapping[str, Dim]) -> dict[str, int] | None:
    before = len(reader.diagnostics)
    known = {name: Key({}, "", required=True) for name in static}
    entry = reader.table(path, raw, known, "a table with a value for each static dim")
    if len(reader.diagnostics) > before:
        return None
    sizes = {name: reader.integer((*path, name), entry[name]) for name in static}
    for name, size in sizes.items():
        if size is not None and not static[name].contains(size):
            reader.error("spec-outside-domain", f"{size} is outside the domain of `{name}`", (*path, name))
    found = {name: size for name, size in sizes.items() if size is not None}
    return found if len(reader.diagnostics) == before else None


def _check_used(reader: Reader, shapes: list[dict[str, int]], static: Mapping[str, Dim]) -> None:
    """`values` are what is built ahead, so one that no shape has is a slip of the pen."""
    for name, dim in static.items():
        used = {shape[name] for shape in shapes}
        for i, value in enumerate(dim.values):
            if value not in used:
                reader.error(
                    "spec-unused-value",
                    f"no shape has {name} = {value}",
                    ("dims", name, "values", i),
                    help="add a shape with it to `shapes`, or take it out",
                )
