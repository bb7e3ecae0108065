"""``tilegen list``: the kernels that specs declare, with their dims, tile cases and compile keys."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from tilegen.cli._specs import load_specs
from tilegen.cli._terminal import bold

if TYPE_CHECKING:
    from tilegen.spec.model import Dim, Spec


@click.command
@click.argument("specs", nargs=-1, metavar="[SPEC]...")
@click.option("--count", is_flag=True, help="Print only the number of compile keys of each kernel and target.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(specs: tuple[str, ...], count: bool, form: str) -> None:
    """List kernels with their dims, tile cases and compile keys.

    SPEC is a spec file, a folder of them, or the name of a kernel in specs/; without any, all of specs/ is listed. A
    compile key is what TileLang compiles once: a target, dtypes, the static dims and the tile values.
    """
    loaded = load_specs(specs)
    if form == "json":
        click.echo(json.dumps([_as_json(spec) for spec in loaded], indent=2))
        return
    for spec in loaded:
        for line in _counts(spec) if count else _text(spec):
            click.echo(line)


def _counts(spec: Spec) -> Iterator[str]:
    from tilegen.plan.instances import instances

    for target in spec.targets:
        yield f"{spec.kernel} {target.arch} {sum(1 for _ in instances(spec, target.arch))}"


def _text(spec: Spec) -> Iterator[str]:
    from tilegen.plan.cases import cases
    from tilegen.plan.instances import instances

    family = f"{spec.family}/{spec.variant}" if spec.variant else spec.family
    yield f"{bold(spec.kernel, sys.stdout)}  {family}  {spec.path}"
    if spec.doc:
        yield f"  {spec.doc}"
    for dim in spec.dims:
        yield f"  {dim.name:<7} {domain_text(dim)}" + (f" ({dim.doc})" if dim.doc else "")
    for tensor in spec.tensors:
        shape = ", ".join(map(str, tensor.shape))
        arrow = "->" if tensor.output else "  "
        yield f"  {arrow} {tensor.name} ({shape}) {' or '.join(spec.dtypes(tensor.name))}"
    for target in spec.targets:
        found = list(cases(spec, target.arch))
        keys = sum(1 for _ in instances(spec, target.arch))
        word = "case" if len(found) == 1 else "cases"
        yield f"  {target.arch}: {keys} compile keys, {len(found)} {word} of the tile rules"
        for case in found:
            yield f"      {case.label}{_condition(case)}{won(spec, case)}"


def won(spec: Spec, case: Any) -> str:
    """Where and by how much the tiling of a case won, if it stands in the lock."""
    if case.winner is None or spec.lock is None:
        return ""
    from tilegen.spec.read_lock import facts_text

    winner = spec.lock.winners[case.winner]
    return f"  (winner {case.winner + 1} of {spec.lock.path}: {facts_text(winner) or 'nothing is said of it'})"


def _condition(case: Any) -> str:
    from tilegen.expr import to_text

    return "" if case.condition is True else f"  where {to_text(case.condition)}"


def domain_text(dim: Dim) -> str:
    """The domain of a dim in words: its listed values, its range and its predicate."""
    parts = []
    if dim.values:
        parts.append(", ".join(map(str, dim.values)))
    bounds = [f"from {dim.min}" if dim.min else "", f"up to {dim.max}" if dim.max else ""]
    if dim.multiple_of:
        bounds.append(f"in steps of {dim.multiple_of}")
    if any(bounds):
        parts.append(" ".join(part for part in bounds if part))
    if dim.also is not None:
        parts.append(f"all with {dim.also_text}")
    return ("dynamic, " if dim.dynamic else "") + "; and ".join(parts)


def _as_json(spec: Spec) -> dict[str, Any]:
    from tilegen.plan.cases import cases
    from tilegen.plan.instances import instances

    return {
        "kernel": spec.kernel,
        "family": spec.family,
        "variant": spec.variant,
        "path": spec.path,
        "doc": spec.doc,
        "dims": [
            {
                "name": dim.name,
                "values": list(dim.values),
                "also": dim.also_text,
                "min": dim.min,
                "max": dim.max,
                "multiple_of": dim.multiple_of,
                "dynamic": dim.dynamic,
                "doc": dim.doc,
            }
            for dim in spec.dims
        ],
        "tensors": [
            {
                "name": tensor.name,
                "shape": [str(extent) for extent in tensor.shape],
                "dtypes": list(spec.dtypes(tensor.name)),
                "output": tensor.output,
            }
            for tensor in spec.tensors
        ],
        "targets": [
            {
                "arch": target.arch,
                "cases": [
                    {
                        "tiles": {name: _plain(value) for name, value in case.tiles.items()},
                        "where": _condition(case)[8:],
                    }
                    for case in cases(spec, target.arch)
                ],
                "compile_keys": [
                    {
                        "dtypes": dict(instance.dtypes),
                        "dims": instance.static_dims,
                        "tiles": {name: _plain(value) for name, value in instance.tiles.items()},
                    }
                    for instance in instances(spec, target.arch)
                ],
            }
            for target in spec.targets
        ],
    }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if hasattr(value, "panel"):
        return {"panel": value.panel, "order": value.order}
    return str(value)
