"""The catalogue of rules as a page: `python -m tilegen.check.reference docs/rules.md` writes its tables anew.

What stands before and after the tables is written by hand, and kept.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tilegen.check.rule import Rule, catalogue

BEGIN = "<!-- rules: written by `python -m tilegen.check.reference docs/rules.md` -->"
END = "<!-- rules end -->"

GROUPS = {
    "A": "Launch",
    "B": "Shared memory",
    "C": "Copies",
    "D": "Matrix products",
    "E": "Attention",
    "F": "Rows and fragments",
    "G": "Pipelines",
    "H": "Indices",
    "I": "AMD",
    "J": "Bandwidth and occupancy",
    "N": "Numerics",
    "S": "Schedules written by hand",
    "T": "Tile values",
}


def tables() -> str:
    """Every rule, a table for each letter."""
    return "\n".join([BEGIN, "", *_lines(), END])


def _lines() -> Iterator[str]:
    rules = catalogue().values()
    for letter, title in GROUPS.items():
        yield f"### {title}"
        yield ""
        yield "| rule | severity | what must hold | what TileLang does otherwise | source |"
        yield "|---|---|---|---|---|"
        for rule in rules:
            if rule.id[0] == letter:
                yield _row(rule)
        yield ""


def _row(rule: Rule) -> str:
    by = " (kept by the families)" if rule.of_family else ""
    cells = (f"{rule.code} {rule.name}{by}", rule.severity.value, rule.sentence, _today(rule), rule.source)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _today(rule: Rule) -> str:
    return f"{rule.today}; measured: {rule.cost}" if rule.cost else rule.today


def page_with_tables(page: str) -> str:
    """``page`` with its tables written anew. ValueError for a page without their two marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no marks for the tables of rules")
    return before + tables() + after


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(page_with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
