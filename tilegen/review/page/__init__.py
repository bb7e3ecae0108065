"""A page of pictures: one self-contained HTML file that shows what a kernel's plan means on the chip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilegen.review.page.comparison import Unreadable
from tilegen.review.page.model import NothingToShowError, page_model
from tilegen.review.page.printing import print_comparison, print_page

if TYPE_CHECKING:
    from tilegen.review.change import Change
    from tilegen.review.page.measured import Measurement
    from tilegen.spec.model import Spec


__all__ = ["NothingToShowError", "Unreadable", "comparison_page", "kernel_page"]


def kernel_page(
    spec: Spec,
    measurements: Sequence[Measurement] = (),
    *,
    target: str | None = None,
    case: int | None = None,
    dtype: str | None = None,
) -> str:
    """The page of one spec; the same spec and measurements give the same bytes. Needs no network and no GPU.

    ``target``, ``case`` (from 1) and ``dtype`` leave out the other plans; raises :class:`NothingToShowError` where they
    leave none.
    """
    return print_page(page_model(spec, measurements, target=target, case=case, dtype=dtype))


def comparison_page(
    base: Spec | Unreadable | None,
    head: Spec | Unreadable | None,
    measurements: Sequence[Measurement] = (),
    changes: Sequence[Change] = (),
) -> str:
    """Two states of one kernel side by side. One that is not there (a kernel added or deleted) has an empty side, one that
    cannot be read its findings. ``changes`` are what ``tilegen diff`` says of it, and stand first.

    Raises ``ValueError`` where there is neither.
    """
    if base is None and head is None:
        raise ValueError("there is no state of the kernel to show")
    old, new = (
        state if state is None or isinstance(state, Unreadable) else page_model(state, measurements)
        for state in (base, head)
    )
    return print_comparison(old, new, changes)
