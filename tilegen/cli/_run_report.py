"""What ``tilegen run`` says of a run: statistics, comparisons and findings, as text or as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tilegen.interp.execution import Result
    from tilegen.interp.reference import Comparison


def print_result(result: Result, comparisons: list[Comparison]) -> None:
    """Print dimensions, statistics of the outputs, comparisons and findings."""
    if result.dims:
        click.echo("dims: " + ", ".join(f"{name} = {value}" for name, value in result.dims.items()))
    for name, row in _statistics(result).items():
        shape = ", ".join(str(extent) for extent in row["shape"])
        parts = []
        if row["min"] is not None:
            parts = [f"{kind} {row[kind]:.6g}" for kind in ("min", "max", "mean", "std")]
        parts += [f"{row[kind]} {kind}" for kind in ("nan", "inf") if row[kind]]
        size = prod(row["shape"])
        if row["written"] < size:
            parts.append(f"{row['written']} of {size} elements written")
        click.echo(f"{name} ({shape}) {row['dtype']}: {', '.join(parts) or 'no elements'}")
    for comparison in comparisons:
        click.echo(_comparison_text(comparison))
    for finding in result.findings:
        click.echo(str(finding))
    if not result.findings:
        click.echo("nothing found")


def as_json(result: Result, comparisons: list[Comparison], lines: list[str]) -> Mapping[str, Any]:
    """The same as JSON-ready values, with the lines of a trace."""
    return {
        "dims": result.dims,
        "outputs": _statistics(result),
        "comparisons": [
            {
                "output": comparison.name,
                "passes": comparison.passes,
                "error": comparison.error,
                "relative_error": comparison.relative_error,
                "tolerance": comparison.tolerance,
                "index": list(comparison.index),
                "got": comparison.got,
                "expected": comparison.expected,
            }
            for comparison in comparisons
        ],
        "findings": [finding.as_dict() for finding in result.findings],
        "trace": lines,
    }


def _statistics(result: Result) -> dict[str, dict[str, Any]]:
    import numpy as np

    from tilegen.interp.arguments import to_float64

    statistics = {}
    for name, array in result.outputs.items():
        written = result.written.get(name)
        values = to_float64(array)
        values = values if written is None else values[written]
        finite = values[np.isfinite(values)]
        statistics[name] = {
            "shape": list(array.shape),
            "dtype": array.dtype.name,
            "written": int(values.size),
            "min": float(finite.min()) if finite.size else None,
            "max": float(finite.max()) if finite.size else None,
            "mean": float(finite.mean()) if finite.size else None,
            "std": float(finite.std()) if finite.size else None,
            "nan": int(np.isnan(values).sum()),
            "inf": int(np.isinf(values).sum()),
        }
    return statistics


def _comparison_text(comparison: Comparison) -> str:
    verdict = "agrees with" if comparison.passes else "differs from"
    place = ", ".join(str(part) for part in comparison.index)
    return (
        f"{comparison.name} {verdict} the reference: largest error {comparison.error:.3g} "
        f"({comparison.relative_error:.3g} of the largest magnitude, allowed {comparison.tolerance:.3g}) at "
        f"{comparison.name}[{place}] = {comparison.got:.6g}, expected {comparison.expected:.6g}"
    )
