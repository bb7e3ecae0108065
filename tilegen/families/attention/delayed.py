"""Schedule `delayed`: two warp groups on one range of key blocks; the second holds its half of P V back.

Group 0 does the scores, the softmax and the left half of P V; group 1 the other half, of the step before, so that it
fills the tensor cores during the softmax. Every load is an explicit TMA copy of one piece of columns.
"""

from __future__ import annotations

from tilegen.expr import Size, at_least, ceil_div, floor_div, maximum, minimum, multiply, symbol, to_text
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
)
from tilegen.plan.model import (
    Buffer,
    Copy,
    Elementwise,
    Fill,
    Gemm,
    Handshake,
    KernelPlan,
    Launch,
    Loop,
    LoopKind,
    Op,
    Reduce,
    Requirement,
    Role,
    Scope,
)

PIECE = 64
"""Columns of one load and one product: the 128 bytes of a swizzle."""

STRIP = 32
"""Columns of a strip through which output leaves while the queries' tile receives the next query."""

GROUP_THREADS = 128
SCHEDULE_THREADS = 256
"""Of the kernel that finds the parts of a batch."""

P_READY, QK_DONE, GROUPS = 8, 10, (12, 13)
"""Named barriers. The first two have an id for each stage."""

THRESHOLD = 8
"""The running maximum moves when it grows by more than this, in powers of two."""

MIN_CHUNK = 4
"""Fewest key blocks of a part. Batch 1 x 8192: 22 us with 4, 24 with 2, 27 with 8 (128 heads, H200)."""

CUT_COST = 15
"""What cutting sequences costs, in key blocks: partials out and in, and two more launches. 24 to 27 us at 64 x 4096,
where a block takes 1.9 us (128 heads, H200)."""

MAX_PARTS = 65_535


def delayed(decode: Decode) -> tuple[KernelPlan, ...]:
    """The pass over whole sequences; or over the parts of a batch, and the combine. A kernel in front divides lengths."""
    limit = maximum(1, floor_div(symbol("sm_count"), decode.head_blocks))
    b = symbol("B")
    split, wanted = decode.tiles["split"], decode.tiles["num_split"]
    if not split:
        return (_attend(decode, minimum(limit, ceil_div(b, ceil_div(b, limit)))),)
    parts = limit if split == "ragged" or wanted == "auto" else minimum(MAX_PARTS, multiply(b, wanted))
    passes = (_attend(decode, parts), combine(decode, multiply(2, parts), parts))
    return (_find_parts(decode), *passes) if split == "ragged" else passes


def fits(decode: Decode) -> bool:
    """Whether the schedule can be had with these tiles on this chip."""
    return all(requirement.claim is True for requirement in requirements(decode))


def requirements(decode: Decode) -> tuple[Requirement, ...]:
    """What the schedule is written for."""
    tiles, target = decode.tiles, decode.target
    wgmma = target.instruction("wgmma", decode.dtype) is not None and target.tma is not None
    pieces = isinstance(decode.latent, int) and decode.latent % (4 * PIECE) == 0
    return (
        Requirement(wgmma, "schedule", f"{target.name} has no WGMMA or no TMA"),
        Requirement(tiles["BLOCK_H"] == 64, HEADS, f"BLOCK_H is {tiles['BLOCK_H']}; a warp group has 64 rows"),
        Requirement(
            tiles["BLOCK_N"] == 64, KEYS, f"BLOCK_N is {tiles['BLOCK_N']}; P takes the place of a rotary tile of 64"
        ),
        Requirement(
            decode.rotary == 64, ROTARY, f"D_rope is {decode.rotary}; P, 64 wide, takes the place of a rotary tile"
        ),
        Requirement(tiles["threads"] == 256, "tile.threads", f"{tiles['threads']} threads; two warp groups are 256"),
        Requirement(tiles["stages"] == 2, "tile.stages", f"{tiles['stages']} stages; the parities are written for 2"),
        Requirement(pieces, LATENT, f"D_nope is {decode.latent}; its quarters are loaded in pieces of {PIECE} columns"),
    )


