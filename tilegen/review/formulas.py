"""What is computed, before and after: whether a formula became another function and by how much, or was only rewritten."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilegen.expr import free_names
from tilegen.expr.error import ExprError
from tilegen.expr.formula import evaluate_formula
from tilegen.plan.instances import representative
from tilegen.review.change import Change, Level
from tilegen.review.words import count_words, joined
from tilegen.spec.section import Formula

if TYPE_CHECKING:
    from tilegen.spec.model import Dim, Spec

POINTS = 600
POSITIVE = ("rstd", "row_sum")
"""Statistics of a row that are never zero or less."""

SAME = 1e-9
"""Relative difference of two float64 results up to which only the order of the arithmetic differs."""

ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}
"""Relative error of rounding once to a dtype."""

CONSEQUENCE = {
    "accum": "sums and their rounding change",
    "norm": "another statistic: every result changes",
    "eps": "every result changes",
}


def compute_changes(base: Spec, head: Spec) -> Iterator[Change]:
    """The keys of ``[compute]`` that differ. A kernel that computes something else is a warning: callers get other numbers."""
    sides = [_entries(spec) for spec in (base, head)]
    for name in dict.fromkeys((*sides[0], *sides[1])):
        old, new = sides[0].get(name), sides[1].get(name)
        if isinstance(old, Formula) and isinstance(new, Formula) and old.text != new.text:
            yield _formula(name, old, new, base, head)
        elif old != new:
            before, after = _text(old), _text(new)
            consequence = f": {CONSEQUENCE[name]}" if name in CONSEQUENCE else ""
            text = f"`{name}`: {before or 'none'} → {after or 'none'}{consequence}"
            yield Change(Level.WARNING, "compute", text, before=before, after=after)


def _entries(spec: Spec) -> dict[str, Any]:
    return {name: getattr(spec.compute, name) for name in spec.compute.table()}


def _text(value: Any) -> str | None:
    return value.text if isinstance(value, Formula) else None if value is None else str(value)


def _formula(name: str, old: Formula, new: Formula, base: Spec, head: Spec) -> Change:
    text = f"`{name}`: {old.text} → {new.text}"
    names = [free_names(side.expr) for side in (old, new)]
    level = Level.WARNING
    details: list[str] = []
    if names[0] != names[1]:
        gone, fresh = (joined(f"`{entry}`" for entry in sorted(names[i] - names[1 - i])) for i in (0, 1))
        details += [f"it now takes {fresh}"] if fresh else []
        details += [f"it no longer takes {gone}"] if gone else []
    else:
        found = furthest(old.expr, new.expr, _points(head, sorted(names[0])))
        if found.undefined is not None:
            details.append(f"only one of them has a value at {_place(found.undefined)}")
        if found.at is None:
            level = Level.NOTE if found.undefined is None else level
            text += f": the same function, by {count_words(found.points, 'point')}; only its rounding may differ"
        else:
            details.append(_difference(found, base, head))
    return Change(level, "formula", text, before=old.text, after=new.text, details=tuple(details))


def _difference(found: Furthest, base: Spec, head: Spec) -> str:
    assert found.at is not None
    before, after = found.values
    text = f"furthest apart of {found.points} points at {_place(found.at)}: {before:.4g} → {after:.4g}"
    dtypes = next((head.dtypes(tensor.name) for tensor in head.tensors if tensor.output), ("",))
    size = max(abs(before), abs(after)) * ROUNDING.get(dtypes[0], 0.0)
    return text + (f", {abs(after - before) / size:.2g} roundings to {dtypes[0]}" if size else "")


def _place(point: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {value:.4g}" for name, value in point.items())


@dataclass(frozen=True)
class Furthest:
    """Where two formulas differ the most, in absolute terms: ``at`` is None if they do not. ``undefined`` is a point where
    only one of them has a value.
    """

    points: int
    at: Mapping[str, float] | None
    values: tuple[float, float]
    undefined: Mapping[str, float] | None


def furthest(old: Any, new: Any, points: list[dict[str, float]]) -> Furthest:
    """Both formulas in float64, point by point."""
    at: Mapping[str, float] | None = None
    undefined: Mapping[str, float] | None = None
    values, most, seen = (0.0, 0.0), 0.0, 0
    for point in points:
        before, after = _value(old, point), _value(new, point)
        if before is None or after is None:
            undefined = undefined if undefined or before is after else point
            continue
        seen += 1
        apart = abs(after - before)
        if apart > most and apart > SAME * max(abs(before), abs(after)) + SAME * 1e-3:
            at, values, most = point, (before, after), apart
    return Furthest(seen, at, values, undefined)


def _value(expr: Any, point: Mapping[str, float]) -> float | None:
    try:
        value = evaluate_formula(expr, point)
    except (ExprError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def _points(spec: Spec, names: list[str]) -> list[dict[str, float]]:
    """Values for every name: a line of them for one real name, else the same few hundred points each time."""
    dims = {dim.name: _sizes(dim) for dim in spec.dims}
    real = [name for name in names if name not in dims]
    if len(real) == 1 and real[0] not in POSITIVE and len(names) == 1:
        return [{real[0]: number / 25.0} for number in range(-400, 401)]
    chance = random.Random(POINTS)
    return [
        {name: float(chance.choice(dims[name])) if name in dims else _number(name, chance) for name in names}
        for _ in range(POINTS)
    ]


def _sizes(dim: Dim) -> tuple[int, ...]:
    return dim.values or (representative(dim),)


def _number(name: str, chance: random.Random) -> float:
    """From 1/20 to 20, as likely near the one as near the other; of either sign."""
    size = math.exp(chance.uniform(-3.0, 3.0))
    return size if name in POSITIVE or chance.random() < 0.5 else -size
