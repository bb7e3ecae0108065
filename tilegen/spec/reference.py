"""The families' part of docs/spec.md, written from their sections: `python -m tilegen.spec.reference docs/spec.md`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tilegen import families
from tilegen.spec.section import FamilySection, TensorRole, TileParam

_BEGIN = "<!-- families: written by `python -m tilegen.spec.reference docs/spec.md` -->\n"
_END = "<!-- families: end -->\n"


def with_families(page: str) -> str:
    """The page with the part between its two marks written anew."""
    begin, end = page.index(_BEGIN) + len(_BEGIN), page.index(_END)
    return page[:begin] + "\n" + "\n".join(_families()) + "\n" + page[end:]


def _families() -> Iterator[str]:
    for name in families.names():
        section = families.section(name)
        if section.compute is not None:
            yield from _section(name, name, section)
        for variant, own in section.variants.items():
            yield from _section(f"{name} / {variant}", variant, own)


def _section(title: str, name: str, section: FamilySection) -> Iterator[str]:
    yield from (f"### {title}", "", section.doc, "")
    yield from _table(("dim", "meaning"), [(f"`{n}`", role.doc) for n, role in section.dims.items()])
    yield from _table(("tensor", "shape", "if left out", "meaning"), _tensors(section))
    yield from _table(("`[compute]`", "type", "if left out", "meaning"), _compute(section))
    for key, rows in _inputs(section):
        yield from (f"`{key}` may mention:", "")
        yield from _table(("name", "value"), rows)
    tile = [
        (f"`{n}`", _tile_type(p), p.default if not p.required else "required", p.doc) for n, p in section.tile.items()
    ]
    yield from _table(("`[tile]`", "type", "if left out", "meaning"), tile)
    yield from _table(("`schedule`", "meaning"), [(f"`{n}`", doc) for n, doc in section.schedules.items()])
    for shows, text in section.examples.items():
        yield from (f"{shows}:", "", f"<!-- in: {name} -->", "```toml", text.rstrip("\n"), "```", "")


def _tensors(section: FamilySection) -> Iterator[tuple[str, ...]]:
    for name, role in section.tensors.items():
        yield f"`{name}`", " or ".join(f"`{s}`" for s in role.shapes), _default(role), role.doc
    if section.extra_shapes:
        shapes = " or ".join(f"`{s}`" for s in section.extra_shapes)
        yield "any other", shapes, "", "input of the formula"


def _default(role: TensorRole) -> str:
    if role.optional:
        return "not there"
    if role.same_as is not None:
        return f"dtype of `{role.same_as}`"
    return ", ".join(f"`{d}`" for d in role.dtypes) or "required"


def _compute(section: FamilySection) -> Iterator[tuple[str, ...]]:
    assert section.compute is not None
    for name, key in section.compute.table().items():
        default = "required" if key.required else f"`{key.default}`"
        words = " or ".join(f"`{choice}`" for choice in key.choices)
        yield f"`{name}`", "formula" if key.names else words or "number", default, key.doc


def _inputs(section: FamilySection) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """What each formula of the family may mention."""
    assert section.compute is not None
    for key, names in ((name, key.names) for name, key in section.compute.table().items()):
        if names is None:
            continue
        rows = [(f"`{name}`", doc) for name, doc in names.inputs.items()]
        if names.extra:
            known = [f"`{n}`" for n, role in section.tensors.items() if role.optional and not role.output]
            rows.append((", ".join([*known, "further tensors, scalars"]), "one element; the number"))
        if names.dims:
            rows.append(("dims", "the size"))
        yield key, rows


def _tile_type(param: TileParam) -> str:
    words = [f'`"{c}"`' for c in param.choices]
    base = {"int": ["integer"], "enum": [], "bool": ["boolean"], "swizzle": ["`{ panel, order }`", "`false`"]}[
        param.kind
    ]
    return " or ".join(base + words)


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """A Markdown table; nothing if it would be empty."""
    rows = list(rows)
    if rows:
        yield from (_row(header), _row(["---"] * len(header)), *map(_row, rows), "")


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(re.sub(r"\s+", " ", c).replace("|", "\\|") for c in cells) + " |"


def main() -> None:
    """Writes the part anew in the page named on the command line."""
    path = Path(sys.argv[1])
    path.write_text(with_families(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
