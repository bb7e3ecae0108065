"""``tilegen show``: the tile plan of a kernel, what it spends, and its proofs; or a picture of a shared-memory tile."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilegen.cli._specs import load_kernel, require_total
from tilegen.cli._terminal import bold
from tilegen.cli.list import won

if TYPE_CHECKING:
    from tilegen.check.result import Result
    from tilegen.plan.model import TilePlan
    from tilegen.spec.model import Spec


@click.command
@click.argument("kernel")
@click.option("--target", metavar="ARCH", help="Only this target; by default the first of the spec.")
@click.option("--case", type=click.IntRange(min=1), help="Only this case of the tile rules, counted from 1.")
@click.option("--dtype", help="Only plans with this dtype; by default the first of each.")
@click.option(
    "--layout", metavar="BUFFER", help="Draw the layout of this shared-memory buffer, with its bank conflicts."
)
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), help="Where --layout draws: a .png or .svg file."
)
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a page of pictures, proofs and source that needs no network.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    kernel: str,
    target: str | None,
    case: int | None,
    dtype: str | None,
    layout: str | None,
    output: Path | None,
    html: Path | None,
    form: str,
) -> None:
    """Show the tile plan of KERNEL (a spec file or the name of a kernel in specs/), its budget and its proofs."""
    spec = load_kernel(kernel)
    if html is not None:
        if layout is not None or form != "text":
            raise click.UsageError("--html stands alone: the page has the layouts, and JSON is another form")
        _page(spec, html, target, case, dtype)
        return
    require_total(spec)
    chosen = list(_chosen(spec, target, case, dtype))
    if layout is not None:
        _draw(chosen[0][1], layout, output)
    elif form == "json":
        click.echo(json.dumps([_as_json(number, plan, results) for number, plan, results in chosen], indent=2))
    else:
        click.echo("\n\n".join("\n".join(_text(number, plan, results)) for number, plan, results in chosen))


def _page(spec: Spec, path: Path, target: str | None, case: int | None, dtype: str | None) -> None:
    """Writes the page; a spec that fails its checks gets one too, which shows why."""
    from tilegen.review.page import NothingToShowError, kernel_page
    from tilegen.review.page.measured import measurements
    from tilegen.review.page.writing import write

    try:
        text = kernel_page(spec, measurements(spec), target=target, case=case, dtype=dtype)
    except NothingToShowError as error:
        raise click.UsageError(str(error)) from None
    try:
        write(path, text)
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror}") from None
    click.echo(f"{path}: {len(text.encode()):,} bytes")


def _chosen(
    spec: Spec, target: str | None, case: int | None, dtype: str | None
) -> Iterator[tuple[int, TilePlan, list[Result]]]:
    """The plans asked for, each with the number of its case and its proofs."""
    from tilegen.check.checker import settle

    archs = [entry.arch for entry in spec.targets]
    arch = target or archs[0]
    if arch not in archs:
        raise click.UsageError(f"{spec.kernel} has no target {arch}; it has {', '.join(archs)}")
    plans = [(plan, results) for plan, results in settle(spec) if plan.target.name == arch]
    conditions = list(dict.fromkeys(plan.case.condition for plan, _ in plans))
    if case is not None and case > len(conditions):
        raise click.UsageError(f"{spec.kernel} has {len(conditions)} cases on {arch}")
    known = sorted({name for plan, _ in plans for name in plan.dtypes.values()})
    if dtype is not None and dtype not in known:
        raise click.UsageError(f"{spec.kernel} has no tensor of {dtype}; it has {', '.join(known)}")
    seen = set()
    for plan, results in plans:
        number = conditions.index(plan.case.condition) + 1
        wanted = case in (None, number) and dtype in (None, *plan.dtypes.values())
        if wanted and number not in seen:
            seen.add(number)
            yield number, plan, results


def _text(number: int, plan: TilePlan, results: list[Result]) -> Iterator[str]:
    from tilegen.emit.card import budget_card
    from tilegen.expr import to_text
    from tilegen.plan.outline import outline

    where = "" if plan.case.condition is True else f", where {to_text(plan.case.condition)}"
    dtypes = ", ".join(dict.fromkeys(plan.dtypes.values()))
    yield bold(f"{plan.spec.kernel} on {plan.target.name}", sys.stdout) + f", {dtypes}: case {number}{where}"
    yield f"  {plan.case.label}{won(plan.spec, plan.case)}"
    for heading, lines in (("plan", outline(plan)), ("budget", budget_card(plan)), ("proofs", list(_proofs(results)))):
        yield ""
        yield bold(heading, sys.stdout)
        yield from (f"  {line}" for line in lines)


def _proofs(results: list[Result]) -> Iterator[str]:
    """One line for each rule: how many obligations, and how each was settled."""
    from tilegen.check.prover import Status

    by_rule: dict[str, list[Result]] = {}
    for result in results:
        by_rule.setdefault(result.rule.code, []).append(result)
    width = max((len(entries[0].rule.name) for entries in by_rule.values()), default=0)
    for code, entries in by_rule.items():
        settled = _methods(entries)
        yield f"{code:<7} {entries[0].rule.name:<{width}}  {settled}"
        for result in entries:
            if result.outcome.status is not Status.PROVED:
                label = result.obligation.explain(result.outcome.counterexample).replace("\n", "; ")
                yield f"{'':<7} {result.outcome.status.value}: {label}"


def _methods(results: list[Result]) -> str:
    counts: dict[str, int] = {}
    for result in results:
        word = f"{result.outcome.status.value} by {result.outcome.method}"
        counts[word] = counts.get(word, 0) + 1
    return ", ".join(f"{count} {word}" for word, count in counts.items())


def _as_json(number: int, plan: TilePlan, results: list[Result]) -> dict[str, Any]:
    from tilegen.emit.card import budget_card
    from tilegen.expr import to_text
    from tilegen.plan.outline import outline

    return {
        "kernel": plan.spec.kernel,
        "target": plan.target.name,
        "dtypes": dict(plan.dtypes),
        "case": number,
        "where": "" if plan.case.condition is True else to_text(plan.case.condition),
        "tiles": plan.case.label,
        "plan": outline(plan),
        "budget": budget_card(plan),
        "proofs": [
            {
                "rule": result.rule.code,
                "name": result.rule.name,
                "status": result.outcome.status.value,
                "method": result.outcome.method,
                "counterexample": dict(result.outcome.counterexample),
                "claim": _claim(result.obligation.claim),
            }
            for result in results
        ],
    }


def _claim(claim: Any) -> str:
    from tilegen.expr import is_symbolic, to_text

    if isinstance(claim, bool):
        return str(claim)
    return to_text(claim) if is_symbolic(claim) else "for every point: a fact of the lowering model"


def _draw(plan: TilePlan, buffer: str, output: Path | None) -> None:
    from tilegen.plan.layout import LayoutError, layout_of

    path = output or Path(f"{plan.spec.kernel}_{buffer}.svg")
    if path.suffix not in (".png", ".svg"):
        raise click.UsageError(f"{path}: --output is a .png or .svg file")
    try:
        layout = layout_of(plan, buffer)
    except LayoutError as error:
        raise click.UsageError(str(error)) from None
    try:
        from tilegen.cli._layout_picture import draw
    except ImportError:
        click.echo("error: --layout needs matplotlib: pip install 'tilegen[plot]'", err=True)
        sys.exit(2)
    try:
        draw(layout, path)
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror}") from None
    click.echo(f"{path}: {layout.title}; {layout.verdict}")