def _attend(decode: Decode, parts: Size) -> KernelPlan:
    split = decode.tiles["split"]
    launch = Launch(
        (decode.head_blocks, parts),
        decode.tiles["threads"],
        decided_by=(HEADS, "tile.num_split"),
        names=(to_text(decode.head_blocks), "parts"),
    )
    results = (*decode.outputs(), *(decode.partials(multiply(2, parts)) if split else ()))
    pieces = floor_div(decode.latent, PIECE)
    first, second = _group_0(decode), _group_1(decode)
    return KernelPlan(
        name=decode.spec.kernel,
        launch=launch,
        buffers=(*decode.inputs(), *results, *_tiles(decode), *_fragments(decode)),
        body=(*first, *second),
        # One for the queries; one a stage for each piece of a key block and for its rotary tile.
        barriers=1 + 2 * (int(pieces) + 1) if isinstance(pieces, int) else 1,
        requires=requirements(decode),
        named_barriers=(P_READY, P_READY + 1, QK_DONE, QK_DONE + 1, *GROUPS),
        roles=(
            Role("warp group 0", GROUP_THREADS, len(first)),
            Role("warp group 1", GROUP_THREADS, len(second)),
        ),
        handshakes=(
            Handshake("P_READY", 0, "k_pe_shared", 1, "factor_right"),
            Handshake("QK_DONE", 0, "scores", 1, "acc_middle", ahead=1),
        ),
    )


def _find_parts(decode: Decode) -> KernelPlan:
    """Numbers the key blocks of the batch, and finds the sequence in which each part begins."""
    return KernelPlan(
        name=f"{decode.spec.kernel}_parts",
        launch=Launch((1,), SCHEDULE_THREADS),
        buffers=(Buffer("blocks", Scope.SHARED, (SCHEDULE_THREADS,), "int32", 1, ("dims.B",), "of each sequence"),),
        body=(),
    )


def _tiles(decode: Decode) -> tuple[Buffer, ...]:
    """Shared memory. The kernel is one branch for each warp group, so nothing is reused."""
    block_h, block_n, stages = decode.block_h, decode.block_n, decode.tiles["stages"]

    def tile(name: str, shape: tuple[Size, ...], keys: tuple[str, ...], holds: str) -> Buffer:
        return Buffer(name, Scope.SHARED, shape, decode.dtype, 1, keys, holds, (0, 0), SWIZZLED)

    def row(name: str, holds: str) -> Buffer:
        return Buffer(name, Scope.SHARED, (stages, block_h), decode.accum, 1, (HEADS,), holds)

    return (
        tile("q_shared", (block_h, decode.latent), (HEADS, LATENT), "latent part of the queries"),
        tile("q_pe_shared", (block_h, decode.rotary), (HEADS, ROTARY), "rotary part of the queries"),
        tile("kv_shared", (stages, block_n, decode.latent), (KEYS, LATENT), "latent of the keys, and the values"),
        tile("k_pe_shared", (stages, block_n, decode.rotary), (KEYS, ROTARY), "rotary part of the keys, then P"),
        tile("strip_left", (block_h, STRIP), (HEADS,), "columns of output on their way, left half"),
        tile("strip_right", (block_h, STRIP), (HEADS,), "the same, right half"),
        row("factor_shared", "what the rise of the maximum takes off"),
        row("sum_shared", "row sums of a sequence that ends"),
    )


def _fragments(decode: Decode) -> tuple[Buffer, ...]:
    block_h, latent = decode.block_h, decode.latent
    half, quarter = floor_div(latent, 2), floor_div(latent, 4)

    def tile(group: int, name: str, columns: Size, key: str, holds: str, dtype: str = decode.accum) -> Buffer:
        keys = (HEADS, key)
        shape = (block_h, columns)
        return Buffer(name, Scope.FRAGMENT, shape, dtype, 1, keys, holds, owners=GROUP_THREADS, warp_group=group)

    def row(group: int, name: str) -> Buffer:
        holds = "one a row"
        return Buffer(
            name, Scope.FRAGMENT, (block_h,), decode.accum, 1, (HEADS,), holds, owners=GROUP_THREADS, warp_group=group
        )

    return (
        tile(0, "q_pe_local", decode.rotary, ROTARY, "rotary part of the queries", decode.dtype),
        tile(0, "scores", decode.block_n, KEYS, "scores, then probabilities"),
        tile(0, "p", decode.block_n, KEYS, "probabilities", decode.dtype),
        tile(0, "acc_left", half, LATENT, "left half of the output"),
        *(row(0, name) for name in ("row_max", "row_max_before", "block_max", "block_sum", "row_sum", "factor")),
        tile(1, "acc_middle", quarter, LATENT, "third quarter of the output"),
        tile(1, "acc_right", quarter, LATENT, "last quarter of the output"),
        *(row(1, name) for name in ("row_sum_right", "factor_right")),
    )


