"""Tile rules that changed where nothing costs anything else: whether every declared shape takes the tiles that it took."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilegen.check.domain import domain_of
from tilegen.check.prover import Status, prove
from tilegen.expr import all_of, negate
from tilegen.review.change import Change, Level
from tilegen.review.shapes import case_table
from tilegen.review.words import count_words, joined, shape_words

if TYPE_CHECKING:
    from tilegen.spec.model import Spec

MOST_PAIRS = 200
"""Pairs of cases that are asked about; where there are more, the shapes that were looked at have to do."""


def same_tiles(base: Spec, head: Spec) -> Iterator[Change]:
    """One line on the targets that both sides have: the same tiles everywhere, or a shape with others."""
    shapes, asked, proved = 0, 0, True
    for arch in (target.arch for target in head.targets if any(target.arch == other.arch for other in base.targets)):
        before, after = case_table(base, arch), case_table(head, arch)
        shapes += len(after.shapes)
        pairs = [(old, new) for old, new in itertools.product(before.cases, after.cases) if old.tiles != new.tiles]
        asked += len(pairs)
        if asked > MOST_PAIRS:
            proved = False
            break
        for old, new in pairs:
            outcome = prove(negate(all_of(old.condition, new.condition)), domain_of(head))
            if outcome.status is Status.REFUTED:
                names = [name for name in (*new.tiles, *old.tiles) if new.tiles.get(name) != old.tiles.get(name)]
                text = f"{joined(dict.fromkeys(names))}: other tiles for a few shapes, such as "
                where = f"{arch}, at {shape_words(outcome.counterexample)}"
                yield Change(Level.NOTE, "tile", text + shape_words(outcome.counterexample), where=where)
                return
            proved = proved and outcome.status is Status.PROVED
    if proved:
        yield Change(Level.NOTE, "tile", "proved: every declared shape takes the same tiles as before")
    else:
        yield Change(
            Level.NOTE, "tile", f"the same tiles as before at {count_words(shapes, 'shape')} that were looked at"
        )
