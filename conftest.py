"""Which golden tests of generated/ belong to the fast suite."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One lowering of each schedule and chip is fast enough for every run. ``make check`` lowers every instance, and holds
    the recorded facts against what comes out; here the rest is nightly."""
    seen = set()
    for item in items:
        if getattr(item, "originalname", "") == "test_lowering_gives_the_recorded_facts":
            key = item.callspec.params["golden"]["key"]  # type: ignore[attr-defined]
            schedule = (item.path, key["arch"], key["schedule"])
            if schedule in seen:
                item.add_marker("slow")
                item.add_marker("nightly")
            seen.add(schedule)
