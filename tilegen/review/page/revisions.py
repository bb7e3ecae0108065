"""A page for each kernel that changed between two revisions: what ``tilegen diff --html`` writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilegen.review.diff import changed_sides
from tilegen.review.page import comparison_page
from tilegen.review.page.comparison import Unreadable
from tilegen.review.page.measured import measurements
from tilegen.spec.diagnostic import SpecError
from tilegen.spec.loading import load_bytes

if TYPE_CHECKING:
    from tilegen.review.change import SpecDiff
    from tilegen.review.diff import Side
    from tilegen.review.revisions import Revision
    from tilegen.spec.model import Spec


def comparison_pages(
    base: Revision, head: Revision, specs: Sequence[str], generated: str, found: SpecDiff
) -> Iterator[tuple[Path, str]]:
    """File name and page of every kernel whose spec or lock changed, by the name that it has now. ``found`` is what is said
    of them.
    """
    told = {(kernel.path, kernel.kernel): kernel.changes for kernel in found.kernels}
    changed, _ = changed_sides(base, head, specs, generated)
    written: Counter[str] = Counter()
    for old, new in changed:
        if old is not None and new is not None and (old.spec, old.lock) == (new.spec, new.lock):
            continue
        states = [_state(side) for side in (old, new)]
        specs_read = [state for state in states if state is not None and not isinstance(state, Unreadable)]
        measured = measurements(specs_read[-1]) if specs_read else []
        side = new or old
        assert side is not None
        name = _file_name(side.kernel)
        written[name] += 1
        once = name if written[name] == 1 else f"{name}-{written[name]}"  # two specs may declare one kernel
        yield (
            Path(f"{once}.html"),
            comparison_page(states[0], states[1], measured, told.get((side.path, side.kernel), ())),
        )


def _state(side: Side | None) -> Spec | Unreadable | None:
    if side is None:
        return None
    try:
        return load_bytes(side.spec, side.path, side.lock)
    except SpecError as error:
        text = side.spec.decode("utf-8", errors="replace")
        return Unreadable(side.kernel, text, tuple(error.diagnostics))


def _file_name(kernel: str) -> str:
    """A kernel's name; of a spec that cannot be read it may be anything."""
    return "".join(c if c.isalnum() or c in "_-" else "_" for c in kernel)[:64] or "kernel"
