"""``tilegen test``: the golden tests of generated kernels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click


@click.command("test", context_settings={"ignore_unknown_options": True})
@click.argument("kernels", nargs=-1)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("generated"), show_default=True, help="The generated tree."
)
@click.option("--list", "list_only", is_flag=True, help="Print the kernels that have golden tests, and run none.")
@click.option("--gpu-only", is_flag=True, help="Run only the tests that need a GPU.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(kernels: tuple[str, ...], out: Path, list_only: bool, gpu_only: bool, form: str) -> None:
    """Run the golden tests of KERNELS (default: all of the tree): source, lowering, and numbers where there is a GPU.

    Exits 0 if all pass or are skipped for want of a GPU, 1 if one fails, 2 if there is nothing to run.
    """
    known = _kernels(out)
    unknown = [name for name in kernels if name not in known]
    if unknown:
        raise click.UsageError(f"{out} holds no kernel {', '.join(unknown)}; there are {', '.join(known)}")
    chosen = list(kernels) or known
    if list_only:
        click.echo(json.dumps(chosen) if form == "json" else "\n".join(chosen))
        return
    results = {name: _run(out / name, gpu_only, quiet=form == "json") for name in chosen}
    if form == "json":
        click.echo(json.dumps({name: {"passed": code == 0, "exit_code": code} for name, code in results.items()}))
    sys.exit(1 if any(results.values()) else 0)


def _kernels(out: Path) -> list[str]:
    manifest = out / "manifest.json"
    try:
        found: dict[str, object] = json.loads(manifest.read_text(encoding="utf-8"))["kernels"]
    except FileNotFoundError:
        raise click.UsageError(f"{manifest} does not exist; `tilegen build` writes it") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise click.UsageError(f"{manifest} cannot be read: {error}; build the tree again") from None
    return list(found)


def _run(folder: Path, gpu_only: bool, quiet: bool) -> int:
    """Exit code of pytest on one kernel's folder; a folder where no test is selected counts as passed."""
    selected = ["-k", "gpu"] if gpu_only else []
    arguments = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *selected, str(folder)]
    code = subprocess.run(arguments, capture_output=quiet).returncode
    return 0 if code == 5 else code
