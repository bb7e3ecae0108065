"""What ``tilegen build --aot`` does after the build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tilegen.cli import _build


def compile_ahead(
    paths: tuple[Path, ...],
    out: Path,
    only: tuple[str, ...],
    arches: tuple[str, ...],
    dims: tuple[str, ...],
    jobs: int | None,
) -> int:
    """Exit code 0: the libraries were written. 1: one could not be compiled, and none was written."""
    from tilegen.emit.libraries import LibrariesError, build_libraries
    from tilegen.verify.pipeline import default_workers
    from tilegen.verify.ptxas import nvcc

    specs = _build.load_specs(_build.spec_files(paths), only)
    sizes = _sizes(dims, specs)
    _build.known_targets(specs, arches)
    if any(not arch.startswith("sm_") for arch in arches):
        raise click.UsageError("only CUDA targets can be compiled ahead")
    if nvcc() is None:
        click.echo("error: there is no nvcc on PATH or below CUDA_HOME; --aot compiles with it", err=True)
        return 1
    counts: dict[str, int] = {}
    try:
        with _build.workers_die() as failed, _build.progress("compiling") as progress:
            counts = build_libraries(
                [spec.kernel for spec in specs],
                out,
                arches,
                dims=sizes,
                workers=jobs or default_workers(),
                progress=progress,
            )
    except LibrariesError as error:
        click.echo(f"error: {error}", err=True)
        return 1
    for spec in specs:
        has = [arch for arch in arches if arch in {target.arch for target in spec.targets}]
        count = counts.get(spec.kernel, 0)
        if count:
            noun = "library" if count == 1 else "libraries"
            click.echo(f"{out / spec.kernel / 'aot'}: {count} {noun} for {', '.join(has)}")
        elif not failed:
            click.echo(f"{spec.kernel} has none of these targets: no libraries")
    return int(bool(failed))


def _sizes(dims: tuple[str, ...], specs: list[Any]) -> dict[str, list[int]]:
    """``("N=1024,4096",)`` as ``{"N": [1024, 4096]}``, all of them in the declared domains. Raises ``click.UsageError``."""
    found: dict[str, list[int]] = {}
    for text in dims:
        name, _, values = text.partition("=")
        try:
            found[name] = [int(value) for value in values.split(",")]
        except ValueError as error:
            raise click.UsageError(f"--dims {text}: expected a dim and its sizes, as in N=1024,4096") from error
        declaring = [spec for spec in specs if any(dim.name == name for dim in spec.dims)]
        if not declaring:
            known = sorted({dim.name for spec in specs for dim in spec.dims})
            raise click.UsageError(f"no spec has the dim {name}; there are {', '.join(known)}")
        for spec in declaring:
            for value in found[name]:
                if not spec.dim(name).contains(value):
                    raise click.UsageError(f"{name}={value} is outside the domain that {spec.path} declares")
    return found
