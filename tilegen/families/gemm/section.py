"""The spec section of the gemm family."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tilegen.spec.section import Compute, DimRole, FamilySection, Formula, FormulaNames, TensorRole, TileParam


class GemmCompute(Compute):
    """`[compute]` of a gemm."""

    accum: Literal["float32", "float16", "bfloat16", "int32"] = Field(
        default="float32", description="dtype of the accumulator; int32 for integer operands"
    )
    c: Annotated[
        Formula,
        FormulaNames({"acc": "the accumulator of the product, one element of (M, N)"}, extra=True, dims=True),
    ] = Field(description="what is stored, as a formula of acc, further tensors and scalars: relu(acc + bias)")


SECTION = FamilySection(
    name="gemm",
    doc="Matrix product with an epilogue: c = f(a @ b). Dynamic M, any mix of transposes.",
    compute=GemmCompute,
    dims={
        "M": DimRole("rows of the output"),
        "N": DimRole("columns of the output"),
        "K": DimRole("length of the reduction"),
    },
    tensors={
        "a": TensorRole('left operand; "K M" is a transposed one', ("M K", "K M")),
        "b": TensorRole('right operand; "N K" is a transposed one', ("K N", "N K")),
        "c": TensorRole("output", ("M N",), output=True),
    },
    extra_shapes=("N", "M", "M N"),
    tile={
        "BLOCK_M": TileParam("rows of the output tile"),
        "BLOCK_N": TileParam("columns of the output tile"),
        "BLOCK_K": TileParam("depth of one step of the reduction"),
        "threads": TileParam("threads that compute; a producer warp group comes on top", step=32),
        "stages": TileParam("tiles of a and b in flight", step=1),
        "policy": TileParam(
            "how warps divide the output tile",
            kind="enum",
            choices=("square", "full_row", "full_col"),
            default="square",
        ),
        "swizzle": TileParam(
            "order of the output tiles for reuse in L2: panels of `panel` tiles, walked by row or column",
            kind="swizzle",
            default="off",
        ),
        "split_k": TileParam("blocks that share one output tile along K", default="1", step=1, run_time=True),
        "group_m": TileParam("output tiles of M that a persistent or stream-K grid walks at once", default="8", step=1),
    },
    schedules={
        "plain": "one block for each output tile",
        "persistent": "one block for each SM, which walks over output tiles",
        "split_k": "`split_k` blocks for each output tile, which add up through a workspace",
        "stream_k": "one block for each SM, each with an equal share of all K steps",
    },
    example="""\
[dims]
M = { dynamic = true, max = 65_536, doc = "rows" }
N = { values = [4096, 8192] }
K = { values = [4096] }

[tensors]
a    = { shape = "M K", dtype = ["float16", "bfloat16"] }
b    = { shape = "K N", dtype = "same_as(a)" }       # "N K" for a transposed operand
bias = { shape = "N", dtype = "same_as(a)" }         # further tensors serve the epilogue: N, M or M N
c    = { shape = "M N", dtype = "same_as(a)" }

[compute]
accum = "float32"
c = "relu(acc + bias)"         # a formula of acc, further tensors and scalars

[tile]
BLOCK_M = 128
BLOCK_N = 256
BLOCK_K = 64
threads = 256                  # two warp groups, 64 x 256 of the tile each
stages = 3
policy = "square"              # square | full_row | full_col
swizzle = { panel = 10, order = "row" }

[target.sm_90a]
""",
    examples={
        "Few rows, shared among four blocks along K": """\
schedule = "split_k"

[tile]
BLOCK_M = 64
BLOCK_N = 128
BLOCK_K = 64
threads = 128
stages = 4
policy = "full_row"
split_k = [ { use = 4, when = "M <= 256" }, { use = 1 } ]
""",
        "A persistent grid that walks eight output tiles of M at once": """\
schedule = "persistent"

[tile]
BLOCK_M = 128
BLOCK_N = 256
BLOCK_K = 64
group_m = 8
swizzle = false
""",
        "Both operands stored transposed, a residual, and a factor given at run time": """\
[dims]
M = { dynamic = true, max = 65_536, multiple_of = 8 }    # the row of `a`: TMA wants multiples of 16 bytes
N = { values = [1024] }
K = { values = [1024] }

[tensors]
a        = { shape = "K M", dtype = ["float16", "bfloat16"] }
b        = { shape = "N K", dtype = "same_as(a)" }
residual = { shape = "M N", dtype = "same_as(a)" }
c        = { shape = "M N", dtype = "float32" }

[scalars]
alpha = { dtype = "float32" }

[compute]
accum = "float32"
c = "gelu(alpha * acc) + residual"
""",
    },
)
