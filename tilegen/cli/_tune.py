"""What ``tilegen tune`` does, apart from reading its options."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilegen.cli._bench import given_dims, legal, progress_bar
from tilegen.cli._specs import load_kernel
from tilegen.spec.find import lock_path

if TYPE_CHECKING:
    from tilegen.spec.model import Spec
    from tilegen.tune.candidate import Candidate, Goal
    from tilegen.tune.session import Machine, Tuned


@dataclass(frozen=True)
class Request:
    """The options as they were given."""

    kernel: str
    dims: tuple[str, ...]
    dtype: str | None
    when: str | None
    budget: float
    count: int
    jobs: int | None
    fresh: bool
    dry_run: bool
    target: str | None
    form: str


def run(request: Request, machine: Machine | None = None) -> int:
    """Exit code 0; 1 where the spec fails its checks, or nothing could be measured. ``machine``: in place of this GPU."""
    spec = load_kernel(request.kernel)
    if not legal(spec):
        return 1
    points = _shapes(spec, request)
    if request.dry_run:
        return _dry_run(spec, points, request)
    machine = machine or _this_machine(spec, request)
    if machine is None:
        return 1
    done = []
    for dims in points:
        tuned = _tuned(_goal(spec, machine.arch, machine.part, dims, request), machine, request)
        if tuned is None:
            return 1
        spec = _keep(spec, tuned)
        done.append(tuned)
        if request.form == "text":
            show(tuned)
    if request.form == "json":
        click.echo(json.dumps([as_json(tuned) for tuned in done], indent=2))
    return 0


def _shapes(spec: Spec, request: Request) -> list[dict[str, int]]:
    from tilegen.bench.shapes import ShapeError, shapes

    known = spec.dtypes(spec.tensors[0].name)
    if request.dtype is not None and request.dtype not in known:
        raise click.UsageError(f"{spec.kernel} is not built for {request.dtype}; it has {', '.join(known)}")
    try:
        return shapes(spec, given_dims(request.dims))
    except ShapeError as error:
        raise click.UsageError(str(error)) from None


def _goal(spec: Spec, arch: str, part: Any, dims: Mapping[str, int], request: Request) -> Goal:
    from tilegen.expr import ExprError
    from tilegen.tune.candidate import Goal, class_of, condition_of, holds

    text = request.when or class_of(spec, dims)
    try:
        when = condition_of(spec, text)
    except ExprError as error:
        raise click.UsageError(f"--when {text}: {error.message}") from None
    goal = Goal(spec, arch, request.dtype or spec.dtypes(spec.tensors[0].name)[0], dims, when, text, part)
    if not holds(goal):
        shape = ", ".join(f"{name} = {size}" for name, size in dims.items())
        raise click.UsageError(f"--when {text} does not hold for {shape}")
    return goal


def _this_machine(spec: Spec, request: Request) -> Machine | None:
    """The GPU that is here; None, said on the terminal, where there is none."""
    from tilegen.bench.cuda import arch_of_gpu, gpu_problem, machine, part_of
    from tilegen.tune.session import Machine

    problem = gpu_problem()
    if problem:
        click.echo(f"error: tuning needs a GPU ({problem}); --dry-run lists the candidates without one", err=True)
        return None
    import torch

    arch = arch_of_gpu()
    archs = [entry.arch for entry in spec.targets]
    if arch not in archs:
        raise click.UsageError(f"this GPU is {arch}; {spec.kernel} is for {', '.join(archs)}: add [target.{arch}]")
    facts = machine(arch, torch.cuda.get_device_properties(0).multi_processor_count)
    del facts["date"]
    return Machine(arch, part_of(arch, facts["card"]), facts, jobs=request.jobs or os.cpu_count() or 1)


def _tuned(goal: Goal, machine: Machine, request: Request) -> Tuned | None:
    from tilegen.tune.isolated import CandidateError
    from tilegen.tune.search import Limits
    from tilegen.tune.session import tune

    with progress_bar() as progress:
        progress("ranking and proving tilings", 0, request.count)
        try:
            return tune(
                goal, machine, count=request.count, limits=Limits(request.budget), fresh=request.fresh, say=progress
            )
        except CandidateError as error:
            click.echo(f"error: nothing to compare with: {error}", err=True)
            return None


def _keep(spec: Spec, tuned: Tuned) -> Spec:
    """Writes the lock, and gives the spec as it is now. A class where nothing beats the rules has no winner any more."""
    from tilegen.spec import load
    from tilegen.tune.write_lock import with_winner, without_class, write_lock

    path = lock_path(Path(spec.path))
    before = spec.lock.winners if spec.lock is not None else ()
    if tuned.winner is not None:
        after = with_winner(before, tuned.winner)
    elif tuned.found.complete:
        after = without_class(before, tuned.goal.arch, tuned.goal.when_text)
    else:
        after = before
    if after == before:
        return spec
    try:
        write_lock(path, spec.kernel, after)
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror}") from None
    click.echo(f"wrote {path}" if after else f"removed {path}", err=True)
    return load(Path(spec.path))


def _dry_run(spec: Spec, points: Sequence[Mapping[str, int]], request: Request) -> int:
    from tilegen.targets import target
    from tilegen.tune.candidate import default, proposals

    archs = [entry.arch for entry in spec.targets]
    arch = request.target or archs[0]
    if arch not in archs:
        raise click.UsageError(f"{spec.kernel} has no target {arch}; it has {', '.join(archs)}")
    for dims in points:
        goal = _goal(spec, arch, target(arch).part, dims, request)
        rows = [("default", default(goal))] + [
            (str(i), c) for i, c in enumerate(proposals(goal, request.count), start=1)
        ]
        if request.form == "json":
            click.echo(json.dumps({"when": goal.when_text, "candidates": [dict(_entry(c)) for _, c in rows]}, indent=2))
        else:
            _table(
                f"{spec.kernel}, {goal.when_text}",
                ("", "tiling", "model, us"),
                [(name, c.label, f"{c.predicted_s * 1e6:.2f}") for name, c in rows],
            )
    return 0


def _entry(candidate: Candidate) -> Mapping[str, Any]:
    from tilegen.tune.candidate import plain

    return {"tiles": plain(candidate.tiles), "predicted_us": candidate.predicted_s * 1e6}


def show(tuned: Tuned) -> None:
    """The candidates in the order of the model, what each measured, and what came of it."""
    outcomes = {outcome.candidate.key: outcome for outcome in tuned.found.outcomes}
    rows = [
        ("default", tuned.default.label, f"{tuned.default.predicted_s * 1e6:.2f}", _us(tuned.found.default_s), "1.000")
    ]
    for place, candidate in enumerate(tuned.candidates, start=1):
        outcome = outcomes.get(candidate.key)
        seconds, result = (None, "the default" if candidate.key == tuned.default.key else "no time left")
        if outcome is not None:
            seconds = outcome.seconds
            result = outcome.failed[:90] if outcome.ratio is None else f"{outcome.ratio:.3f}"
        rows.append((str(place), candidate.label, f"{candidate.predicted_s * 1e6:.2f}", _us(seconds), result))
    title = f"{tuned.goal.spec.kernel}, {tuned.goal.dtype}, {tuned.goal.when_text}"
    _table(title, ("", "tiling", "model, us", "us", "to the default"), rows)
    click.echo(verdict(tuned))


def verdict(tuned: Tuned) -> str:
    """One line: the winner, or that there is none."""
    failed = sum(outcome.ratio is None for outcome in tuned.found.outcomes)
    tail = f"; {len(tuned.found.outcomes)} of {len(tuned.candidates)} candidates measured, {failed} of them failed"
    if tuned.winner is None:
        return f"no winner: the rules of the spec stay{tail}"
    label = tuned.found.winner.candidate.label if tuned.found.winner else ""
    return f"winner: {label}, {tuned.winner.ratio:.3f} times as fast as the rules of the spec{tail}"


def as_json(tuned: Tuned) -> dict[str, Any]:
    from tilegen.tune.candidate import plain

    return {
        "kernel": tuned.goal.spec.kernel,
        "dtype": tuned.goal.dtype,
        "dims": dict(tuned.goal.dims),
        "when": tuned.goal.when_text,
        "complete": tuned.found.complete,
        "default": plain(tuned.default.tiles),
        "winner": None if tuned.winner is None else {"tiles": plain(tuned.winner.tiles), "ratio": tuned.winner.ratio},
        "candidates": [
            {"tiles": plain(o.candidate.tiles), "ratio": o.ratio, "seconds": o.seconds, "failed": o.failed}
            for o in tuned.found.outcomes
        ],
    }


def _us(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:.2f}"


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 240, highlight=False)
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if "us" in column else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)
