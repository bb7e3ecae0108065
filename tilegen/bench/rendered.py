"""A kernel as its spec gives it now, rendered into a folder of its own and imported from there.

So a benchmark times what the spec says, whatever ``generated/`` holds. The rendered package has one module more than the
emitted one: ``bench``, which makes inputs, checks an output, and holds plain torch for the same.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilegen.emit.environment import render_template
from tilegen.emit.rendering import context_of, render

if TYPE_CHECKING:
    from tilegen.spec.model import Spec


@dataclass(frozen=True)
class Rendered:
    """The modules of a rendered kernel."""

    bench: Any
    kernel: Any
    api: Any
    runtime: Any


def write_package(spec: Spec, folder: Path) -> dict[str, Any]:
    """Renders ``folder/<kernel>/``, an importable package; returns what its templates saw."""
    package = folder / spec.kernel
    package.mkdir(parents=True)
    context = context_of(spec)
    files = {**render(spec).files, "bench.py": render_template(f"{spec.family}/bench.jinja", context)}
    for name, text in files.items():
        (package / name).write_text(text, encoding="utf-8")
    return context


@contextmanager
def rendered(spec: Spec) -> Iterator[Rendered]:
    """The kernel of a spec, imported. Its folder stays on ``sys.path`` inside the block, for worker processes."""
    with tempfile.TemporaryDirectory(prefix="tilegen-bench-") as folder:
        write_package(spec, Path(folder))
        with imported(spec.kernel, Path(folder)) as modules:
            yield modules


@contextmanager
def imported(kernel: str, folder: Path) -> Iterator[Rendered]:
    """The package ``kernel`` under ``folder``, imported for the length of the block; another of that name is put aside."""
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == kernel}
    sys.path.insert(0, str(folder))
    try:
        importlib.invalidate_caches()
        yield Rendered(
            *(importlib.import_module(f"{kernel}.{name}") for name in ("bench", "kernel", "api", "_runtime"))
        )
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] == kernel]:
            del sys.modules[name]
        sys.modules.update(before)
