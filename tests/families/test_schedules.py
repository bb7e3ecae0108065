"""Every schedule that a section offers can be printed."""

from importlib import resources

import pytest

from tilegen import families

SECTIONS = [
    (name, section)
    for name in families.names()
    for section in (families.section(name), *families.section(name).variants.values())
]


@pytest.mark.parametrize(("family", "section"), SECTIONS, ids=[section.name for _, section in SECTIONS])
def test_each_schedule_of_a_section_has_a_template(family, section):
    folder = resources.files(f"tilegen.families.{family}")
    for schedule in section.schedules:
        assert (folder / f"{schedule}.jinja").is_file(), f"{family} offers `{schedule}` and cannot print it"
