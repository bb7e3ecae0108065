"""The spec section of the attention family."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.spec.section import Compute, DimRole, FamilySection, Formula, TensorRole, TileParam, formula, word

_DTYPES = ("float16", "bfloat16")


@dataclass(frozen=True, kw_only=True)
class MlaDecodeCompute(Compute):
    """`[compute]` of MLA decode."""

    accum: str = word("dtype of scores, softmax and output accumulator", "float32", default="float32")
    scale: Formula = formula(
        "factor of the scores before softmax, a formula of dims: (D_nope + D_rope) ** -0.5", dims=True
    )


MLA_DECODE = FamilySection(
    name="mla_decode",
    doc="Decode of multi-head latent attention: one query a sequence, all heads share one latent key and value.",
    compute=MlaDecodeCompute,
    dims={
        "B": DimRole("sequences"),
        "H": DimRole("query heads"),
        "S": DimRole("keys of the longest sequence"),
        "D_nope": DimRole("width of the latent, which is key and value"),
        "D_rope": DimRole("width of the rotary part of the key"),
    },
    tensors={
        "q_nope": TensorRole("latent part of the queries", ("B H D_nope",), dtypes=_DTYPES),
        "q_pe": TensorRole("rotary part of the queries", ("B H D_rope",), same_as="q_nope"),
        "kv": TensorRole(
            "cache: the latent, which is key and value, then the rotary part of the key",
            ("B S D_nope+D_rope",),
            same_as="q_nope",
        ),
        "seq_lens": TensorRole("keys of each sequence", ("B",), ("int32",)),
        "out": TensorRole("output", ("B H D_nope",), same_as="q_nope", output=True),
        "lse": TensorRole("natural logarithm of the sum of exp of the scores", ("B H",), ("float32",), output=True),
    },
    tile={
        "BLOCK_H": TileParam("heads of a block"),
        "BLOCK_N": TileParam("keys of one step"),
        "threads": TileParam("threads that compute", step=32),
        "stages": TileParam("key blocks in flight", step=1),
        "policy": TileParam(
            "how warps divide the output tile",
            kind="enum",
            choices=("square", "full_row", "full_col"),
            default="full_col",
        ),
        "num_split": TileParam(
            'blocks that share the keys of one sequence; "auto" chooses by the grid and the SMs',
            choices=("auto",),
            run_time=True,
            default='"auto"',
        ),
    },
    schedules={
        "plain": "one key block after the other; TileLang arranges producer and consumers",
        "delayed": "two warp groups; the second holds its half of P V back, to fill the tensor cores during softmax",
    },
    example="""\
[dims]
B = { dynamic = true, max = 4096, doc = "sequences" }
H = { values = [64, 128], doc = "query heads" }
S = { dynamic = true, max = 1_048_576, doc = "keys of a sequence" }
D_nope = { values = [512] }
D_rope = { values = [64] }

[tensors]                      # these are the defaults
q_nope   = { shape = "B H D_nope", dtype = ["float16", "bfloat16"] }
q_pe     = { shape = "B H D_rope", dtype = "same_as(q_nope)" }
kv       = { shape = "B S D_nope+D_rope", dtype = "same_as(q_nope)" }
seq_lens = { shape = "B", dtype = "int32" }
out      = { shape = "B H D_nope", dtype = "same_as(q_nope)" }
lse      = { shape = "B H", dtype = "float32" }

[compute]
accum = "float32"
scale = "(D_nope + D_rope) ** -0.5"

[tile]
BLOCK_H = 64
BLOCK_N = 64
threads = 256
stages = 2
policy = "full_col"            # two warp groups, 64 x 256 of the output each
num_split = [ { use = 1, when = "S <= 16 * BLOCK_N" }, { use = "auto" } ]

[target.sm_90a]
""",
    examples={
        "Two warp groups, with the whole softmax in one of them": """\
schedule = "delayed"

[tile]
BLOCK_H = 64
BLOCK_N = 64
threads = 256
stages = 2
policy = "full_col"
num_split = 1
""",
        "bfloat16 only": """\
[tensors]
q_nope = { shape = "B H D_nope", dtype = "bfloat16" }
""",
    },
)

SECTION = FamilySection(
    name="attention",
    doc="Attention: softmax(q k^T) v and its relatives.",
    variants={"mla_decode": MLA_DECODE},
)