def _group_0(decode: Decode) -> tuple[Op, ...]:
    """Scores, softmax and the left half of the product with the values."""
    half = floor_div(decode.latent, 2)
    pv = _product(decode, "p", "acc_left", half)
    tile, rows = (decode.block_h, half), (decode.block_h,)
    rescale = Elementwise("acc_left", ("acc_left", "factor"), tile)
    step = (*_softmax(decode), rescale, pv, *_scores(decode))
    last = (
        Elementwise("scores", ("scores", "seq_lens"), (decode.block_h, decode.block_n), what=MASK),
        *_softmax(decode),
        Copy("row_sum", "sum_shared", rows),
        *_tail(decode, half),
        rescale,
        pv,
        _load(decode, "kv_shared", PIECE, LATENT),
        Elementwise("row_sum", ("row_sum",), rows, what=DIVISOR),
        *_store(decode, ("acc_left",), "row_sum", "strip_left"),
        Elementwise("lse", ("row_max", "row_sum"), rows),
        *_first_scores(decode),
    )
    start = (Fill("acc_left"), Fill("row_sum"), Fill("row_max", NEVER))
    return (*_queries(decode), *_first_scores(decode), _sequences((*start, _steps(decode, step), *last)))


def _group_1(decode: Decode) -> tuple[Op, ...]:
    """The right half of the product with the values, one step behind, as two quarters."""
    quarter = floor_div(decode.latent, 4)
    accumulators, rows = ("acc_middle", "acc_right"), (decode.block_h,)
    rescale = (Elementwise(acc, (acc, "factor_right"), (decode.block_h, quarter)) for acc in accumulators)
    step: tuple[Op, ...] = (
        Copy("factor_shared", "factor_right", rows),
        *rescale,
        *(_product(decode, "k_pe_shared", acc, quarter) for acc in accumulators),
        _load(decode, "kv_shared", PIECE, LATENT),
        _load(decode, "k_pe_shared", decode.rotary, ROTARY),
    )
    last = (
        Copy("sum_shared", "row_sum_right", rows),
        *_tail(decode, floor_div(decode.latent, 2)),
        *step,
        Elementwise("row_sum_right", ("row_sum_right",), rows, what=DIVISOR),
        *_store(decode, accumulators, "row_sum_right", "strip_right"),
    )
    return (_sequences((Fill("acc_middle"), Fill("acc_right"), _steps(decode, step), *last)),)


def _sequences(body: tuple[Op, ...]) -> Loop:
    return Loop(LoopKind.SERIAL, "batch", symbol("B"), body, runtime_trips=True)


def _steps(decode: Decode, body: tuple[Op, ...]) -> Loop:
    return Loop(LoopKind.SERIAL, "step", decode.key_blocks, body, decided_by=(KEYS,), runtime_trips=True)


def _queries(decode: Decode) -> tuple[Op, ...]:
    def load(tensor: str, tile: str, columns: Size, key: str) -> Copy:
        extents = (decode.block_h, columns)
        return Copy(tensor, tile, extents, columns, may_overrun=True, explicit_tma=True, decided_by=(HEADS, key))

    return (
        load("q_nope", "q_shared", decode.latent, LATENT),
        load("q_pe", "q_pe_shared", decode.rotary, ROTARY),
    )


def _load(decode: Decode, tile: str, columns: Size, key: str) -> Copy:
    extents = (decode.block_n, columns)
    return Copy("kv", tile, extents, decode.row, may_overrun=True, explicit_tma=True, decided_by=(KEYS, key))


