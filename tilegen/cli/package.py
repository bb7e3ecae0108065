"""``tilegen package``: a wheel of generated kernels."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command("package")
@click.argument("kernels", nargs=-1)
@click.option(
    "--name", required=True, metavar="NAME", help="Name of the distribution; acme-kernels imports as acme_kernels."
)
@click.option("--version", "version", metavar="VERSION", help="[default: tilegen's, and a digest of the kernels]")
@click.option("--targets", metavar="ARCH,ARCH", help="Only for these targets.  [default: all that the kernels have]")
@click.option(
    "--from",
    "origin",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("generated"),
    show_default=True,
    help="The generated tree.",
)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("dist"), show_default=True, help="Where to."
)
def command(
    kernels: tuple[str, ...], name: str, version: str | None, targets: str | None, origin: Path, out: Path
) -> None:
    """Build a wheel that holds KERNELS (default: all) with their golden tests. It needs torch and tilelang alone."""
    from tilegen.emit.tree import write_file
    from tilegen.vendor.package import PackageError, default_version, tree, wheel
    from tilegen.vendor.source import SourceError, open_source

    if not origin.is_dir():
        raise click.UsageError(f"{origin} does not exist; `tilegen build` writes it, or give --from")
    chosen = tuple(word.strip() for word in (targets or "").split(",") if word.strip())
    try:
        source = open_source(origin)
        names = tuple(dict.fromkeys(kernels)) or source.kernels
        for kernel in names:
            source.kernel(kernel, chosen)
        files = tree(source, names, chosen, name, default_version(source, names) if version is None else version)
        filename, content = wheel(files)
        write_file(out / filename, content)
    except (PackageError, SourceError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        click.echo(f"error: {error.filename}: {error.strerror}", err=True)
        sys.exit(1)
    click.echo(f"{out / filename}: {', '.join(names)}; {len(content) / 1024:,.0f} KiB")
