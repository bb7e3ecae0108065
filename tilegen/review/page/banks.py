"""The layouts of a kernel's shared-memory tiles and their bank conflicts; tiles that are laid out alike are one picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilegen.plan.layout import PHASE, LayoutError, SharedLayout, layout_of
from tilegen.plan.model import Scope
from tilegen.review.page.sized import TIMES

if TYPE_CHECKING:
    from tilegen.review.page.views import View

ROWS, CHUNKS = PHASE, 8
"""A picture shows this corner of a tile; the pattern repeats."""


@dataclass(frozen=True)
class BankPicture:
    """``banks`` is the first bank of each 16-byte chunk, ``ways`` the conflict of 8 rows of each chunk column."""

    title: str
    names: tuple[str, ...]
    used_by: tuple[str, ...]
    """Ids of the views that have such a tile."""
    banks: tuple[tuple[int, ...], ...]
    ways: tuple[int, ...]
    columns: tuple[int, ...]
    """First element of each chunk."""
    down_ways: int
    along_ways: int
    part: str

    @property
    def free(self) -> bool:
        return self.down_ways == self.along_ways == 1


def bank_pictures(views: list[View]) -> list[BankPicture]:
    """Every layout of the shared tiles of the views. Tiles without one (not a whole number of chunks a row) are left out."""
    layouts: dict[Any, SharedLayout] = {}
    used_by: dict[Any, list[str]] = {}
    for view in views:
        for key, (layout, names) in _of_view(view).items():
            layouts.setdefault((key, names), layout)
            used_by.setdefault((key, names), []).append(view.id)
    pictures = [_picture(layout, key[1], tuple(used_by[key])) for key, layout in layouts.items()]
    return sorted(pictures, key=lambda picture: picture.free)


def _of_view(view: View) -> dict[Any, tuple[SharedLayout, tuple[str, ...]]]:
    """The layouts of one view with the tiles that have them."""
    found: dict[Any, tuple[SharedLayout, tuple[str, ...]]] = {}
    for kernel in view.plan.kernels:
        for buffer in kernel.scope(Scope.SHARED):
            if len(buffer.shape) < 2 or view.sized.number(buffer.shape[-2]) in (None, 1):
                continue
            try:
                layout = layout_of(view.plan, buffer.name)
            except LayoutError:
                continue
            if layout.rows < PHASE:
                continue
            key = (layout.rows, layout.columns, layout.itemsize, layout.span, layout.banks)
            found[key] = (layout, (*found.get(key, (layout, ()))[1], buffer.name))
    return found


def _picture(layout: SharedLayout, names: tuple[str, ...], ids: tuple[str, ...]) -> BankPicture:
    rows, chunks = min(layout.rows, ROWS), min(layout.chunks, CHUNKS)
    swizzle = f"{layout.span}-byte swizzle" if layout.span else "row-major"
    whole = (rows, chunks) == (layout.rows, layout.chunks)
    return BankPicture(
        f"{layout.rows}{TIMES}{layout.columns} of {layout.itemsize} bytes, {swizzle}",
        names,
        ids,
        tuple(tuple(layout.bank(row, chunk) for chunk in range(chunks)) for row in range(rows)),
        tuple(layout.ways(layout.down(0, chunk)) for chunk in range(chunks)),
        tuple(chunk * 16 // layout.itemsize for chunk in range(chunks)),
        layout.down_ways,
        layout.along_ways,
        "" if whole else f"the first {rows} of {layout.rows} rows and {chunks} of {layout.chunks} chunks",
    )
