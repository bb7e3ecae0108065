"""Schedule `plain`: one pipelined pass over the keys, one key block after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilegen.check.domain import domain_of
from tilegen.expr import Size, add, ceil_div, multiply, symbol, to_text
from tilegen.families.attention.combine import combine
from tilegen.families.attention.decode import (
    DIVISOR,
    HEADS,
    KEYS,
    LATENT,
    MASK,
    NEVER,
    ROTARY,
    RUNNING_MAX,
    SWIZZLED,
    TAIL,
    Decode,
    workspace,
)
from tilegen.lowering.instruction import GemmRefusal, gemm_path
from tilegen.plan.model import (
    Buffer,
    Copy,
    Elementwise,
    Fill,
    Gemm,
    KernelPlan,
    Launch,
    Loop,
    LoopKind,
    Op,
    Reduce,
    Scope,
)
from tilegen.plan.pipeline import NONE, Specialisation, specialisation
from tilegen.targets.facts import answer

if TYPE_CHECKING:
    from tilegen.targets import Target


def plain(decode: Decode) -> tuple[KernelPlan, ...]:
    """The pass alone, or the pass over each split and the combine."""
    threads = decode.tiles["threads"]
    specialised = _specialisation(decode)
    producers = specialised.producer_threads
    b = symbol("B")
    if not decode.tiles["split"]:
        launch = Launch((decode.head_blocks, b), threads, producers, (HEADS, "dims.B"))
        return (_attend(decode, launch, 1, specialised.barriers),)
    split = decode.splits()
    launch = Launch(
        (decode.head_blocks, split, b),
        threads,
        producers,
        decided_by=(HEADS, "tile.num_split", "dims.B"),
        names=(to_text(decode.head_blocks), "num_split", "B"),
    )
    return (_attend(decode, launch, split, specialised.barriers), combine(decode, multiply(b, split), split))


def is_pipelined(decode: Decode) -> bool:
    """One stage is one buffer: nothing to load ahead into, and so a plain loop."""
    return bool(decode.tiles["stages"] != 1)


def _specialisation(decode: Decode) -> Specialisation:
    """What TileLang adds for the loop over the keys."""
    if not is_pipelined(decode):
        return NONE
    loads = [op for op in _step(decode) if isinstance(op, Copy) and op.row_pitch is not None]
    domain, threads = domain_of(decode.spec), decode.tiles["threads"]
    return specialisation(decode.spec, decode.target, domain, threads, loads, decode.itemsize)


def _attend(decode: Decode, launch: Launch, split: Size, barriers: Size) -> KernelPlan:
    """BLOCK_H heads of one sequence over the keys of one split."""
    stages = decode.tiles["stages"]
    loop = Loop(
        LoopKind.PIPELINED if is_pipelined(decode) else LoopKind.SERIAL,
        "k",
        ceil_div(decode.key_blocks, split),
        _step(decode),
        stages=stages if is_pipelined(decode) else 0,
        decided_by=(KEYS,),
        runtime_trips=True,
    )
    results = decode.partials(multiply(symbol("B"), split)) if decode.tiles["split"] else decode.outputs()
    return KernelPlan(
        name=decode.spec.kernel,
        launch=launch,
        buffers=(*decode.inputs(), *results, *_tiles(decode), *_fragments(decode)),
        body=(*_queries(decode), loop, *_results(decode)),
        # Two tiles a stage, each with a barrier for full and one for empty, and one barrier for each query tile.
        barriers=multiply(add(multiply(4, stages), 2), barriers),
    )


def _tiles(decode: Decode) -> tuple[Buffer, ...]:
    """Shared memory. Everything meets in the loop, so nothing is reused."""
    block_h, block_n, stages = decode.block_h, decode.block_n, decode.tiles["stages"]

    def tile(name: str, shape: tuple[Size, ...], count: Size, keys: tuple[str, ...], holds: str, first: int) -> Buffer:
        return Buffer(name, Scope.SHARED, shape, decode.dtype, count, keys, holds, (first, 2), SWIZZLED)

    reductions = ("max", "sum") if _rows_cross_warps(decode) else ()
    return (
        tile("q_shared", (block_h, decode.latent), 1, (HEADS, LATENT), "latent part of the queries", 0),
        tile("q_pe_shared", (block_h, decode.rotary), 1, (HEADS, ROTARY), "rotary part of the queries", 1),
        tile("kv_shared", (block_n, decode.latent), stages, (KEYS, LATENT), "latent of the keys, and the values", 2),
        tile("k_pe_shared", (block_n, decode.rotary), stages, (KEYS, ROTARY), "rotary part of the keys", 2),
        tile("p_shared", (block_h, block_n), 1, (HEADS, KEYS), "probabilities, for every warp", 2),
        *(workspace(f"{kind}_workspace", decode.tiles["threads"], (2, 2)) for kind in reductions),
    )


def _rows_cross_warps(decode: Decode) -> bool:
    """Whether several warps share a row of the scores, so that its maximum goes through shared memory."""
    sizes = (decode.block_h, decode.block_n, decode.rotary, decode.tiles["threads"])
    if not all(isinstance(size, int) for size in sizes):
        return True
    return answer(decode.target, _crosses, *sizes, decode.tiles["policy"], decode.dtype, decode.accum)


def _crosses(chip: Target, *product: Any) -> bool:
    path = gemm_path(chip, *product, transpose_b=True)
    return isinstance(path, GemmRefusal) or path.partition.n > 1


def _fragments(decode: Decode) -> tuple[Buffer, ...]:
    block_h, block_n = decode.block_h, decode.block_n
    rows = {
        "row_max": "running maximum",
        "row_max_before": "the maximum before this block",
        "row_sum": "running sum",
        "block_max": "maximum of this block",
        "block_sum": "sum of this block",
        "rescale": "what the rise of the maximum takes off",
        "row_lse": "base-2 LSE",
    }

    def fragment(name: str, shape: tuple[Size, ...], keys: tuple[str, ...], holds: str) -> Buffer:
        return Buffer(name, Scope.FRAGMENT, shape, decode.accum, 1, keys, holds)

    return (
        fragment("scores", (block_h, block_n), (HEADS, KEYS), "scores, then probabilities"),
        fragment("acc", (block_h, decode.latent), (HEADS, LATENT), "the output before it is divided by the row sum"),
        *(fragment(name, (block_h,), (HEADS,), holds) for name, holds in rows.items()),
    )


def _queries(decode: Decode) -> tuple[Op, ...]:
    def load(tensor: str, tile: str, columns: Size, key: str) -> Copy:
        extents = (decode.block_h, columns)
        return Copy(tensor, tile, extents, row_pitch=columns, may_overrun=True, decided_by=(HEADS, key))

    return (
        load("q_nope", "q_shared", decode.latent, LATENT),
        load("q_pe", "q_pe_shared", decode.rotary, ROTARY),
        Fill("acc"),
        Fill("row_sum"),
        Fill("row_max", NEVER),
    )


def _step(decode: Decode) -> tuple[Op, ...]:
    """One block of keys: scores, online softmax, and the product with the values."""
    block_h, block_n = decode.block_h, decode.block_n
    scores, rows = (block_h, block_n), (block_h,)

    def load(tile: str, columns: Size, key: str) -> Copy:
        extents = (block_n, columns)
        return Copy("kv", tile, extents, row_pitch=decode.row, may_overrun=True, decided_by=(KEYS, key))

    def product(a: str, b: str, acc: str, n: Size, k: Size, keys: tuple[str, str]) -> Gemm:
        return Gemm(
            a,
            b,
            acc,
            block_h,
            n,
            k,
            decode.dtype,
            decode.accum,
            transpose_b=acc == "scores",
            policy=decode.tiles["policy"],
            rows=symbol("H"),
            decided_by=(HEADS, *keys, "tile.threads"),
            dtype_at="tensors.q_nope.dtype",
        )

    return (
        load("kv_shared", decode.latent, LATENT),
        load("k_pe_shared", decode.rotary, ROTARY),
        product("q_shared", "kv_shared", "scores", block_n, decode.latent, (KEYS, LATENT)),
        product("q_pe_shared", "k_pe_shared", "scores", block_n, decode.rotary, (KEYS, ROTARY)),
        Elementwise("scores", ("scores", "seq_lens"), scores, what=MASK),
        Reduce("max", "scores", "block_max", 1, block_n, (KEYS,)),
        Copy("row_max", "row_max_before", rows),
        Elementwise("row_max", ("row_max_before", "block_max"), rows, what=RUNNING_MAX),
        Elementwise("rescale", ("row_max_before", "row_max"), rows),
        Elementwise("scores", ("scores", "row_max"), scores),
        Reduce("sum", "scores", "block_sum", 1, block_n, (KEYS,)),
        Copy("scores", "p_shared", scores),
        Elementwise("row_sum", ("row_sum", "rescale", "block_sum"), rows),
        Elementwise("acc", ("acc", "rescale"), (block_h, decode.latent)),
        Elementwise("kv_shared", ("seq_lens",), (block_n, decode.latent), what=TAIL),
        product("p_shared", "kv_shared", "acc", decode.latent, block_n, (LATENT, KEYS)),
    )


def _results(decode: Decode) -> tuple[Op, ...]:
    rows, tile = (decode.block_h,), (decode.block_h, decode.latent)
    out, lse = ("o_partial", "lse_partial") if decode.tiles["split"] else ("out", "lse")
    return (
        Elementwise("row_lse", ("row_max", "row_sum"), rows),
        Elementwise("row_sum", ("row_sum",), rows, what=DIVISOR),
        Elementwise("acc", ("acc", "row_sum"), tile),
        Copy("acc", out, tile, row_pitch=decode.latent, may_overrun=True, decided_by=(HEADS, LATENT)),
        Elementwise(lse, ("row_lse",), rows),
    )
