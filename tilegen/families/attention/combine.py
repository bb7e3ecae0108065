"""The second kernel of a split: out = sum of weight * o_partial, where weight = 2 ** (lse_partial - lse)."""

from __future__ import annotations

from tilegen.expr import Size, ceil_div, symbol
from tilegen.families.attention.decode import DIVISOR, LATENT, MAX_SPLIT, RUNNING_MAX, Decode, workspace
from tilegen.plan.model import Buffer, Copy, Elementwise, Fill, KernelPlan, Launch, Loop, LoopKind, Reduce, Scope

THREADS = 128
UNROLL = 8
"""Partial rows that a thread has in flight."""

SPLIT = "tile.num_split"


def combine(decode: Decode, slots: Size, most_splits: Size) -> KernelPlan:
    """One block for each head of each sequence."""
    weights, row = (1, MAX_SPLIT), (1, decode.latent)

    def fragment(name: str, shape: tuple[Size, ...], holds: str, key: str = SPLIT) -> Buffer:
        return Buffer(name, Scope.FRAGMENT, shape, "float32", 1, (key,), holds)

    return KernelPlan(
        name=f"{decode.spec.kernel}_combine",
        launch=Launch((symbol("H"), symbol("B")), THREADS, decided_by=("dims.H", "dims.B")),
        buffers=(
            *decode.partials(slots),
            *decode.outputs(),
            Buffer("weight_shared", Scope.SHARED, weights, "float32", 1, (SPLIT,), "weights", (7, 9)),
            workspace("max_workspace", THREADS, (1, 1)),
            workspace("sum_workspace", THREADS, (4, 4)),
            fragment("weight", weights, "base-2 LSE, then weight, of each split"),
            fragment("weight_max", (1,), "largest LSE"),
            fragment("weight_sum", (1,), "sum of the weights"),
            fragment("row", row, "one head's output", LATENT),
        ),
        body=(
            Elementwise("weight", ("lse_partial",), weights),
            Reduce("max", "weight", "weight_max", 1, MAX_SPLIT, (SPLIT,)),
            Elementwise("weight_max", ("weight_max",), (1,), what=RUNNING_MAX),
            Elementwise("weight", ("weight", "weight_max"), weights),
            Reduce("sum", "weight", "weight_sum", 1, MAX_SPLIT, (SPLIT,)),
            Elementwise("lse", ("weight_max", "weight_sum"), (1,)),
            Elementwise("weight_sum", ("weight_sum",), (1,), what=DIVISOR),
            Elementwise("weight_shared", ("weight", "weight_sum"), weights),
            Fill("row"),
            Loop(
                LoopKind.SERIAL,
                "group",
                ceil_div(most_splits, UNROLL),
                (Elementwise("row", ("row", "weight_shared", "o_partial"), row),),
                runtime_trips=True,
            ),
            Copy("row", "out", row, row_pitch=decode.latent, decided_by=(LATENT,)),
        ),
    )
