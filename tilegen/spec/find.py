"""Which spec files a command is to read: files, folders and kernel names, as they are given on the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path

FOLDER = Path("specs")
"""Where specs stand when a command names none, and where kernel names are looked up."""


LOCK_SUFFIX = ".tune.toml"
"""What the lock of a spec is called, in place of its ``.toml``."""


class NoSpecError(Exception):
    """An argument that names no spec; the message says what was looked for, and what is near."""


def find_specs(arguments: Iterable[str]) -> list[Path]:
    """The spec files that the arguments name, each once, in order; those of ``specs/`` where there are no arguments.

    A folder gives every ``.toml`` file under it, the lock of a spec (``*.tune.toml``) that spec. Anything that is no path
    is the name of a kernel in ``specs/``. Raises :class:`NoSpecError`.
    """
    found: dict[Path, None] = {}
    for argument in list(arguments) or [str(FOLDER)]:
        found.update(dict.fromkeys(_named(argument)))
    return list(found)


def find_kernel(argument: str) -> Path:
    """The one spec file that a path or a kernel name stands for. Raises :class:`NoSpecError`."""
    found = list(_named(argument))
    if len(found) > 1:
        raise NoSpecError(f"`{argument}` holds {len(found)} specs; name one: {', '.join(map(str, found[:8]))}")
    return found[0]


def _named(argument: str) -> Iterator[Path]:
    path = Path(argument)
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except (OSError, ValueError):
        raise NoSpecError(f"`{_printable(argument)}` is no path and no kernel name") from None
    if is_folder:
        specs = specs_in(path)
        if not specs:
            raise NoSpecError(f"the folder {argument} has no spec (no .toml file)")
        yield from specs
    elif exists and path.name.endswith(LOCK_SUFFIX):
        spec = path.with_name(path.name.removesuffix(LOCK_SUFFIX) + ".toml")
        if not spec.is_file():
            raise NoSpecError(f"{argument} is the lock of a spec, and there is no {spec} beside it")
        yield spec
    elif exists:
        yield path
    else:
        yield _kernel(argument)


def is_spec(name: str) -> bool:
    """Whether a file of this name holds a spec: TOML, and no lock."""
    return name.endswith(".toml") and not name.endswith(LOCK_SUFFIX)


def specs_in(folder: Path) -> list[Path]:
    """Every ``.toml`` file under a folder, sorted; hidden folders and measurements (``*.tune.toml``) are left out."""
    return sorted(
        path
        for path in folder.rglob("*.toml")
        if path.is_file()
        and is_spec(path.name)
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def lock_path(spec: Path) -> Path:
    """Where the lock of a spec stands: ``specs/gemm_relu.tune.toml`` for ``specs/gemm_relu.toml``."""
    return spec.with_name(spec.name.removesuffix(".toml") + LOCK_SUFFIX)


def lock_bytes(spec: Path) -> bytes | None:
    """What the lock of a spec holds; None where there is none. Raises OSError where it cannot be read."""
    try:
        return lock_path(spec).read_bytes()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def _kernel(name: str) -> Path:
    if not FOLDER.is_dir():
        raise NoSpecError(
            f"there is no file or folder `{_printable(name)}`, and no folder {FOLDER}/ to look for a kernel in"
        )
    names: dict[str, Path] = {}
    for path in specs_in(FOLDER):
        names.setdefault(_kernel_of(path) or path.stem, path)
    if name in names:
        return names[name]
    near = get_close_matches(name[:64], names, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"kernels of {FOLDER}/: {', '.join(names) or 'none'}"
    raise NoSpecError(f"there is no file, folder or kernel `{_printable(name)}`; {hint}")


def _kernel_of(path: Path) -> str | None:
    """The kernel that a spec file names; None where the file cannot be read that far."""
    try:
        name = tomllib.loads(path.read_bytes().decode("utf-8")).get("kernel")
    except (OSError, ValueError, RecursionError):
        return None
    return name if isinstance(name, str) else None


def _printable(text: str) -> str:
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= 80 else text[:77] + "..."
