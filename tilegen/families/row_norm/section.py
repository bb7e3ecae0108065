"""The spec section of the row_norm family."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilegen.spec.section import Compute, DimRole, FamilySection, Formula, TensorRole, TileParam, formula, number, word

# The row statistics that each norm computes, by the names its formula may use.
STATISTICS: dict[str, tuple[str, ...]] = {
    "rms": ("rstd",),
    "layer": ("mean", "rstd"),
    "l2": ("rstd",),
    "softmax": ("row_max", "row_sum"),
}


@dataclass(frozen=True, kw_only=True)
class RowNormCompute(Compute):
    """`[compute]` of a row norm."""

    norm: str = word(
        "the row statistics: rms and l2 give rstd, layer mean and rstd, softmax row_max and row_sum", *STATISTICS
    )
    eps: float = number(
        "added to the mean square (rms, layer) or sum of squares (l2)", least=0.0, under=1.0, default=0.0
    )
    accum: str = word("dtype of the row statistics", "float32", "float64", "float16", "bfloat16", default="float32")
    y: Formula = formula(
        "what is stored, as a formula of x, the row statistics, gamma, beta and further tensors",
        {
            "x": "one element of the row",
            "rstd": "1 / sqrt(mean(x ** 2) + eps) for rms, of the centred row for layer, of the sum for l2",
            "mean": "mean of the row (layer)",
            "row_max": "greatest element of the row (softmax)",
            "row_sum": "sum of exp(x - row_max) over the row (softmax)",
        },
        extra=True,
        dims=True,
    )

    def problems(self) -> Iterator[tuple[str, str, str]]:
        used = {s.name for s in self.y.expr.free_symbols}
        allowed = STATISTICS[self.norm]
        for name in sorted({s for group in STATISTICS.values() for s in group} & used - set(allowed)):
            yield "y", f'norm = "{self.norm}" has no `{name}`', f"it computes {' and '.join(allowed)}"
        if self.norm == "softmax" and self.eps:
            yield "eps", "softmax has no eps", "leave it out"


SECTION = FamilySection(
    name="row_norm",
    doc="Normalisation of each row of a matrix, with an elementwise formula: RMS, layer and L2 norm, softmax.",
    compute=RowNormCompute,
    dims={
        "M": DimRole("rows; leading axes of the input are flattened to it"),
        "C": DimRole("length of a row"),
    },
    tensors={
        "x": TensorRole("input", ("M C",)),
        "gamma": TensorRole("weight of each column", ("C",), optional=True),
        "beta": TensorRole("bias of each column", ("C",), optional=True),
        "y": TensorRole("output", ("M C",), output=True),
    },
    extra_shapes=("C", "M", "M C"),
    tile={
        "BLOCK_M": TileParam("rows of a block", step=1, schedules=("one_pass",)),
        "BLOCK_C": TileParam(
            "columns that the lanes of a row take in one sweep, 16 bytes each; two_pass: columns of a chunk, any number "
            "of such sweeps of all threads"
        ),
        "threads": TileParam("threads of a block", step=32),
        "preload": TileParam(
            "read the column tensors together with x, not where they are used: their latency is hidden, for more registers",
            kind="bool",
            default="true",
            schedules=("one_pass",),
        ),
        "blocks_per_sm": TileParam("blocks that registers must leave room for on one SM", default="1", step=1),
    },
    schedules={
        "one_pass": "the row stays in registers: x is read once",
        "two_pass": "one row a block, in chunks, for rows that no block holds: x is read once for each statistic and once "
        "for y, which is twice for rms and l2 and three times for layer and softmax; all but the first mostly from L2",
    },
    example="""\
[dims]
M = { dynamic = true, max = 16_777_216, doc = "rows; leading axes are flattened to it" }
C = { values = [256, 512, 1024], also = "C % 32 == 0 and C <= 2048" }

[tensors]
x     = { shape = "M C", dtype = ["float16", "bfloat16"] }
gamma = { shape = "C",   dtype = "same_as(x)" }
y     = { shape = "M C", dtype = "same_as(x)" }

[compute]
norm = "rms"                   # rms | layer | l2 | softmax
eps = 1e-5
accum = "float32"              # a float16 sum of squares overflows
y = "x * rstd * gamma"         # a formula of x, the row statistics and further tensors

[tile]                         # the first rule that holds is used
BLOCK_C = [ { use = 64, when = "C <= 64" }, { use = 128 } ]
threads = 128
BLOCK_M = "8 * threads // BLOCK_C"

[target.sm_90a]
""",
    examples={
        "Layer norm": """\
schedule = "one_pass"

[tensors]
x     = { shape = "M C", dtype = "bfloat16" }
gamma = { shape = "C", dtype = "float32" }
beta  = { shape = "C", dtype = "float32" }
y     = { shape = "M C", dtype = "same_as(x)" }

[compute]
norm = "layer"
eps = 1e-5
accum = "float32"
y = "(x - mean) * rstd * gamma + beta"

[tile]
preload = false                # gamma and beta are read where they are used: fewer registers
""",
        "Softmax": """\
[compute]
norm = "softmax"
y = "exp(x - row_max) / row_sum"
""",
        "Rows that no block holds, in chunks of two sweeps of 512 threads": """\
schedule = "two_pass"

[dims]
M = { dynamic = true, max = 65_536 }
C = { values = [65_536], also = "C % 8 == 0 and C <= 1_048_576" }

[compute]
norm = "rms"
eps = 1e-5
y = "x * rstd * gamma"

[tile]
BLOCK_C = 8192
threads = 512
blocks_per_sm = 2
""",
        "Wide rows over two warp groups, two blocks on an SM": """\
schedule = "one_pass"

[tile]
BLOCK_M = 2
BLOCK_C = 1024
threads = 256
blocks_per_sm = 2
""",
    },
)
