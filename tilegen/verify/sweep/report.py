"""The page of one sweep: docs/truth/<family>_<target>.md."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilegen.check.rule import find_rule
from tilegen.verify.sweep.judge import FINE
from tilegen.verify.sweep.tally import AT_RUN_TIME, OUTCOMES, PATH, SHARED, SPILLS, WIDTH, Tally, tally

TITLES = {"gemm": "GEMM", "attention": "MLA decode", "row_norm": "Row norms"}
MOST_LISTED = 60


def report(
    family: str,
    arch: str,
    seed: int,
    asked: int,
    rows: Sequence[Mapping[str, Any]],
    explained: Mapping[str, str] | None = None,
) -> str:
    """The page as markdown. ``explained`` says of a rule, or of a kind of fact, why its disagreements are what they are."""
    counted = tally(rows)
    said = explained or {}
    sections = [
        _head(family, arch, seed, asked, counted),
        _bounds(counted),
        _confusion(counted),
        _rules(counted),
        _facts(counted),
        _disagreements(counted, said),
        _left_out(counted, asked, said),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def reasons() -> dict[str, str]:
    """Why disagreements are what they are, by rule or kind of fact."""
    found: dict[str, str] = tomllib.loads(Path(__file__).with_name("reasons.toml").read_text(encoding="utf-8"))
    return {name: text.strip() for name, text in found.items()}


def _head(family: str, arch: str, seed: int, asked: int, counted: Tally) -> list[str]:
    near = sum(bool(row["near"]) for row in counted.rows)
    compilers = sorted({row["compiler"] for row in counted.rows if row.get("compiler")})
    return [
        f"# {TITLES[family]} on {arch}: the checker against the compiler",
        "",
        f"{len(counted.rows)} of {asked} samples of seed {seed}, {near} of them within one step of a limit; "
        f"{len({row['digest'] for row in counted.rows})} different programs. Every one was rendered, checked or not, lowered "
        f"by TileLang 0.1.15 and compiled by {' and '.join(compilers) or 'nvcc'} for {arch}.",
        "",
        "```",
        f"python -m tilegen.verify.sweep --family {family} --target {arch} --samples {asked} --seed {seed}",
        "```",
    ]


def _bounds(counted: Tally) -> list[str]:
    lines = ["| asked | found | |", "|---|---|---|"]
    lines += [f"| {asked} | {found} | {'kept' if ok else '**not kept**'} |" for asked, found, ok in counted.lines]
    return lines


def _confusion(counted: Tally) -> list[str]:
    lines = ["## Verdict and outcome", "", f"| | {' | '.join(OUTCOMES)} |", "|---|" + "---|" * len(OUTCOMES)]
    for accepted, name in ((True, "accepted"), (False, "rejected as error")):
        lines.append(f"| {name} | " + " | ".join(str(counted.confusion[accepted, o]) for o in OUTCOMES) + " |")
    return [
        *lines,
        "",
        "*Fine*: a cubin whose shared memory, registers and threads fit a block of the chip. *Does not fit*: compiled, and no "
        "launch can have it. *Not compiled*: nvcc stops. *Refused*: TileLang stops.",
    ]


def _rules(counted: Tally) -> list[str]:
    if not counted.by_rule:
        return []
    lines = [
        "## What each rule refused, and what became of it",
        "",
        "A sample may break several rules. Some rules speak of the run: no compiler can show what they refuse.",
        "",
        f"| rule | {' | '.join(OUTCOMES)} | at run time |",
        "|---|" + "---|" * (len(OUTCOMES) + 1),
    ]
    for code, outcomes in counted.by_rule.items():
        found = find_rule(code)
        name = f"{code} {found.name}" if found else code
        lines.append(
            f"| {name} | " + " | ".join(str(outcomes.get(o, 0)) for o in OUTCOMES) + f" | {AT_RUN_TIME.get(code, '')} |"
        )
    return lines


def _facts(counted: Tally) -> list[str]:
    lines = [
        "## Facts",
        "",
        "Samples with every such fact as predicted.",
        "",
        "| fact | accepted | all that lower |",
        "|---|---|---|",
    ]
    for name, kinds in (
        ("threads of the block", ("threads",)),
        ("shared memory, dynamic and static, to the byte", SHARED),
        ("matrix instruction", ("matrix instruction",)),
        ("how tiles are loaded: TMA, cp.async, plain", ("loads",)),
        ("how the output tile is stored: TMA, plain", ("stores",)),
        ("the three together", PATH),
        ("bytes of one access, per tensor that TMA does not carry", (WIDTH,)),
        ("spill or no spill", (SPILLS,)),
    ):
        pairs = (counted.agreement(*kinds), counted.agreement(*kinds, accepted=False))
        if pairs[1][1]:
            lines.append(f"| {name} | " + " | ".join(_part(*pair) for pair in pairs) + " |")
    unseen = counted.agreement(SPILLS, unseen=True)
    if unseen[1]:
        lines.append(f"| spill or no spill, of samples that the estimate was not made with | {_part(*unseen)} | |")
    return [*lines, "", f"Registers a thread, {counted.register_text}."]


def _part(right: int, total: int) -> str:
    return f"{right} of {total} ({100 * right / total:.1f} %)" if total else "none"


def _disagreements(counted: Tally, reasons: Mapping[str, str]) -> list[str]:
    lines = ["## Every disagreement"]
    lines += _listed("Accepted but failed", counted.accepted_but_failed, reasons)
    lines += _listed("Rejected yet fine", counted.rejected_yet_fine, reasons)
    by_run = Counter(code for row in counted.rejected_for_the_run for code in row["errors"] if code in AT_RUN_TIME)
    if by_run:
        lines += ["", "### Rejected for the run", "", "Compiled, and refused all the same:", ""]
        lines += [
            f"* {code}, {count} samples: {AT_RUN_TIME[code]}. {reasons.get(code, '')}".rstrip()
            for code, count in sorted(by_run.items())
        ]
    for title, kinds in (
        ("Shared memory", SHARED),
        ("Instruction path", PATH),
        ("Vector width", (WIDTH,)),
        ("Spills", (SPILLS,)),
        ("Threads", ("threads",)),
    ):
        lines += _facts_listed(title, counted.disagreeing(*kinds), reasons)
    if len(lines) == 1:
        lines += ["", "None."]
    return lines


def _left_out(counted: Tally, asked: int, reasons: Mapping[str, str]) -> list[str]:
    """How the samples that are there were picked from those that were drawn."""
    if len(counted.rows) >= asked:
        return []
    lines = ["## What this page does not show", "", f"{len(counted.rows)} of {asked} samples are compiled."]
    if "Picked" in reasons:
        lines += [reasons["Picked"]]
    kept = [row for row in counted.rejected if row.get("refusals_only")]
    if kept:
        others = len(counted.rejected) - len(kept)
        lines += [
            f"{len(kept)} of the rejected are refusals from a run that had no nvcc, and of which nothing else was kept: "
            f"rejected yet fine are {len(counted.rejected_yet_fine)} of the other {others}."
        ]
    return lines


def _listed(title: str, rows: Sequence[Mapping[str, Any]], reasons: Mapping[str, str]) -> Iterator[str]:
    if not rows:
        return
    yield from ("", f"### {title}", "")
    for row in rows[:MOST_LISTED]:
        said = f" ({row['near']})" if row["near"] else ""
        why = row["reason"] if row["outcome"] != FINE else "compiles"
        codes = " ".join(row["errors"])
        yield f"* `{row['sample']}`{said}: {codes + ': ' if codes else ''}{row['outcome']}: {why}"
        for code in row["errors"]:
            if code in reasons:
                yield f"  {reasons[code]}"
    if len(rows) > MOST_LISTED:
        yield f"* and {len(rows) - MOST_LISTED} more"


def _facts_listed(
    title: str, found: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], reasons: Mapping[str, str]
) -> Iterator[str]:
    if not found:
        return
    yield from ("", f"### {title}", "")
    if title in reasons:
        yield from (reasons[title], "")
    for row, fact in found[:MOST_LISTED]:
        yield (
            f"* `{row['sample']}`, {fact['kernel']}: {fact['what']} predicted {_text(fact['predicted'])}, "
            f"observed {_text(fact['observed'])}"
        )
    if len(found) > MOST_LISTED:
        yield f"* and {len(found) - MOST_LISTED} more"


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " and ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
