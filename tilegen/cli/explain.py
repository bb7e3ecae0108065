"""``tilegen explain``: what a rule says, where it comes from, what TileLang does without it, and examples; or where a
line of generated code comes from; or why the tiles of a kernel are as they are."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from textwrap import indent, wrap
from typing import TYPE_CHECKING

import click

from tilegen.cli._terminal import bold

if TYPE_CHECKING:
    from tilegen.check.examples import Example
    from tilegen.check.rule import Rule

WIDTH = 100


@click.command
@click.argument("rules", nargs=-1, metavar="[RULE | FILE:LINE | KERNEL]...")
@click.option("--spec", type=click.Path(path_type=Path), help="The spec of FILE, if it is not where FILE says.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(rules: tuple[str, ...], spec: Path | None, form: str) -> None:
    """Explain rules of the checker, lines of generated code, or the tiles of a kernel.

    RULE is an id (TG-C2, or C2) or a name (tma-box-256); without any, all rules are listed. FILE:LINE is a line of a
    generated file: the lines of the spec that decide it are shown, and the rules that hold them. KERNEL is a spec file or
    the name of a kernel in specs/: the arithmetic that leads to its tiles is shown, for each of them.
    """
    from tilegen.check.rule import catalogue
    from tilegen.review.origin.place import is_place

    places = [text for text in rules if is_place(text)]
    if places:
        from tilegen.cli._origin import explain_places

        explain_places(places, spec, form)
        rules = tuple(text for text in rules if text not in places)
        if not rules:
            return

    kernels = [text for text in rules if _is_kernel(text)]
    if kernels:
        from tilegen.cli._tiles import explain_kernel

        for text in kernels:
            explain_kernel(text, form)
        rules = tuple(text for text in rules if text not in kernels)
        if not rules:
            return

    known = catalogue()
    found = [_find(text) for text in rules] or list(known.values())
    if form == "json":
        click.echo(json.dumps([_as_json(rule) for rule in found], indent=2))
    elif rules:
        click.echo("\n\n".join(_page(rule) for rule in found))
    else:
        width = max(len(rule.name) for rule in found)
        for rule in found:
            click.echo(f"{rule.code:<7} {rule.severity.value:<6} {rule.name:<{width}}  {rule.sentence}")


def _is_kernel(text: str) -> bool:
    """Whether a text that names no rule names a spec."""
    from tilegen.check.rule import find_rule
    from tilegen.spec.find import NoSpecError, find_kernel

    if find_rule(text) is not None:
        return False
    try:
        find_kernel(text)
    except NoSpecError:
        return False
    return True


def _find(text: str) -> Rule:
    from tilegen.check.rule import catalogue, find_rule

    rule = find_rule(text)
    if rule is None and text.rpartition(":")[2].isdigit():
        raise click.UsageError(
            f"`{text[-80:]}` is no line of generated Python; `tilegen why KERNEL KEY` is for a key of a spec"
        )
    if rule is None:
        names = [name for entry in catalogue().values() for name in (entry.code, entry.name)]
        near = get_close_matches(text.upper()[:40], names, n=1) or get_close_matches(text.lower()[:40], names, n=1)
        hint = f"did you mean {near[0]}?" if near else "`tilegen explain` lists all rules"
        raise click.UsageError(f"there is no rule `{text[:40]}`; {hint}")
    return rule


def _page(rule: Rule) -> str:
    from tilegen.check.examples import examples

    lines = [bold(f"{rule.code} {rule.name}", sys.stdout) + f" ({rule.severity.value})", ""]
    lines += wrap(rule.sentence[:1].upper() + rule.sentence[1:] + ".", WIDTH)
    lines.append("")
    for heading, text in (("source", rule.source), ("without", rule.today), ("measured", rule.cost)):
        if text:
            lines += wrap(text, WIDTH, initial_indent=f"{heading:<9} ", subsequent_indent=" " * 10)
    for example in examples(rule.id):
        lines += ["", *_example(example)]
    return "\n".join(lines)


def _example(example: Example) -> Iterator[str]:
    yield f"{'refused' if example.fails else 'accepted'}, in the example of {example.of}:"
    yield indent(example.text.strip("\n"), "    ")
    if example.fails:
        yield ""
        yield from wrap(f"found: {example.says}", WIDTH, initial_indent="    ", subsequent_indent="    ")


def _as_json(rule: Rule) -> dict[str, object]:
    from tilegen.check.examples import examples

    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.value,
        "sentence": rule.sentence,
        "source": rule.source,
        "today": rule.today,
        "cost": rule.cost,
        "examples": [
            {"of": example.of, "refused": example.fails, "change": example.text, "found": example.says}
            for example in examples(rule.id)
        ],
    }
