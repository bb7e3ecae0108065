"""Where TileLang itself places a barrier between neighbouring branches of a warp-specialised kernel.

Its pass that orders accesses to shared memory sees the branches one after the other. Where an earlier one may touch what a
later one touches, and one of them writes, it places a barrier of all threads in front of the later one: branches that wait
for each other then hang on the device. (``else``, or ``tl.disable_thread_storage_sync``, is what a kernel writes instead.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilegen.interp.accesses_ahead import Access, accesses

_SHARED = ("shared", "shared.dyn")


def barriers_between(nodes: Sequence[Any]) -> list[str | None]:
    """For each of some statements in a row: why TileLang places a barrier in front of it, or None."""
    reasons: list[str | None] = []
    before: list[Access] = []
    for node in nodes:
        here = list(accesses(node, _SHARED))
        clash = next(((old, new) for new in here for old in before if _conflict(new, old)), None)
        reasons.append(None if clash is None else _reason(*clash))
        before = here if clash is not None else before + here
    return reasons


def _conflict(one: Access, other: Access) -> bool:
    """Whether TileLang orders the two: one memory, one writes, and the elements are not known to be others."""
    if not one.buffer.data.same_as(other.buffer.data) or not (one.writes or other.writes):
        return False
    if one.by and one.by == other.by and one.writes and other.writes:
        return False
    if not one.buffer.same_as(other.buffer) or {one.by, other.by} & {"copy", "product"}:
        return True  # TileLang does not tell the elements behind a pointer apart
    pairs = zip(one.bounds, other.bounds, strict=True)
    return all(first[0] <= second[1] and second[0] <= first[1] for first, second in pairs)


def _reason(old: Access, new: Access) -> str:
    verb = {True: "written", False: "read"}
    return f"{old.buffer.name} is {verb[old.writes]} in the branch before and {verb[new.writes]} in this one"
