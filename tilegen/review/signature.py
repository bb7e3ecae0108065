"""Arguments of the generated function that changed places: a call by position would pass the one for the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilegen.emit.rendering import RenderError, render
from tilegen.review.change import Change, Level

if TYPE_CHECKING:
    from tilegen.spec.model import Spec


def signature_changes(base: Spec, head: Spec) -> Iterator[Change]:
    """A warning where arguments that both sides have stand in another order. A family may keep an order of its own."""
    if not _reordered(_declared(base), _declared(head)):
        return
    try:
        before, after = _arguments(base), _arguments(head)
    except RenderError:
        return
    if _reordered(before, after):
        words = [f"({', '.join(names)})" for names in (before, after)]
        text = f"the arguments stand in another order: {words[0]} → {words[1]}; a call by position must change"
        yield Change(Level.WARNING, "signature", text, before=before, after=after)


def _declared(spec: Spec) -> list[str]:
    return [tensor.name for tensor in spec.tensors] + [scalar.name for scalar in spec.scalars]


def _reordered(before: list[str], after: list[str]) -> bool:
    return [name for name in before if name in after] != [name for name in after if name in before]


def _arguments(spec: Spec) -> list[str]:
    """The arguments that may be given by position, as the public function of the kernel takes them."""
    module = ast.parse(render(spec).files["api.py"])
    functions = (entry for entry in module.body if isinstance(entry, ast.FunctionDef) and entry.name == spec.kernel)
    return [argument.arg for function in functions for argument in function.args.args]
