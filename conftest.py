"""Which golden tests of generated/ belong to the fast suite."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One lowering of each kernel and chip is fast enough for every run, and one of each schedule for the sweep.
    ``make check`` lowers every instance, and holds the recorded facts against what comes out; here the rest is nightly."""
    chips, schedules = set(), set()
    for item in items:
        if getattr(item, "originalname", "") == "test_lowering_gives_the_recorded_facts":
            key = item.callspec.params["golden"]["key"]  # type: ignore[attr-defined]
            chip, schedule = (item.path, key["arch"]), (item.path, key["arch"], key["schedule"])
            if chip in chips:
                item.add_marker("slow")
            if schedule in schedules:
                item.add_marker("nightly")
            chips.add(chip)
            schedules.add(schedule)
