"""``tilegen tune``: searches the proved tilings of a kernel for the fastest on this GPU."""

from __future__ import annotations

import sys
from typing import Any

import click


@click.command
@click.argument("kernel")
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZES", help="Shapes to tune, as for `tilegen bench`.")
@click.option("--dtype", help="Dtype of the first tensor.  [default: the first of the spec]")
@click.option(
    "--when", help="Class of shapes that a winner serves.  [default: the shape, dynamic dims by powers of two]"
)
@click.option(
    "--budget", type=click.FloatRange(min=1), default=60.0, show_default=True, help="Seconds of search a shape."
)
@click.option(
    "--candidates", "count", type=click.IntRange(1, 1000), default=24, show_default=True, help="How many to try."
)
@click.option("--jobs", type=click.IntRange(1), default=None, help="Processes that compile.  [default: one a core]")
@click.option("--fresh", is_flag=True, help="Forget what an earlier search of the same shape has measured.")
@click.option("--dry-run", is_flag=True, help="Only list the candidates; needs no GPU.")
@click.option("--target", metavar="ARCH", help="With --dry-run: the chip.  [default: the first of the spec]")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(**options: Any) -> None:
    """Find faster tilings of KERNEL for some shapes, and write them into the lock beside its spec.

    Only tilings that the checker proves are tried, the most promising by a model first. Each is compiled and measured in
    processes of their own, beside what the spec says now. A search that is killed goes on where it stopped. `tilegen build`
    puts the winners ahead of the rules of the spec.
    """
    from tilegen.cli._tune import Request, run

    sys.exit(run(Request(**options)))
