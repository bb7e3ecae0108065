"""Calls a kernel once for each given shape, and nothing else: what a profiler or a sanitizer watches.

``python -m tilegen.bench.once [--compile] FOLDER POINTS``: the folder of a rendered package, and a JSON list of
``{"kernel", "dims", "dtype", "tiles"}``. ``tiles``, if not null, takes the place of what the tile rules would give. With
``--compile`` the kernels are compiled and not called.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilegen.bench.rendered import Rendered, imported


@contextmanager
def tiled(modules: Rendered, tiles: dict[str, Any] | None) -> Iterator[None]:
    """Within the block the tile rules of the kernel give ``tiles``, unless they are None."""
    rule = modules.kernel.tiles
    if tiles is not None:
        modules.kernel.tiles = lambda *_arguments, **_keywords: dict(tiles)
    try:
        yield
    finally:
        modules.kernel.tiles = rule


def call_once(modules: Rendered, dims: dict[str, int], dtype: str, tiles: dict[str, Any] | None) -> float:
    """One call on the current GPU; returns its error in tolerances of the reference."""
    import torch

    with tiled(modules, tiles):
        inputs = modules.bench.inputs(**dims, dtype=getattr(torch, dtype))
        out = modules.bench.output(*inputs)
        out.fill_(torch.nan)
        modules.bench.call(*inputs, out)
        torch.cuda.synchronize()
        return float(modules.bench.error(inputs, out))


def compile_all(modules: Rendered, points: list[dict[str, Any]]) -> None:
    """Compiles the kernels of all points in parallel processes, so that a tool has none of it to watch."""
    arch, sm_count = modules.runtime.arch_of(0), modules.runtime.sm_count_of(0)
    keys = []
    for point in points:
        with tiled(modules, point["tiles"]):
            keys.append(modules.bench.compile_key(arch, point["dtype"], sm_count, **point["dims"]))
    modules.runtime.warm_up(modules.api._kernels, keys, min(len(keys), os.cpu_count() or 1))


def main() -> None:
    compile_only = sys.argv[1] == "--compile"
    folder, text = sys.argv[-2:]
    for kernel, group in itertools.groupby(json.loads(text), key=lambda point: point["kernel"]):
        points = list(group)
        with imported(kernel, Path(folder)) as modules:
            if compile_only:
                compile_all(modules, points)
                continue
            for point in points:
                error = call_once(modules, point["dims"], point["dtype"], point["tiles"])
                print(f"tilegen: {json.dumps(point)} error {error:.3g}", flush=True)


if __name__ == "__main__":
    main()
