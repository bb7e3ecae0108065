"""A rendered kernel as a module."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any


def import_kernel(folder: Path, source: str) -> Any:
    """Writes ``kernel.py`` into an empty folder and imports it: TileLang reads the source of a prim_func from its file."""
    path = folder / "kernel.py"
    path.write_text(source, encoding="utf-8")
    name = f"tilegen_kernel_{folder.name.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
