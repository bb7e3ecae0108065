"""Thirty specs for seven chips each: what a repository of kernels asks of ``tilegen check``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tilegen.targets import names

HALF = '["float16", "bfloat16"]'

GEMM = """\
kernel = "{name}"
family = "gemm"
schedule = "plain"

[dims]
M = {{ dynamic = true, max = 1_048_576 }}
N = {{ values = [1024, 4096, 8192], also = "N % 64 == 0 and N <= 16384" }}
K = {{ values = [{k}, 4096] }}

[tensors]
a = {{ shape = "M K", dtype = {dtype} }}
b = {{ shape = "{b}", dtype = "same_as(a)" }}
bias = {{ shape = "N", dtype = "same_as(a)" }}
c = {{ shape = "M N", dtype = "same_as(a)" }}

[compute]
accum = "float32"
c = "{formula}"

[tile]
BLOCK_M = [ {{ use = 64, when = "M <= 64" }}, {{ use = 128 }} ]
BLOCK_N = [ {{ use = 64, when = "M <= 64" }}, {{ use = 128 }} ]
BLOCK_K = 32
threads = 128
stages = 3
"""

NORM = """\
kernel = "{name}"
family = "row_norm"

[dims]
M = {{ dynamic = true, max = 16_777_216 }}
C = {{ values = [{c}], also = "C % 32 == 0 and C <= 4096" }}

[tensors]
x     = {{ shape = "M C", dtype = {dtype} }}
gamma = {{ shape = "C",   dtype = "same_as(x)" }}
y     = {{ shape = "M C", dtype = "same_as(x)" }}

[compute]
norm = "{norm}"
eps = 1e-5
accum = "float32"
y = "{formula}"

[tile]
BLOCK_C = [ {{ use = 64, when = "C <= 64" }}, {{ use = 256, when = "C <= 1024" }}, {{ use = 512 }} ]
threads = 128
"""

DECODE = """\
kernel = "{name}"
family = "attention"
variant = "mla_decode"
schedule = "plain"

[dims]
B = {{ dynamic = true, max = {b} }}
H = {{ values = [{h}] }}
S = {{ dynamic = true, max = 131_072 }}
D_nope = {{ values = [{latent}] }}
D_rope = {{ values = [64] }}

[compute]
accum = "float32"
scale = "(D_nope + D_rope) ** -0.5"

[tile]
BLOCK_H = 16
BLOCK_N = 32
threads = 128
stages = 1
policy = "full_col"
num_split = [ {{ use = 1, when = "sm_count <= B * ceildiv(H, BLOCK_H)" }}, {{ use = "auto" }} ]

[allow]
TG-D1 = "few heads are bound by memory"
"""

EPILOGUES = ("relu(acc + bias)", "gelu_tanh(acc + bias)", "silu(acc) + bias")
NORMS = {
    "rms": "x * rstd * gamma",
    "layer": "(x - mean) * rstd * gamma",
    "l2": "silu(x * rstd * gamma)",
}


def write(folder: Path) -> list[Path]:
    """Writes the specs into ``folder``; their paths."""
    targets = "".join(f"[target.{arch}]\n" for arch in names())
    paths = []
    for name, text in _specs():
        path = folder / f"{name}.toml"
        path.write_text(f"{text}\n{targets}", encoding="utf-8")
        paths.append(path)
    return paths


def _specs() -> Iterator[tuple[str, str]]:
    for index in range(12):
        name = f"gemm_{index}"
        b, formula = ("K N", "N K")[index % 2], EPILOGUES[index % 3]
        yield name, GEMM.format(name=name, b=b, k=512 + 1024 * index, formula=formula, dtype=HALF)
    for index in range(12):
        name = f"norm_{index}"
        norm = list(NORMS)[index % 3]
        dtype = (HALF, '"float32"')[index % 2]
        yield name, NORM.format(name=name, norm=norm, c=160 + 32 * index, formula=NORMS[norm], dtype=dtype)
    for index in range(6):
        name = f"decode_{index}"
        latent = (256, 512)[index % 2]
        yield name, DECODE.format(name=name, b=1024 * (1 + index), h=16 * (1 + index), latent=latent)
