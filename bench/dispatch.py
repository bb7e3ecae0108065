"""How long the dispatcher of each generated kernel takes to decide, in microseconds: ``python bench/dispatch.py``.

Needs no GPU: the tensors only claim to lie on one. The least of many short runs, on one core.
"""

from __future__ import annotations

import importlib
import sys
import timeit
from pathlib import Path

import torch

GENERATED = Path(__file__).parents[1] / "generated"
ARCH = "sm_90a"
RUNS, CALLS = 2000, 100


def microseconds(kernel: str) -> float:
    """One decision of ``<kernel>_dispatch`` for the first golden shape of the kernel."""
    dispatch, runtime, reference, golden = (
        importlib.import_module(f"{kernel}.{part}") for part in ("dispatch", "_runtime", "reference", "_golden")
    )
    runtime.arch_of = lambda _index: ARCH
    dims = golden.load_facts(GENERATED / kernel)["outputs"][0]["dims"]
    given = [value for value in reference.random_inputs(**dims, dtype=torch.float16) if isinstance(value, torch.Tensor)]
    arguments = (*given, None)
    return min(timeit.repeat(lambda: dispatch._path(*arguments), number=CALLS, repeat=RUNS)) / CALLS * 1e6


def main() -> None:
    sys.path.insert(0, str(GENERATED))
    torch.Tensor.is_cuda = True
    for folder in sorted(path.parent for path in GENERATED.glob("*/dispatch.py")):
        with torch.no_grad():
            print(f"{folder.name:16s} {microseconds(folder.name):.2f} us")


if __name__ == "__main__":
    main()
