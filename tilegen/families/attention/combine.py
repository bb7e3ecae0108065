"""The last kernel of a split: out = sum of weight * o_partial, where weight = 2 ** (lse_partial - lse)."""

from __future__ import annotations

from tilegen.expr import Size, ceil_div, symbol
from tilegen.families.attention.decode import DIVISOR, LATENT, RUNNING_MAX, Decode
from tilegen.plan.model import Buffer, Elementwise, Fill, KernelPlan, Launch, Loop, LoopKind, Scope

THREADS = 128
UNROLL = 8
"""Partial rows that a thread has in flight."""


def combine(decode: Decode, slots: Size, most_pieces: Size) -> KernelPlan:
    """One block for each head of each sequence; a thread merges its columns of the pieces as they come."""
    row = (1, decode.latent)
    return KernelPlan(
        name=f"{decode.spec.kernel}_combine",
        launch=Launch((symbol("H"), symbol("B")), THREADS, decided_by=("dims.H", "dims.B")),
        buffers=(
            *decode.partials(slots),
            *decode.outputs(),
            Buffer("row", Scope.FRAGMENT, row, "float32", 1, (LATENT,), "one head's output"),
        ),
        body=(
            Fill("row"),
            Loop(
                LoopKind.SERIAL,
                "group",
                ceil_div(most_pieces, UNROLL),
                (Elementwise("row", ("row", "lse_partial", "o_partial"), row, what=RUNNING_MAX),),
                runtime_trips=True,
            ),
            Elementwise("out", ("row",), row, what=DIVISOR),
            Elementwise("lse", ("lse_partial",), (1,)),
        ),
    )
