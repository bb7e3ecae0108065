"""Small whole specs for the tests, and a way to break them."""

from __future__ import annotations

import pytest

from tilegen.spec import Diagnostic, Spec, SpecError, load_bytes

GEMM = """\
kernel = "gemm_relu"
family = "gemm"

[dims]
M = { dynamic = true, max = 1024 }
N = { values = [512, 1024] }
K = { values = [512] }

[tensors]
a = { shape = "M K", dtype = ["float16", "bfloat16"] }
b = { shape = "K N", dtype = "same_as(a)" }
c = { shape = "M N", dtype = "same_as(a)" }

[compute]
accum = "float32"
c = "relu(acc)"

[tile]
BLOCK_M = 128
BLOCK_N = [ { use = 256, when = "N % 256 == 0" }, { use = 128 } ]
threads = "BLOCK_M * 2"
policy = "square"
swizzle = { panel = 10, order = "row" }

[target.sm_90a]
[target.sm_80]
schedule = "plain"
tile = { BLOCK_N = 128 }
"""

NORM = """\
kernel = "rms"
family = "row_norm"

[dims]
M = { dynamic = true, max = 1024 }
C = { values = [256, 512], also = "C % 32 == 0 and C <= 4096" }

[tensors]
x = { shape = "M C", dtype = "float16" }
gamma = { shape = "C", dtype = "same_as(x)" }
y = { shape = "M C", dtype = "same_as(x)" }

[compute]
norm = "rms"
eps = 1e-5
y = "x * rstd * gamma"
"""

MLA = """\
kernel = "mla"
family = "attention"
variant = "mla_decode"

[dims]
B = { dynamic = true, max = 64 }
H = { values = [16] }
S = { dynamic = true, max = 1024 }
D_nope = { values = [512] }
D_rope = { values = [64] }

[compute]
scale = "(D_nope + D_rope) ** -0.5"
"""


def spec(text: str) -> Spec:
    """The spec in `text`, as if it stood in x.toml."""
    return load_bytes(text.encode(), "x.toml")


def changed(text: str, *changes: tuple[str, str]) -> str:
    """`text` with each (old, new) replaced; every old text must be there once."""
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
        text = text.replace(old, new)
    return text


def refusal(text: str) -> tuple[Diagnostic, ...]:
    """The diagnostics of a text that must not load."""
    with pytest.raises(SpecError) as caught:
        spec(text)
    assert caught.value.diagnostics
    return caught.value.diagnostics
