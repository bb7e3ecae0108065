"""Which shapes to time: sizes for each dim, as a command line or a suite gives them, in the domain of the spec."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilegen.expr import ExprError, evaluate, free_names, parse_integer
from tilegen.plan.instances import listed_values, representative

if TYPE_CHECKING:
    from tilegen.spec.model import Spec

MOST_SHAPES = 4096


class ShapeError(ValueError):
    """A size that cannot be read, or lies outside the domain; the message says which and what would do."""


def shapes(spec: Spec, given: Mapping[str, str]) -> list[dict[str, int]]:
    """Every combination of the sizes given for each dim, in the order of the spec's dims, the last one fastest.

    A size is an integer, a range ``first:last:step`` with both ends, or an expression over dims: ``2097152 // C``. Several
    are separated by commas. A dim that is not given takes its listed sizes; a dynamic one without any an ordinary size.
    """
    names = [dim.name for dim in spec.dims]
    for name in given:
        if name not in names:
            raise ShapeError(f"{spec.kernel} has no dim `{name}`; it has {', '.join(names)}")
    sizes = {dim.name: _sizes(dim.name, given[dim.name], names) for dim in spec.dims if dim.name in given}
    for dim in spec.dims:
        if dim.name not in sizes:
            sizes[dim.name] = [representative(dim)] if dim.dynamic and not dim.values else list(listed_values(dim))
    if (count := _product(sizes)) > MOST_SHAPES:
        raise ShapeError(f"these sizes give {count} shapes; the limit is {MOST_SHAPES}")
    found = [_resolved(dict(zip(names, point, strict=True))) for point in itertools.product(*(sizes[n] for n in names))]
    for dims in found:
        for name, size in dims.items():
            if not spec.dim(name).contains(size):
                raise ShapeError(
                    f"{name} = {size} is outside the domain of {spec.kernel}; see `tilegen list {spec.kernel}`"
                )
    return found


def _product(sizes: Mapping[str, list[Any]]) -> int:
    count = 1
    for entries in sizes.values():
        count *= len(entries)
    return count


def _sizes(name: str, text: str, names: list[str]) -> list[Any]:
    found: list[Any] = []
    for part in _parts(text):
        if ":" in part:
            found += _range(name, part)
            continue
        try:
            found.append(parse_integer(part, [other for other in names if other != name]))
        except ExprError as error:
            raise ShapeError(f"{name} = {part}: {error.message}") from None
    if not found:
        raise ShapeError(f"{name} is given no size")
    return found


def _parts(text: str) -> list[str]:
    """The text at its commas, but for those inside brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _range(name: str, text: str) -> list[int]:
    ends = text.split(":")
    try:
        first, last, step = (int(end) for end in (*ends, "1")[:3])
    except ValueError:
        raise ShapeError(f"{name} = {text}: a range is first:last or first:last:step, in integers") from None
    if len(ends) > 3 or step < 1 or last < first or (last - first) // step >= MOST_SHAPES:
        raise ShapeError(f"{name} = {text}: a range is first:last:step, rising, with at most {MOST_SHAPES} sizes")
    return list(range(first, last + 1, step))


def _resolved(point: Mapping[str, Any]) -> dict[str, int]:
    """The sizes as numbers: expressions are worked out from the others, however they refer to each other."""
    known = {name: size for name, size in point.items() if isinstance(size, int)}
    while len(known) < len(point):
        ready = {n: e for n, e in point.items() if n not in known and free_names(e) <= known.keys()}
        if not ready:
            raise ShapeError(f"the sizes of {', '.join(sorted(point.keys() - known.keys()))} refer to each other")
        try:
            known |= {name: int(evaluate(size, known)) for name, size in ready.items()}
        except ZeroDivisionError:
            raise ShapeError(f"a division by zero in the size of {', '.join(ready)}") from None
    return {name: known[name] for name in point}
