"""``tilegen run``: any TileLang kernel on the CPU, with its diagnostics."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilegen.cli._run_report import as_json, print_result

if TYPE_CHECKING:
    from tilegen.interp.execution import Result
    from tilegen.interp.reference import Comparison

#: The exit status of a command that the user stops, as shells count it (128 and the number of the signal).
INTERRUPTED = 130


class CannotRunError(click.ClickException):
    """The kernel, or what it is given, cannot be run: one line, and no usage."""

    exit_code = 2


def _pairs(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for value in values:
        name, separator, rest = value.partition("=")
        if not separator or not name.isidentifier():
            raise click.BadParameter(f"{value!r} is not NAME=VALUE")
        if name in pairs:
            raise click.BadParameter(f"{name} is given twice: {pairs[name]!r} and {rest!r}")
        pairs[name] = rest
    return pairs


def _coordinates(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not re.fullmatch(r"\d+(,\d+){0,2}", value):
        raise click.BadParameter(f"{value!r} is not X, X,Y or X,Y,Z")
    return tuple(int(part) for part in value.split(","))


def _elements(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> list[tuple[str, tuple[int, ...]]]:
    elements = []
    for value in values:
        match = re.fullmatch(r"\s*(\w+)\s*\[\s*(\d+(?:\s*,\s*\d+)*)\s*\]\s*", value)
        if match is None:
            raise click.BadParameter(f"{value!r} is not BUFFER[I,J]")
        elements.append((match.group(1), tuple(int(part) for part in match.group(2).split(","))))
    return elements


def _tolerance(ctx: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not value >= 0:
        raise click.BadParameter(f"{value} is no bound on an error")
    return value


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("kernel", metavar="FILE:FUNCTION")
@click.option(
    "--arg",
    "arguments",
    multiple=True,
    callback=_pairs,
    metavar="NAME=VALUE",
    help="Argument of a factory or jit function.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    callback=_pairs,
    metavar="NAME=VALUE",
    help="Shape (300x64), .npy or .npz file, or number (also of a dynamic dimension) of an argument.",
)
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the inputs that only have a shape."
)
@click.option(
    "--jobs", "-j", default=1, show_default=True, type=click.IntRange(1), help="Processes that share the blocks."
)
@click.option("--block", callback=_coordinates, metavar="X,Y,Z", help="Run this block only.")
@click.option(
    "--watch",
    "watches",
    multiple=True,
    callback=_elements,
    metavar="BUFFER[I,J]",
    help="Print each write to this element.",
)
@click.option("--ref", "reference", metavar="MODULE:FUNCTION", help="Compare with this function of the inputs.")
@click.option(
    "--tol",
    "tolerance",
    type=float,
    callback=_tolerance,
    help="Largest error over the largest magnitude [8 ulp of the output].",
)
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Save inputs and outputs as .npz.")
@click.option(
    "--allow",
    multiple=True,
    metavar="KIND",
    help="Say nothing of findings of this kind, unwritten-output for instance.",
)
@click.option("--no-diagnostics", is_flag=True, help="Only compute.")
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    kernel: str,
    arguments: dict[str, str],
    inputs: dict[str, str],
    seed: int,
    jobs: int,
    block: tuple[int, ...] | None,
    watches: list[tuple[str, tuple[int, ...]]],
    reference: str | None,
    tolerance: float | None,
    save: Path | None,
    allow: tuple[str, ...],
    no_diagnostics: bool,
    style: str,
) -> None:
    """Run a TileLang kernel on the CPU and say what is wrong with it.

    FUNCTION of FILE.py (or of an importable module) is a prim_func, a tilelang.jit function of either style, or a factory
    that returns one. Arguments that are only read are filled with random numbers where --input gives no file.

    Exit status: 0 nothing found, 1 findings or a reference that differs, 2 the kernel cannot be run, 130 stopped by the user.
    """
    from tilegen.interp.execution import run
    from tilegen.interp.findings import InvalidKernelError, UnsupportedError
    from tilegen.interp.loading import load_object, to_prim_func

    if save is not None and not save.absolute().parent.is_dir():
        raise click.UsageError(f"--save: there is no folder {save.parent}")
    if block is not None and reference:
        raise click.UsageError("--ref compares whole outputs, --block computes one block of them")
    lines: list[str] = []
    print_line: Callable[[str], None] = click.echo if style == "text" else lines.append
    try:
        given = {name: _input_value(text) for name, text in inputs.items()}
        function = to_prim_func(load_object(kernel), given, {name: _literal(text) for name, text in arguments.items()})
        _refuse_addresses(function, given)
        result = run(
            function,
            given,
            jobs=1 if watches else jobs,
            diagnostics=not no_diagnostics,
            seed=seed,
            block=block,
            watches=watches,
            print_line=print_line,
            allow=allow,
        )
        comparisons = _compare(reference, result, tolerance) if reference else []
    except (InvalidKernelError, UnsupportedError) as error:
        raise CannotRunError(str(error)) from error
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    if style == "json":
        click.echo(json.dumps(as_json(result, comparisons, lines), indent=2))
    else:
        print_result(result, comparisons)
    if save is not None:
        _save(save, result)
    if result.errors or not all(comparison.passes for comparison in comparisons):
        raise SystemExit(1)


def _refuse_addresses(function: Any, given: Mapping[str, Any]) -> None:
    """A number is a scalar or a dimension here, and never the address of a buffer."""
    from tilegen.interp.findings import InvalidKernelError

    for buffer in function.buffer_map.values():
        value = given.get(str(buffer.name))
        if isinstance(value, (int, float)):
            raise InvalidKernelError(
                f"{buffer.name} is a buffer of {buffer.dtype}, and {value} is a number; a shape is {value}x or {value}x64"
            )


def _literal(text: str) -> Any:
    """A Python literal where the text is one, else the text itself (a dtype, say)."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _input_value(text: str) -> Any:
    import numpy as np

    from tilegen.interp.findings import InvalidKernelError

    if re.fullmatch(r"\d+(x\d+)+|\d+x", text):
        return tuple(int(part) for part in text.split("x") if part)
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if re.fullmatch(r"-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|-?inf|nan", text):
        return float(text)
    path, _, key = text.partition(":")
    if not Path(path).is_file():
        raise InvalidKernelError(f"{text!r} is no shape (300x64, or 300x for one axis), no number and no file")
    try:
        loaded = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        reason = "" if "pickle" in str(error) else f": {error}"
        raise InvalidKernelError(f"{path} is no .npy or .npz file of numbers{reason}") from error
    if isinstance(loaded, np.ndarray):
        if key:
            raise InvalidKernelError(f"{path} holds one array; {key!r} would name one of an .npz file")
        return loaded
    if key not in loaded:
        raise InvalidKernelError(f"say which array of {path}: {', '.join(f'{path}:{name}' for name in loaded)}")
    return loaded[key]


def _compare(reference: str, result: Result, tolerance: float | None) -> list[Comparison]:
    from tilegen.interp.loading import load_object
    from tilegen.interp.reference import call_reference, compare

    expected = call_reference(load_object(reference), result.given, list(result.outputs))
    return [compare(name, result.outputs[name], value, tolerance) for name, value in expected.items()]


def _save(path: Path, result: Result) -> None:
    import numpy as np

    arrays = {**result.inputs, **result.outputs}
    # Formats that numpy does not know are saved as their bits.
    plain = {
        name: array if array.dtype.kind != "V" and array.dtype.isbuiltin == 1 else array.view(f"u{array.itemsize}")
        for name, array in arrays.items()
    }
    draft = path.with_name(path.name + ".part")
    try:
        with draft.open("wb") as file:
            np.savez(file, **plain)  # type: ignore[arg-type]
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise CannotRunError(f"--save: {path}: {error.strerror}") from error
