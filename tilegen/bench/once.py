"""Calls a kernel once for each given shape, and nothing else: what a profiler or a sanitizer watches.

``python -m tilegen.bench.once FOLDER POINTS``: the folder of a rendered package, and a JSON list of
``{"kernel", "dims", "dtype", "tiles"}``. ``tiles``, if not null, takes the place of what the tile rules would give.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

from tilegen.bench.rendered import Rendered, imported


def call_once(modules: Rendered, dims: dict[str, int], dtype: str, tiles: dict[str, Any] | None) -> float:
    """One call on the current GPU; returns its error in tolerances of the reference."""
    import torch

    rule = modules.kernel.tiles
    if tiles is not None:
        modules.kernel.tiles = lambda *_arguments, **_keywords: dict(tiles)
    try:
        inputs = modules.bench.inputs(**dims, dtype=getattr(torch, dtype))
        out = modules.bench.output(*inputs)
        out.fill_(torch.nan)
        modules.bench.call(*inputs, out)
        torch.cuda.synchronize()
        return float(modules.bench.error(inputs, out))
    finally:
        modules.kernel.tiles = rule


def main() -> None:
    folder, text = sys.argv[1:]
    for kernel, points in itertools.groupby(json.loads(text), key=lambda point: point["kernel"]):
        with imported(kernel, Path(folder)) as modules:
            for point in points:
                error = call_once(modules, point["dims"], point["dtype"], point["tiles"])
                print(f"tilegen: {json.dumps(point)} error {error:.3g}", flush=True)


if __name__ == "__main__":
    main()
