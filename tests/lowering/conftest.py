import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def kernels():
    """The kernels of this folder; importing them imports tilelang."""
    pytest.importorskip("tilelang")
    spec = importlib.util.spec_from_file_location("lowering_kernels", Path(__file__).with_name("kernels.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
