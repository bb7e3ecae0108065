"""A first spec of a family: commented, and complete enough to build."""

from __future__ import annotations

from tilegen.spec.section import FamilySection

# What any spec may have, shown but switched off.
_FURTHER = """
# [target.sm_80]               # what differs on a chip goes below it
# tile = { threads = 128 }

# [dispatch]                   # a callable that takes over for part of the domain, with the kernel's signature
# prefer = [ { when = "CONDITION ON DIMS", call = "package.module:function" } ]

# [tests]                      # golden cases beyond the derived ones: a value for each dim
# cases = [ { ... } ]

# [allow]                      # rules whose findings are accepted, each with the reason
# TG-D7 = "measured: within 1 % of the other tile"
"""


def starter(section: FamilySection, family: str, variant: str | None, kernel: str) -> str:
    """The text of a spec named `kernel`; it loads as it is."""
    lines = [f"# {section.doc}", f'kernel = "{kernel}"', f'family = "{family}"']
    if variant is not None:
        lines.append(f'variant = "{variant}"')
    if section.schedules:
        lines.append(f'# schedule = "{next(iter(section.schedules))}"    # chosen by the family if absent; there are:')
        lines += [f"#   {name}: {doc}" for name, doc in section.schedules.items()]
    return "\n".join(lines) + "\n\n" + section.example + _FURTHER
