"""Random inputs that do not change, and the run of a kernel that is expected to be right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.interp.on_device import Recorder
from tilegen.interp import run

DTYPES = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "int8": np.int8,
    "int32": np.int32,
}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def normal(rng: np.random.Generator) -> Callable[..., Any]:
    """``normal(300, 64)``: a standard normal array; ``dtype`` is a name of ``DTYPES``."""

    def make(*shape: int, dtype: str = "float32") -> Any:
        return rng.standard_normal(shape).astype(np.float32).astype(DTYPES[dtype])

    return make


@pytest.fixture
def clean() -> Callable[..., Any]:
    """Run a kernel, require that nothing is found, and give its outputs (the output itself if there is one)."""

    def go(function: Any, inputs: dict[str, Any], **options: Any) -> Any:
        result = run(function, inputs, **options)
        assert [str(finding) for finding in result.findings] == []
        outputs = list(result.outputs.values())
        return outputs[0] if len(outputs) == 1 else result.outputs

    return go


@pytest.fixture(autouse=True)
def _on_device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``--on-device``, every right run is repeated on the GPU and compared."""
    report = request.config.getoption("--on-device", default=None)
    if report and request.node.get_closest_marker("cpu_only") is None:
        Recorder(Path(report), request.node.nodeid).install(monkeypatch)
