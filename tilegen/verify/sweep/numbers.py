"""Runs rendered kernels on a GPU and holds their numbers against the reference: what no compiler can show.

``python -m tilegen.verify.sweep.numbers JOBS --store FOLDER`` takes the whole generated folder of each sample, which a
checker may have refused, calls its public function on random inputs and compares within the tolerance of its reference.
A kernel that hangs costs its own process.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tilegen.verify.sweep.observe import Store, read_jobs
from tilegen.verify.sweep.workers import Workers

if TYPE_CHECKING:
    from tilegen.verify.sweep.draw import Sample

LIMIT_SECONDS = 60.0
RAGGED = 5
"""Rows past whole tiles: the last tile hangs over the end."""


def job(sample: Sample) -> dict[str, Any]:
    """A sample as :func:`run` takes it: files of its folder, its kernel, dims and dtype."""
    from tilegen.emit.rendering import render
    from tilegen.plan.instances import instances

    spec = sample.loaded()
    instance = next(iter(instances(spec, sample.arch)))
    dims = {**instance.dims, **_sizes(instance.tiles, instance.dims)}
    for dim in spec.dims:
        if dim.dynamic and not dim.contains(dims[dim.name]):
            dims[dim.name] -= dims[dim.name] % (dim.multiple_of or 1)
    return {
        "files": dict(render(spec).files),
        "kernel": spec.kernel,
        "dims": dims,
        "dtype": next(iter(instance.dtypes.values())),
    }


def _sizes(tiles: Mapping[str, Any], dims: Mapping[str, int]) -> dict[str, int]:
    """Values of the dynamic dims: a few blocks and a tail."""
    if "S" in dims:
        return {"B": 3, "S": 3 * int(tiles["BLOCK_N"]) + RAGGED}
    return {"M": 3 * int(tiles["BLOCK_M"]) + RAGGED}


def run(files: Mapping[str, str], kernel: str, dims: Mapping[str, int], dtype: str) -> dict[str, Any]:
    """``{"numbers": "right" | "wrong", "off": largest error over tolerance}``, or ``{"error": text}``."""
    import torch

    with tempfile.TemporaryDirectory(prefix="tilegen-") as folder:
        package = Path(folder) / f"ran_{Path(folder).name.replace('-', '_')}"
        package.mkdir()
        for name, text in files.items():
            (package / name).write_text(text, encoding="utf-8")
        sys.path.insert(0, folder)
        try:
            api, reference = (importlib.import_module(f"{package.name}.{name}") for name in ("api", "reference"))
            inputs = reference.random_inputs(**dims, dtype=getattr(torch, dtype), device="cuda")
            found = getattr(api, kernel)(*inputs)
            torch.cuda.synchronize()
            expected, tolerance = reference.reference(*inputs)[:2]
            off = ((found.double() - expected).abs() / tolerance).max().item()
        except Exception as error:
            return {"error": f"{type(error).__name__}: {str(error).strip()[:300]}"}
        finally:
            sys.path.remove(folder)
    return {"numbers": "right" if off <= 1 else "wrong", "off": off if off == off else "nan"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tilegen.verify.sweep.numbers", description=__doc__)
    parser.add_argument("jobs", nargs="+", type=Path, help="xz files of {sample: job}")
    parser.add_argument("--store", type=Path, required=True, help="folder of results; what it has is not done again")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seconds", type=float)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the workers are ended too
    until = None if given.seconds is None else time.time() + given.seconds
    jobs = {name: entry for path in given.jobs for name, entry in read_jobs(path).items()}
    store = Store(given.store)
    missing = sorted(jobs.keys() - store.known.keys())
    Random(0).shuffle(missing)
    tasks = [(jobs[name]["files"], jobs[name]["kernel"], jobs[name]["dims"], jobs[name]["dtype"]) for name in missing]
    for index, result in Workers(run, given.workers, LIMIT_SECONDS).results(tasks, until):
        store.add(missing[index], result)
    print(f"{sum(name in store.known for name in jobs)} of {len(jobs)} kernels run")


if __name__ == "__main__":
    main()
