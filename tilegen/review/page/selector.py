"""What the page's script needs to work out a shape for itself: the domain, the cases and the sizes, as JSON.

An expression is an integer, a name, or a list of an operation and its operands. The script walks it; no text of a spec is
ever run.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tilegen.expr import arith

if TYPE_CHECKING:
    from tilegen.review.page.views import View
    from tilegen.spec.model import Spec

WORDS = {
    "Add": "+",
    "Mul": "*",
    "FloorDiv": "//",
    "CeilDiv": "ceildiv",
    "Mod": "%",
    "Min": "min",
    "Max": "max",
    "And": "and",
    "Or": "or",
    "Not": "not",
}


def tree(expression: Any) -> Any:
    """An expression or condition as nested lists: ``["ceildiv", "M", 128]``."""
    e = arith.native(expression)
    if isinstance(e, (bool, int)):
        return e
    if e.is_Symbol:
        return e.name
    if e.is_Pow:
        return ["**", tree(e.base), int(e.exp)]
    if e.is_Relational:
        return [e.rel_op, tree(e.lhs), tree(e.rhs)]
    return [WORDS[type(e).__name__], *(tree(argument) for argument in e.args)]


class Expressions:
    """The expressions of a page, each once; ``add`` gives the place of one, or None for a plain number."""

    def __init__(self) -> None:
        self._found: dict[str, int] = {}

    def add(self, expression: Any) -> int | None:
        if isinstance(expression, int):
            return None
        text = json.dumps(tree(expression), separators=(",", ":"))
        return self._found.setdefault(text, len(self._found))

    def all(self) -> list[Any]:
        return [json.loads(text) for text in self._found]


def selector(spec: Spec, views: list[View], expressions: Expressions) -> str:
    """The JSON that stands in the page, safe between script tags."""
    targets = []
    for arch in dict.fromkeys(view.arch for view in views):
        mine = [view for view in views if view.arch == arch]
        part = mine[0].plan.target.part
        targets.append(
            {
                "arch": arch,
                "part": part.name,
                "sm_count": part.sm_count,
                "bandwidth": part.dram_bytes_per_second,
                "views": [
                    {
                        "id": view.id,
                        "dtypes": list(view.dtypes),
                        "when": tree(view.plan.case.condition),
                        "shape": dict(view.sized.shape),
                        "peak": part.dense_flops.get(next(iter(view.plan.dtypes.values()))),
                        "flops": tree(view.plan.flops),
                        "bytes": tree(view.plan.bytes_moved),
                    }
                    for view in mine
                ],
            }
        )
    data = {
        "dims": [
            {
                "name": dim.name,
                "values": list(dim.values),
                "min": dim.min,
                "max": dim.max,
                "multiple_of": dim.multiple_of,
                "also": None if dim.also is None else tree(dim.also),
                "dynamic": dim.dynamic,
            }
            for dim in spec.dims
        ],
        "targets": targets,
        "expressions": expressions.all(),
    }
    return (
        json.dumps(data, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    )
