"""What ``tilegen bench`` does, apart from reading its options."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilegen.cli._specs import load_kernel
from tilegen.cli._terminal import use_color

if TYPE_CHECKING:
    from tilegen.bench.result import Result
    from tilegen.bench.suite import Suite
    from tilegen.spec.model import Spec

WRITERS = (".json", ".md", ".png", ".svg")
DEFAULT_PEERS = "torch,copy"


@dataclass(frozen=True)
class Request:
    """The options as they were given."""

    kernel: str
    against: str | None
    dims: tuple[str, ...]
    dtypes: tuple[str, ...]
    suite: Path | None
    cache: str | None
    rounds: int
    seed: int
    limit: float | None
    jobs: int | None
    target: str | None
    outputs: tuple[Path, ...]
    results: Path | None
    profilers: tuple[str, ...]
    form: str


def run(request: Request) -> int:
    """Exit code 0, or 1 where a result is wrong or the spec fails its checks."""
    for path in request.outputs:
        if path.suffix not in WRITERS:
            raise click.UsageError(f"{path}: --output is a {', '.join(WRITERS)} file")
    if request.results is not None:
        return _report(_saved(request.results), request)
    spec = load_kernel(request.kernel)
    if not legal(spec):
        return 1
    suite = _suite(spec, request)
    from tilegen.bench.cuda import gpu_problem

    problem = gpu_problem()
    if request.profilers:
        return _profile(spec, suite, request, problem)
    if problem:
        click.echo(f"no GPU here ({problem}): nothing is timed, this is the roofline", err=True)
        return _report(_roofline(spec, suite, request.target), request)
    return _report(_measured(spec, suite, request), request)


def _saved(path: Path) -> Result:
    from tilegen.bench.result import ResultError, read_result

    try:
        return read_result(path)
    except ResultError as error:
        raise click.UsageError(str(error)) from None


def legal(spec: Spec) -> bool:
    """Whether the spec passes its checks: what is not proved is not run."""
    from tilegen.check.checker import check
    from tilegen.spec.diagnostic import render_text

    verdict = check(spec)
    if not verdict.ok:
        click.echo(render_text(verdict.diagnostics, color=use_color(sys.stderr)), err=True)
    return verdict.ok


def _suite(spec: Spec, request: Request) -> Suite:
    """What to time: the suite file, with what the command line says in its place."""
    from tilegen.bench.peers import PeerError, parse_peers
    from tilegen.bench.shapes import ShapeError, shapes
    from tilegen.bench.suite import Suite, read_suite
    from tilegen.spec.diagnostic import SpecError, render_text

    known = spec.dtypes(spec.tensors[0].name)
    for dtype in request.dtypes:
        if dtype not in known:
            raise click.UsageError(f"{spec.kernel} is not built for {dtype}; it has {', '.join(known)}")
    states = {None: (), "both": ("cold", "warm")}.get(request.cache, (request.cache or "",))
    try:
        against = parse_peers(request.against if request.against is not None else DEFAULT_PEERS)
        if request.suite is None:
            return Suite(
                tuple(shapes(spec, given_dims(request.dims))),
                against,
                request.dtypes or known,
                states or ("cold", "warm"),
            )
        if request.dims:
            raise click.UsageError("give the shapes by --dim or by --suite, not by both")
        suite = read_suite(request.suite, spec)
    except (PeerError, ShapeError) as error:
        raise click.UsageError(str(error)) from None
    except SpecError as error:
        click.echo(render_text(error.diagnostics, color=use_color(sys.stderr)), err=True)
        sys.exit(1)
    return Suite(
        suite.shapes,
        against if request.against is not None else suite.against,
        request.dtypes or suite.dtypes,
        states or suite.states,
    )


def given_dims(dims: tuple[str, ...]) -> dict[str, str]:
    """What the ``--dim`` options say, by dim."""
    found: dict[str, str] = {}
    for text in dims:
        name, equals, sizes = text.partition("=")
        if not equals or name.strip() in found:
            raise click.UsageError(f"--dim {text}: each dim once, as NAME=SIZES")
        found[name.strip()] = sizes
    return found


def _roofline(spec: Spec, suite: Suite, arch: str | None) -> Result:
    from tilegen.bench.measure import roof_row, rooflines
    from tilegen.bench.result import Result
    from tilegen.targets import target

    archs = [entry.arch for entry in spec.targets]
    if arch is not None and arch not in archs:
        raise click.UsageError(f"{spec.kernel} has no target {arch}; it has {', '.join(archs)}")
    arch = arch or archs[0]
    part, lines = target(arch).part, rooflines(spec, arch)
    rows = tuple(roof_row(lines[dtype], dims, part) for dtype in suite.dtypes for dims in suite.shapes)
    return Result(spec.kernel, spec.path, spec.sha256, {"card": part.name, "arch": arch}, rows, ())


def _measured(spec: Spec, suite: Suite, request: Request) -> Result:
    from tilegen.bench.measure import Options, measure

    _require_target(spec)
    limit_s = float("inf") if request.limit is None else request.limit
    options = Options(
        suite.against, suite.states, request.rounds, seed=request.seed, jobs=request.jobs or 0, limit_s=limit_s
    )
    with progress_bar() as progress:
        return measure(spec, suite.shapes, suite.dtypes, options, progress)


def _require_target(spec: Spec) -> str:
    """The architecture of this GPU, which must be a target of the spec."""
    from tilegen.bench.cuda import arch_of_gpu

    arch = arch_of_gpu()
    archs = [entry.arch for entry in spec.targets]
    if arch not in archs:
        raise click.UsageError(f"this GPU is {arch}; {spec.kernel} is for {', '.join(archs)}: add [target.{arch}]")
    return arch


def _profile(spec: Spec, suite: Suite, request: Request, problem: str) -> int:
    from tilegen.bench.profile import ProfileError, profile

    if problem:
        click.echo(f"error: --profile needs a GPU ({problem})", err=True)
        return 1
    arch = _require_target(spec)
    shapes = suite.shapes if request.dims or request.suite else ()
    try:
        pages = profile(
            spec, shapes, suite.dtypes, request.profilers, lambda text: click.echo(text, err=True), arch=arch
        )
    except ProfileError as error:
        click.echo(f"error: {error}", err=True)
        return 1
    for path in request.outputs:
        _write(path, pages.text.encode())
    click.echo(pages.text, nl=False)
    return 0 if pages.clean else 1


def _report(result: Result, request: Request) -> int:
    from tilegen.bench.table import show

    if request.form == "json":
        click.echo(result.to_json(), nl=False)
    else:
        show(result, sys.stdout)
    for path in request.outputs:
        _output(result, path)
    return 0 if all(row.right for row in result.rows) else 1


def _output(result: Result, path: Path) -> None:
    from tilegen.bench.table import markdown

    if path.suffix == ".json":
        _write(path, result.to_json().encode())
    elif path.suffix == ".md":
        _write(path, markdown(result).encode())
    else:
        _draw(result, path)
    click.echo(f"wrote {path}", err=True)


def _draw(result: Result, path: Path) -> None:
    from tilegen.bench.plot import draw

    state = "cold" if any("cold" in row.times for row in result.rows) else "warm"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draw(result, path, state)
    except ImportError:
        raise click.ClickException("a plot needs matplotlib: pip install 'tilegen[plot]'") from None
    except ValueError as error:
        raise click.UsageError(f"{path}: {error}") from None
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror}") from None


def _write(path: Path, content: bytes) -> None:
    from tilegen.emit.tree import write_file

    try:
        write_file(path, content)
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror}") from None


@contextlib.contextmanager
def progress_bar() -> Iterator[Any]:
    """A bar on a terminal; nothing where the output is piped."""
    if not sys.stderr.isatty():
        yield lambda _what, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, completed=done, total=total, description=what)
