"""``tilegen doctor``: whether this machine can check, build and run, and how to mend what is missing."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import click

from tilegen import cache
from tilegen.cli._terminal import use_color

State = Literal["ok", "missing", "broken"]
Need = Literal["build", "run", "plot", "speed"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. ``needed_for`` is the command that fails without it; ``mend`` says what to do."""

    name: str
    state: State
    detail: str
    needed_for: Need
    mend: str = ""

    @property
    def stops_build(self) -> bool:
        return self.state != "ok" and self.needed_for == "build"


@click.command
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(form: str) -> None:
    """Say what this machine lacks for building and running kernels, and how to mend it.

    Exits 1 if a build could not work. A build needs neither a GPU nor nvcc; without nvcc, registers are not verified.
    """
    findings = list(examine())
    if form == "json":
        works = not any(finding.stops_build for finding in findings)
        click.echo(json.dumps({"build_works": works, "findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        for finding in findings:
            click.echo(_line(finding))
    if any(finding.stops_build for finding in findings):
        sys.exit(1)


def _line(finding: Finding) -> str:
    color = {"ok": "32", "missing": "33", "broken": "31"}["broken" if finding.stops_build else finding.state]
    state = f"{finding.state:<7}"
    if use_color(sys.stdout):
        state = f"\x1b[1;{color}m{state}\x1b[0m"
    line = f"{state} {finding.name:<17} {finding.detail}"
    if finding.state == "ok":
        return line
    needed = {
        "build": "`tilegen build` needs it",
        "run": "running a kernel needs it",
        "plot": "`tilegen show --layout` needs it",
        "speed": "without it every check and build starts anew",
    }
    return f"{line}\n{'':<25} {needed[finding.needed_for]}" + (f": {finding.mend}" if finding.mend else "")


def examine() -> Iterator[Finding]:
    """Everything that is looked at. Imports neither torch nor tilegen's own heavy parts: versions are read from
    metadata."""
    yield _python()
    for name, version_range in sorted(required().items()):
        yield _package(name, version_range)
    yield _import("tilelang", "build", "its libraries must load; reinstall it, or see the message")
    yield _import("matplotlib", "plot", "pip install 'tilegen[plot]'")
    yield _nvcc()
    yield _gpu()
    yield _cache()


def _python() -> Finding:
    found = platform.python_version()
    fits = sys.version_info >= (3, 11)
    return Finding(
        "python", "ok" if fits else "broken", f"{found} at {sys.executable}", "build", "use Python 3.11 or newer"
    )


def required() -> dict[str, str]:
    """The packages that tilegen declares to need, with their version ranges; its own metadata says."""
    try:
        entries = metadata.requires("tilegen") or []
    except metadata.PackageNotFoundError:
        entries = _declared_in_tree()
    found = {}
    for entry in entries:
        if "extra ==" in entry:
            continue
        match = re.match(r"([A-Za-z0-9._-]+)\s*(.*)", entry.split(";")[0].strip())
        if match:
            # Metadata may sort the parts of a range; people read the lower bound first.
            parts = match[2].strip(" ()").split(",")
            found[match[1].lower()] = ",".join(sorted(parts, key=lambda part: part.startswith("<")))
    return found


def _declared_in_tree() -> list[str]:
    """The dependencies in ``pyproject.toml``, for a tree that is used without being installed."""
    import tomllib

    path = Path(__file__).parents[2] / "pyproject.toml"
    try:
        entries: list[str] = tomllib.loads(path.read_text(encoding="utf-8"))["project"]["dependencies"]
    except (OSError, ValueError, KeyError):
        return []
    return entries


def _package(name: str, version_range: str) -> Finding:
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(
            name,
            "missing",
            f"not installed; tilegen needs {version_range or 'any version'}",
            "build",
            _pip(name, version_range),
        )
    if not fits(found, version_range):
        return Finding(name, "broken", f"{found}; tilegen needs {version_range}", "build", _pip(name, version_range))
    return Finding(name, "ok", f"{found} ({version_range})" if version_range else found, "build")


def _pip(name: str, version_range: str) -> str:
    return f"pip install '{name}{version_range}'"


def fits(version: str, version_range: str) -> bool:
    """Whether a version lies in a range such as ``>=0.1.15,<0.2``. Suffixes such as ``+cpu`` do not count."""
    found = _numbers(version)
    for part in filter(None, (part.strip() for part in version_range.split(","))):
        match = re.match(r"(>=|<=|==|!=|~=|<|>)\s*(.+)", part)
        if match is None:
            continue
        sign, bound = match[1], _numbers(match[2])
        length = max(len(found), len(bound))
        a, b = (numbers + (0,) * (length - len(numbers)) for numbers in (found, bound))
        holds = {">=": a >= b, "<=": a <= b, "==": a == b, "!=": a != b, "<": a < b, ">": a > b, "~=": a >= b}
        if not holds[sign]:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", re.split(r"[+a-z]", version)[0]))


def _import(name: str, needed_for: Need, mend: str) -> Finding:
    """Whether a package can be imported, tried in a process of its own."""
    if not _installed(name):
        return Finding(f"import {name}", "missing", "not installed", needed_for, mend)
    try:
        done = subprocess.run(
            [sys.executable, "-c", f"import {name}"], capture_output=True, text=True, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(f"import {name}", "broken", f"could not be tried: {error}", needed_for, mend)
    if done.returncode == 0:
        return Finding(f"import {name}", "ok", "works", needed_for)
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return Finding(f"import {name}", "broken", last[:200], needed_for, mend)


def _installed(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None


def _nvcc() -> Finding:
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    path = shutil.which("nvcc") or (shutil.which("nvcc", path=str(Path(home) / "bin")) if home else None)
    mend = "install the CUDA toolkit and put its bin folder on PATH; a build works without, but cannot verify registers"
    if path is None:
        return Finding("nvcc", "missing", "not on PATH, nor under CUDA_HOME", "run", mend)
    try:
        text = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("nvcc", "broken", f"{path}: {error}", "run", mend)
    release = re.search(r"release (\d+\.\d+)", text)
    if release is None:
        return Finding("nvcc", "broken", f"{path} does not say its version", "run", mend)
    return Finding("nvcc", "ok", f"{release[1]} at {path}", "run")


def _gpu() -> Finding:
    """The GPUs that the driver lists. Asked of ``nvidia-smi``, so that torch need not be loaded."""
    mend = "kernels run on an NVIDIA GPU with a driver; building and checking need none"
    path = shutil.which("nvidia-smi")
    if path is None:
        return Finding("gpu", "missing", "no nvidia-smi on PATH", "run", mend)
    query = [path, "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("gpu", "broken", f"nvidia-smi: {error}", "run", mend)
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if done.returncode or not lines:
        return Finding(
            "gpu", "missing", (done.stderr.strip() or done.stdout.strip() or "none listed")[:200], "run", mend
        )
    return Finding("gpu", "ok", "; ".join(lines), "run")


def _cache() -> Finding:
    folder = cache.cache_folder()
    mend = "set TILEGEN_CACHE_DIR to a folder that can be written"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Finding("cache", "missing", f"{folder}: {error.strerror}", "speed", mend)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return Finding("cache", "ok", f"{folder}, {size / 1e6:.1f} MB", "speed")
