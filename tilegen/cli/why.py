"""``tilegen why``: which line of the spec chose a tile value, what else would be legal, and the arithmetic."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from tilegen.cli._specs import load_kernel, require_total
from tilegen.cli._terminal import bold

if TYPE_CHECKING:
    from tilegen.check.alternatives import Alternative, Part
    from tilegen.spec.model import Spec

WIDTH = 110


@click.command
@click.argument("kernel")
@click.argument("parameter")
@click.option("--target", metavar="ARCH", help="The target; by default the first of the spec.")
@click.option("--try", "tried", multiple=True, help="Another value to check in its place (may be given several times).")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(kernel: str, parameter: str, target: str | None, tried: tuple[str, ...], form: str) -> None:
    """Say why PARAMETER of KERNEL has its value: for each part of the domain the entry of the spec that chose it, which
    other values are legal there (proved with each), and what it costs in registers and shared memory.
    """
    from tilegen.check.alternatives import alternative, candidates, parts

    spec = load_kernel(kernel)
    require_total(spec)
    arch = _arch(spec, target)
    found = parts(spec, arch, _known(spec, parameter))
    if not found:
        raise click.UsageError(f"{spec.kernel} takes no {parameter} on {arch}: its schedule does not have it")
    asked = [_value(text) for text in tried]
    answers = [
        (
            part,
            [
                alternative(spec, arch, part, parameter, value)
                for value in asked or candidates(spec, parameter, part.value)
            ],
        )
        for part in found
    ]
    if form == "json":
        click.echo(json.dumps([_as_json(spec, arch, parameter, *answer) for answer in answers], indent=2))
        return
    click.echo(bold(f"{parameter} of {spec.kernel} on {arch}", sys.stdout))
    for part, others in answers:
        click.echo()
        click.echo("\n".join(_text(spec, arch, parameter, part, others)))


def _arch(spec: Spec, target: str | None) -> str:
    archs = [entry.arch for entry in spec.targets]
    arch = target or archs[0]
    if arch not in archs:
        raise click.UsageError(f"{spec.kernel} has no target {arch}; it has {', '.join(archs)}")
    return arch


def _known(spec: Spec, parameter: str) -> str:
    known = [*spec.section.tile, "schedule"]
    if parameter not in known:
        raise click.UsageError(f"{spec.kernel} has no tile parameter {parameter}; it has {', '.join(known)}")
    return parameter


def _value(text: str) -> Any:
    words = {"true": True, "false": False}
    return words[text] if text in words else int(text) if text.isdecimal() else text


def _chooser(spec: Spec, arch: str, parameter: str, part: Part) -> tuple[str, str]:
    """Where the value was chosen (file and line), and by which entry."""
    if part.entry < 0:
        return "", "left out of the spec: derived by the family from the plan and the chip"
    own = f"target.{arch}" + ("" if parameter == "schedule" else ".tile")
    base = "schedule" if parameter == "schedule" else f"tile.{parameter}"
    path = f"{own}.{parameter}" if spec.has(f"{own}.{parameter}") else base
    values = spec.tile_for(arch)[parameter]
    rule = values.rules[part.entry]
    several = len(values.rules) > 1
    span = spec.span(f"{path}[{part.entry}]" if several else path)
    when = f" when {rule.when_text}" if getattr(rule, "when_text", "") else ""
    entry = f"entry {part.entry + 1} of {len(values.rules)}: " if several else ""
    return f"{span.file}:{span.line}", f"{entry}use = {rule.use_text}{when}"


def _where(part: Part) -> str:
    from tilegen.expr import any_of, to_text

    condition = any_of(*(case.condition for case in part.cases))
    text = "" if condition is True else to_text(condition)
    if not text:
        return "for every declared shape"
    return f"where {text}" if len(text) <= 200 else f"in {len(part.cases)} cases of the tile rules"


def _text(spec: Spec, arch: str, parameter: str, part: Part, others: list[Alternative]) -> Iterator[str]:
    from tilegen.expr import to_text

    place, chooser = _chooser(spec, arch, parameter, part)
    value = part.value if isinstance(part.value, str) else to_text(part.value)
    yield bold(f"{parameter} = {value}", sys.stdout) + f", {_where(part)}"
    yield from _wrapped(f"chosen by {place + ', ' if place else ''}{chooser}", "  ")
    good = [other for other in others if other.legal and not other.objections]
    slow = [other for other in others if other.legal and other.objections]
    if good:
        yield f"  legal too (proved): {', '.join(str(other.value) for other in good)}"
    for other in slow:
        yield from _wrapped(f"legal but slow: {other.value}: {_reasons(other)}", "  ")
    for other in others:
        if not other.legal:
            yield from _wrapped(f"refused: {other.value}: {_reasons(other)}", "  ")
    yield from _arithmetic(spec, arch, part)


def _reasons(other: Alternative) -> str:
    first, *more = other.objections
    return f"{first.text} ({first.code})" + (f", and {', '.join(entry.code for entry in more)}" if more else "")


def _arithmetic(spec: Spec, arch: str, part: Part) -> Iterator[str]:
    """The argument of the first plan of the part."""
    from tilegen.check.argument import argument
    from tilegen.plan.build import dtype_bindings, plan_of

    plan = plan_of(spec, arch, dtype_bindings(spec)[0], part.cases[0])
    lines = argument(plan)
    if lines:
        yield "  arithmetic, with " + ", ".join(
            f"{name} = {value}" for name, value in plan.tiles.items() if isinstance(value, (int, str))
        )
        for line in lines:
            yield from _wrapped(line, "    ")


def _wrapped(text: str, indent: str) -> list[str]:
    return wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_long_words=False)


def _as_json(spec: Spec, arch: str, parameter: str, part: Part, others: list[Alternative]) -> dict[str, Any]:
    from tilegen.check.argument import argument
    from tilegen.expr import to_text
    from tilegen.plan.build import dtype_bindings, plan_of

    place, chooser = _chooser(spec, arch, parameter, part)
    return {
        "kernel": spec.kernel,
        "target": arch,
        "parameter": parameter,
        "value": part.value if isinstance(part.value, (bool, str, int)) else to_text(part.value),
        "where": [to_text(case.condition) for case in part.cases],
        "chosen_at": place,
        "chosen_by": chooser,
        "alternatives": [
            {
                "value": other.value,
                "legal": other.legal,
                "objections": [
                    {"rule": entry.code, "severity": entry.severity.value, "text": entry.text}
                    for entry in other.objections
                ],
            }
            for other in others
        ],
        "arithmetic": argument(plan_of(spec, arch, dtype_bindings(spec)[0], part.cases[0])),
    }
