"""The support files of a generated kernel as the package that they become beside it."""

import importlib
import sys

import pytest

from tilegen.emit.rendering import support as source

NAMES = ("compiled", "golden", "launching", "runtime")


@pytest.fixture(scope="session")
def support(tmp_path_factory):
    """``support("launching")`` is the module that stands as ``_launching.py`` beside a kernel."""
    folder = tmp_path_factory.mktemp("support")
    package = folder / "support_of_a_kernel"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name in NAMES:
        (package / f"_{name}.py").write_text(source(f"{name}.py"))
    sys.path.insert(0, str(folder))
    yield lambda name: importlib.import_module(f"support_of_a_kernel._{name}")
    sys.path.remove(str(folder))
