"""``tilegen interpret``: a whole script or module, with its TileLang kernels interpreted."""

from __future__ import annotations

from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tilegen.interp.interpreted import Call
    from tilegen.interp.script import Outcome


@click.command(
    context_settings={
        "help_option_names": ["-h", "--help"],
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
    }
)
@click.option("-m", "is_module", is_flag=True, help="SCRIPT is the name of a module, such as pytest.")
@click.option(
    "--jobs",
    "-j",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Processes that share the blocks of a grid.",
)
@click.option(
    "--target", "chip", default="sm_90a", show_default=True, help="What torch.cuda describes where there is no GPU."
)
@click.option(
    "--allow",
    multiple=True,
    metavar="KIND",
    help="Say nothing of findings of this kind, unwritten-output for instance.",
)
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    is_module: bool, jobs: int, chip: str, allow: tuple[str, ...], script: str, arguments: tuple[str, ...]
) -> None:
    """Run a Python SCRIPT with every TileLang kernel in it interpreted, and say what is wrong with them.

    Nothing is compiled. Without a GPU, CUDA tensors live on the CPU. Autotuned kernels take their first configuration, and
    benchmarks give NaN. ARGUMENTS go to the script: options of this command come before SCRIPT.

    Exit status: 0 if nothing is found and the script ends well, 1 for findings or a script that fails, 2 if it cannot be run.
    """
    from tilegen.targets import UnknownTargetError, target

    if not is_module and not Path(script).is_file():
        raise click.UsageError(f"there is no file {script} (a module is run with -m)")
    try:
        described = target(chip)
    except UnknownTargetError as error:
        raise click.UsageError(str(error)) from None
    if described.kind != "cuda":
        raise click.UsageError(f"{chip} is no CUDA chip, and torch.cuda cannot describe it")
    if is_module and not _there_is_a_module(script):
        raise click.UsageError(f"there is no module {script}")
    from tilegen.interp.findings import InvalidKernelError, check_kinds

    try:
        check_kinds(allow)
    except InvalidKernelError as error:
        raise click.UsageError(str(error)) from None
    from tilegen.interp.script import run_script

    outcome = run_script(script, arguments, is_module=is_module, chip=described, jobs=jobs, allow=allow)
    if outcome.raised:
        click.echo(outcome.raised, err=True, nl=False)
    _print(outcome)
    if outcome.session.errors or outcome.status:
        raise SystemExit(2 if outcome.status == 2 and outcome.raised else 1)


def _there_is_a_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _print(outcome: Outcome) -> None:
    """A line for each kernel, with its findings under it."""
    kernels: dict[str, list[Call]] = defaultdict(list)
    for call in outcome.session.calls:
        kernels[call.kernel].append(call)
    if not kernels:
        click.echo("no TileLang kernel was called")
    for name, calls in kernels.items():
        seconds = sum(call.seconds for call in calls)
        findings = list(dict.fromkeys(str(finding) for call in calls for finding in call.findings))
        times = "1 call" if len(calls) == 1 else f"{len(calls)} calls"
        found = {0: "nothing found", 1: "1 finding"}.get(len(findings), f"{len(findings)} findings")
        click.echo(f"{name}: {times} in {seconds:.2f} s, {found}")
        for finding in findings:
            click.echo(finding)
