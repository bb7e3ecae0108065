"""Specs of gemms, and their rendered kernels as modules."""

import importlib.util
import sys

from tilegen.emit.rendering import render
from tilegen.spec import load_bytes

TILES = {
    "plain": "BLOCK_M = 128\nBLOCK_N = 128\nBLOCK_K = 64\nthreads = 128\nstages = 3",
    "persistent": "BLOCK_M = 128\nBLOCK_N = 128\nBLOCK_K = 64\nstages = 3\ngroup_m = 2",
    "one_group": "BLOCK_M = 64\nBLOCK_N = 128\nBLOCK_K = 64\nstages = 3\nSTORE_N = 64",
    "stream_k": "BLOCK_M = 64\nBLOCK_N = 64\nBLOCK_K = 64\nstages = 3",
    "stream_k_wide": "BLOCK_M = 128\nBLOCK_N = 128\nBLOCK_K = 64\nstages = 3\nSTORE_N = 64",
    "skinny": "BLOCK_M = 16\nBLOCK_N = 64\nBLOCK_K = 64\nstages = 3",
}
"""Tile values of each schedule, and of its other shape."""

SCHEDULE = {"one_group": "persistent", "stream_k_wide": "stream_k"}


def gemm(tiles, a="M K", b="K N", formula="relu(acc)", extra="", scalars="", n=200, k=264, arch="sm_90a"):
    """A spec with tiles of TILES, or other lines of [tile] with a schedule."""
    schedule, lines = (SCHEDULE.get(tiles, tiles), TILES[tiles]) if isinstance(tiles, str) else tiles
    schedule = schedule if schedule.startswith("[") else f'"{schedule}"'
    return load_bytes(
        f"""\
kernel = "gemm_test"
family = "gemm"
schedule = {schedule}

[dims]
M = {{ dynamic = true, max = 65536 }}
N = {{ values = [{n}] }}
K = {{ values = [{k}] }}

[tensors]
a = {{ shape = "{a}", dtype = "float16" }}
b = {{ shape = "{b}", dtype = "same_as(a)" }}
c = {{ shape = "M N", dtype = "same_as(a)" }}
{extra}

[scalars]
{scalars}

[compute]
c = "{formula}"

[tile]
{lines}

[target.{arch}]
""".encode(),
        "gemm_test.toml",
    )


def by_rules(rules, arch="sm_90a"):
    """A spec whose schedule is a rule list, with tiles that suit every schedule but skinny."""
    return gemm(
        (rules, "BLOCK_M = 64\nBLOCK_N = 64\nBLOCK_K = 64\nstages = 3\nthreads = 128"), n=4096, k=4096, arch=arch
    )


RICH = {
    "formula": "relu(alpha * acc * scale + bias) + residual",
    "extra": """\
bias = { shape = "N", dtype = "same_as(a)" }
scale = { shape = "M", dtype = "float32" }
residual = { shape = "M N", dtype = "same_as(a)" }""",
    "scalars": 'alpha = { dtype = "float32" }',
}
"""An epilogue with a tensor of each shape and a scalar."""


def module(spec, folder):
    """The rendered kernel.py of a spec. TileLang reads the source of a prim_func, so it must lie in a file."""
    path = folder / "kernel.py"
    path.write_text(render(spec).files["kernel.py"], encoding="utf-8")
    name = f"gemm_test_{folder.name}"
    found = importlib.util.spec_from_file_location(name, path)
    loaded = importlib.util.module_from_spec(found)
    sys.modules[name] = loaded
    found.loader.exec_module(loaded)
    return loaded
