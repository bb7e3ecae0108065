"""Shared memory of a plan, to the byte."""

from tilegen.plan.instances import instances
from tilegen.plan.resources import shared_bytes
from tilegen.spec import load_bytes

DECODE = """
kernel = "decode"
family = "attention"
variant = "mla_decode"
schedule = "plain"
[dims]
B = { dynamic = true, max = 4096 }
H = { values = [64] }
S = { dynamic = true, max = 8192 }
D_nope = { values = [512] }
D_rope = { values = [16] }
[tensors]
q_nope = { shape = "B H D_nope", dtype = "bfloat16" }
[compute]
scale = "(D_nope + D_rope) ** -0.5"
[tile]
BLOCK_H = 80
BLOCK_N = 64
threads = 256
policy = "square"
[target.sm_80]
"""


def test_tiles_are_packed_where_neither_tma_nor_wgmma_asks_for_an_alignment():
    plan = next(iter(instances(load_bytes(DECODE.encode(), "decode.toml"), "sm_80"))).plan()
    queries, keys, scores = 80 * (512 + 16) * 2, 64 * (512 + 16) * 2, 80 * 64 * 2
    # The query tile of 80 x 16 ends 512 bytes past a multiple of 1,024; TileLang 0.1.15 allocates 164,352.
    assert shared_bytes(plan.kernels[0], plan.target) == queries + keys + scores + 2 * 256 * 4 == 164_352