def _scores(decode: Decode) -> tuple[Op, ...]:
    """The left pieces, the first of which clears; a refill of the left half; the right pieces; the rotary tile."""
    left, right = _halves_of_scores(decode)
    return (*left, _load(decode, "kv_shared", PIECE, LATENT), *right)


def _first_scores(decode: Decode) -> tuple[Op, ...]:
    """Of the first block of a sequence, whose queries have just come in: nothing is left to refill."""
    left, right = _halves_of_scores(decode)
    return (Copy("q_pe_shared", "q_pe_local", (decode.block_h, decode.rotary)), *left, *right)


def _halves_of_scores(decode: Decode) -> tuple[tuple[Op, ...], tuple[Op, ...]]:
    def piece(a: str, b: str, k: Size, key: str) -> Gemm:
        return _gemm(decode, a, b, "scores", decode.block_n, k, (KEYS, key), transpose_b=True)

    latent = piece("q_shared", "kv_shared", PIECE, LATENT)
    left = floor_div(decode.latent, 2 * PIECE)
    rotary = piece("q_pe_local", "k_pe_shared", decode.rotary, ROTARY)
    return (
        (latent, Loop(LoopKind.UNROLLED, "t", left - 1, (latent,))),
        (Loop(LoopKind.UNROLLED, "t", left, (latent,)), rotary),
    )


def _softmax(decode: Decode) -> tuple[Op, ...]:
    scores, rows = (decode.block_h, decode.block_n), (decode.block_h,)
    return (
        Reduce("max", "scores", "block_max", 1, decode.block_n, (KEYS,)),
        Copy("row_max", "row_max_before", rows),
        Elementwise("row_max", ("row_max_before", "block_max"), rows, what=RUNNING_MAX),
        Elementwise("factor", ("row_max_before", "row_max"), rows),
        Copy("factor", "factor_shared", rows),
        Elementwise("scores", ("scores", "row_max"), scores),
        Copy("scores", "p", scores),
        Copy("p", "k_pe_shared", scores),
        Reduce("sum", "scores", "block_sum", 1, decode.block_n, (KEYS,)),
        Elementwise("row_sum", ("row_sum", "factor", "block_sum"), rows),
    )


def _tail(decode: Decode, columns: Size) -> tuple[Op, ...]:
    """Where every sequence has S keys, TMA fills in zeros past S."""
    if decode.tiles["split"] != "ragged":
        return ()
    return (Elementwise("kv_shared", ("seq_lens",), (decode.block_n, columns), what=TAIL),)


def _store(decode: Decode, accumulators: tuple[str, ...], divisor: str, strip: str) -> tuple[Op, ...]:
    """The last sequence of a part goes through the queries' tile, the others through a strip."""
    half = (decode.block_h, floor_div(decode.latent, 2))
    narrow = (decode.block_h, STRIP)

    def leave(tile: str, extents: tuple[Size, ...]) -> Copy:
        # A block with fewer heads stores element by element.
        whole = at_least(symbol("H"), decode.block_h)
        keys = (HEADS, LATENT)
        return Copy(tile, "out", extents, row_pitch=decode.latent, may_overrun=True, only_where=whole, decided_by=keys)

    return (
        *(Elementwise("q_shared", (name, divisor), half) for name in accumulators),
        leave("q_shared", half),
        *(Elementwise(strip, (name, divisor), narrow) for name in accumulators),
        leave(strip, narrow),
    )


def _product(decode: Decode, a: str, acc: str, columns: Size) -> Gemm:
    return _gemm(decode, a, "kv_shared", acc, columns, decode.block_n, (LATENT, KEYS), transpose_b=False)


def _gemm(
    decode: Decode, a: str, b: str, acc: str, n: Size, k: Size, keys: tuple[str, str], *, transpose_b: bool
) -> Gemm:
    return Gemm(
        a,
        b,
        acc,
        decode.block_h,
        n,
        k,
        decode.dtype,
        decode.accum,
        transpose_b=transpose_b,
        threads=GROUP_THREADS,
        a_in_registers=a in ("p", "q_pe_local"),
        decided_by=(HEADS, *keys, "tile.threads"),
        dtype_at="tensors.q_nope.dtype",
    )
