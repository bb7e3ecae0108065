"""``tilegen bench``: times a kernel beside its peers on the GPU, or prints its roofline where there is none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click


@click.command
@click.argument("kernel")
@click.option(
    "--against", metavar="PEERS", default=None, help="torch, compile, copy, cublas, module:function, by commas."
)
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZES", help="Sizes: 1,64 or 32:4096:32 or '2**20 // C'.")
@click.option("--dtype", "dtypes", multiple=True, help="Dtype of the first tensor; all of the spec if absent.")
@click.option("--suite", type=click.Path(path_type=Path, dir_okay=False), help="Shapes, dtypes and peers from a file.")
@click.option(
    "--cache", type=click.Choice(["cold", "warm", "both"]), default=None, help="State of L2.  [default: both]"
)
@click.option("--rounds", type=click.IntRange(1, 1000), default=5, show_default=True, help="Rounds of all peers.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the inputs and of the order in each round.")
@click.option(
    "--limit", type=click.FloatRange(min=0), default=None, help="Seconds of timing; no row is begun after them."
)
@click.option("--jobs", type=click.IntRange(1), default=None, help="Processes that compile.  [default: one a core]")
@click.option("--target", metavar="ARCH", help="Without a GPU: the chip whose roofline is printed.")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write .json, .md, .png or .svg.",
)
@click.option(
    "--results", type=click.Path(path_type=Path, dir_okay=False), help="Show a saved .json; nothing is measured."
)
@click.option(
    "--profile",
    "profilers",
    multiple=True,
    type=click.Choice(["ncu", "memcheck", "racecheck", "synccheck"]),
    help="Instead of timing, run one call of each schedule under this tool.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(**options: Any) -> None:
    """Time KERNEL (a spec file or the name of a kernel in specs/) beside its peers, on the GPU that is there.

    Every shape is checked against the float64 reference first. Without a GPU the roofline is printed. Exits 1 where a
    result is wrong or a spec fails its checks.
    """
    from tilegen.cli._bench import Request, run

    sys.exit(run(Request(**options)))
