"""The command of the sweep: see :mod:`tilegen.verify.sweep`."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click

from tilegen.cache import cache_folder
from tilegen.emit.tree import write_file
from tilegen.verify.pipeline import default_workers
from tilegen.verify.sweep.draw import drawn
from tilegen.verify.sweep.judge import compiles, judge
from tilegen.verify.sweep.observe import LIMIT_SECONDS, Store, observe_all, write_jobs
from tilegen.verify.sweep.predict import Prediction, predict
from tilegen.verify.sweep.program import Program
from tilegen.verify.sweep.report import reasons, report
from tilegen.verify.sweep.tally import AT_RUN_TIME, tally


@click.command(help="Samples specs around the limits of the checker and holds its verdicts against the compiler.")
@click.option("--family", required=True, type=click.Choice(["gemm", "attention", "row_norm"]))
@click.option("--target", "arch", required=True, metavar="ARCH", help="sm_90a and the like.")
@click.option("--samples", default=500, show_default=True, type=click.IntRange(min=1))
@click.option("--seed", default=0, show_default=True)
@click.option("--jobs", default=default_workers(), show_default="cores", help="Worker processes.")
@click.option("--limit", default=LIMIT_SECONDS, show_default=True, help="Seconds that one program may take.")
@click.option("--seconds", type=float, help="Stop observing after so long; the next run goes on from there.")
@click.option("--store", type=click.Path(path_type=Path), help="Folder of observations. Default: in the user's cache.")
@click.option("--rows", type=click.Path(path_type=Path), help="Where the results go, one JSON line a sample.")
@click.option("--report", "page", type=click.Path(path_type=Path), help="Where the page goes, as markdown.")
@click.option("--prepare", type=click.Path(path_type=Path), help="Only write the programs that are not observed yet.")
@click.option("--judge-only", is_flag=True, help="Compile nothing; judge the samples that are observed.")
def main(
    family: str,
    arch: str,
    samples: int,
    seed: int,
    jobs: int,
    limit: float,
    seconds: float | None,
    store: Path | None,
    rows: Path | None,
    page: Path | None,
    prepare: Path | None,
    judge_only: bool,
) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the workers are ended too
    until = None if seconds is None else time.time() + seconds
    known = Store(store or cache_folder() / "sweep")
    with progress("drawing", samples) as advance:
        drawing = drawn(known.folder, family, arch, seed, samples, partial(_in_processes, jobs, advance))
    with progress("predicting", samples) as advance:
        predictions = list(_in_processes(jobs, advance, predict, drawing))
    programs = _jobs(p.program for p in predictions if p.program is not None)
    missing = programs.keys() - known.known.keys()
    if prepare is not None:
        programs |= _others(predictions, known)
        missing = programs.keys() - known.known.keys()
        write_jobs(prepare, {digest: programs[digest] for digest in sorted(missing)})
        click.echo(f"{len(missing)} of {len(programs)} programs to observe are in {prepare}")
        return
    if not judge_only:
        with progress("compiling", len(missing)) as advance:
            observe_all(programs, known, jobs, limit=limit, until=until, progress=advance)
            observe_all(_others(predictions, known), known, jobs, limit=limit, until=until)
    results = list(_judged(predictions, known))
    if rows is not None:
        write_file(rows, "".join(json.dumps(row) + "\n" for row in results).encode())
    counted = tally(results)
    if page is not None:
        write_file(page, report(family, arch, seed, samples, results, reasons()).encode())
    click.echo(counted.text)
    sys.exit(0 if counted.holds else 1)


def _jobs(programs: Iterable[Program]) -> dict[str, dict[str, Any]]:
    return {p.digest: {"source": p.source, "key": dict(p.key), "arch": p.arch} for p in programs}


def _others(predictions: Iterable[Prediction], known: Store) -> dict[str, dict[str, Any]]:
    return _jobs(other for p in predictions for other in _needed(p, known))


def _needed(prediction: Prediction, known: Store) -> tuple[Program, ...]:
    """The further programs of a rejected spec whose first one is seen to compile: what was rejected may be one of them.

    None where a rule of the run rejects it, for then no compiler has to.
    """
    program, errors = prediction.program, prediction.verdict.errors
    if program is None or AT_RUN_TIME.keys() & set(errors):
        return ()
    return prediction.others if compiles(known.known.get(program.digest), program.arch) else ()


def _judged(predictions: Iterable[Prediction], known: Store) -> Iterator[dict[str, Any]]:
    """Rows of the samples of which everything is observed that is needed."""
    for p in predictions:
        observed = known.known.get(p.program.digest) if p.program else None
        digests = [other.digest for other in _needed(p, known)]
        if p.program is None or (observed is not None and known.known.keys() >= set(digests)):
            yield judge(p, observed, [known.known[digest] for digest in digests])


def _in_processes(
    jobs: int, advance: Callable[..., None], work: Callable[[Any], Any], items: Iterable[Any]
) -> Iterator[Any]:
    """``map``, over several processes where there is enough to do."""
    items = list(items)
    if jobs < 2 or len(items) < FEW:
        for item in items:
            yield work(item)
            advance()
        return
    with get_context("spawn").Pool(jobs) as pool:
        for result in pool.imap(work, items, chunksize=4):
            yield result
            advance()


FEW = 16


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[..., None]]:
    """A progress bar on a terminal, nothing where the output is piped."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns: list[Any] = [TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count=1: bar.advance(task, count)


if __name__ == "__main__":
    main()
