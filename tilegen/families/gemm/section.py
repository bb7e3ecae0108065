"""The spec section of the gemm family."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.spec.section import Compute, DimRole, FamilySection, Formula, TensorRole, TileParam, formula, word


@dataclass(frozen=True, kw_only=True)
class GemmCompute(Compute):
    """`[compute]` of a gemm."""

    accum: str = word(
        "dtype of the accumulator; int32 for integer operands",
        *("float32", "float16", "bfloat16", "int32"),
        default="float32",
    )
    c: Formula = formula(
        "what is stored, as a formula of acc, further tensors and scalars: relu(acc + bias)",
        {"acc": "the accumulator of the product, one element of (M, N)"},
        extra=True,
        dims=True,
    )


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
        "threads": TileParam(
            "threads that compute; a producer warp group comes on top (persistent: 2 for each row of the tile)",
            schedules=("plain", "stream_k", "skinny"),
            step=32,
        ),
        "stages": TileParam("tiles of a and b in flight", step=1),
        "policy": TileParam(
            "how warps divide the output tile",
            kind="enum",
            choices=("square", "full_row", "full_col"),
            default="square",
            schedules=("plain",),
        ),
        "swizzle": TileParam(
            "order of the output tiles for reuse in L2: panels of `panel` tiles, walked by row or column",
            kind="swizzle",
            default="off",
            schedules=("plain",),
        ),
        "STORE_N": TileParam(
            "columns of the output tile that are staged in shared memory and stored at once",
            default="the widest part of BLOCK_N up to 128",
            schedules=("persistent", "stream_k"),
        ),
        "group_m": TileParam(
            "rows of output tiles that the grid walks column by column, for reuse in L2",
            default="8",
            schedules=("persistent",),
            step=1,
        ),
        "evict_b": TileParam(
            "b is read once: its lines leave L2 first, so that the rest of L2 stays",
            kind="bool",
            default="false",
            schedules=("stream_k",),
        ),
    },
    schedules={
        "plain": "one block for each output tile; TileLang pipelines the loop. Any target",
        "persistent": "one block for each SM, which walks over output tiles; a warp group for every 64 rows of a tile "
        "computes and stores its own, and a producer loads on into the next tile. sm_90a",
        "stream_k": "the K steps of all output tiles in one line, cut into equal runs, one for each block; the last "
        "block of a tile adds up its runs through a workspace, in a fixed order. For few output tiles. sm_90a",
        "skinny": "stream_k with the operands swapped: the 64 rows of a WGMMA are columns of b, and rows of a are its n. "
        "For M up to 16 or so, at the speed of memory. sm_90a",
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
threads = 256                  # two warp groups, side by side: 128 x 128 of the tile each
stages = 3
policy = "square"              # square | full_row | full_col
swizzle = { panel = 10, order = "row" }

[target.sm_90a]
""",
    examples={
        "Few rows: all SMs share the K steps of few output tiles": """\
schedule = "stream_k"

[tile]
BLOCK_M = 64
BLOCK_N = 64
BLOCK_K = 128
threads = 128
stages = 6
evict_b = true
""",
        "A persistent grid that walks eight rows of output tiles at once, with two stores for each tile": """\
schedule = "persistent"

[tile]
BLOCK_M = 128
BLOCK_N = 256
BLOCK_K = 64
STORE_N = 128
stages = 4
group_m = 8
""",
        "The schedule by the number of rows, tile values of each of them": """\
schedule = [ { use = "skinny", when = "M <= 16" }, { use = "persistent" } ]

[tile]
BLOCK_M = [ { use = 16, when = "M <= 16" }, { use = 128 } ]
BLOCK_N = [ { use = 64, when = "M <= 16" }, { use = 256 } ]
BLOCK_K = [ { use = 128, when = "M <= 16" }, { use = 64 } ]
stages = [ { use = 8, when = "M <= 16" }, { use = 4 } ]
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
