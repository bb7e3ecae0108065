"""The plan of the two-pass schedule: one row a block, in chunks, for rows that the registers of no block hold.

x is read once for each statistic and once more for y: twice for rms and l2, three times for layer and softmax. All but
the first reading find most of the row in L2. Each pass walks the other way than the one before: it begins with what was
read last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilegen.expr import ceil_div, symbol
from tilegen.lowering.shared_memory import workspace_bytes
from tilegen.plan.model import (
    ITEMSIZE,
    Buffer,
    Copy,
    Elementwise,
    Fill,
    KernelPlan,
    Launch,
    Loop,
    LoopKind,
    Op,
    Reduce,
    RowPass,
    Scope,
)

if TYPE_CHECKING:
    from tilegen.spec.model import Spec, Tensor

CHUNK, THREADS = "tile.BLOCK_C", "tile.threads"


def two_pass(
    spec: Spec,
    dtypes: Mapping[str, str],
    tiles: Mapping[str, Any],
    read: tuple[Tensor, ...],
    statistics: tuple[tuple[str, str], ...],
) -> KernelPlan:
    """The kernel of :file:`two_pass.jinja`. ``read`` are x and the other inputs, ``statistics`` the reductions in order."""
    c, threads, chunk = symbol("C"), tiles["threads"], tiles["BLOCK_C"]
    accum = spec.compute.accum  # type: ignore[attr-defined]
    tile = (1, chunk)
    return KernelPlan(
        name=spec.kernel,
        launch=Launch(grid=(symbol("M"),), threads=threads, decided_by=("dims.M",)),
        buffers=(
            *(
                Buffer(tensor.name, Scope.GLOBAL, tensor.shape, dtypes[tensor.name], decided_by=("dims.C",))
                for tensor in (*read, spec.tensor("y"))
            ),
            Buffer("x_chunk", Scope.FRAGMENT, tile, dtypes["x"], 1, (CHUNK,), "part of a row of x", annotated=True),
            Buffer("term", Scope.FRAGMENT, tile, accum, 1, (CHUNK,), "sums of each column of a chunk", annotated=True),
            *(Buffer(name, Scope.FRAGMENT, (1,), accum, 1, (CHUNK,), "of the row") for _, name in statistics),
            *_workspaces(threads, accum, statistics),
        ),
        body=_program(spec, tile, ceil_div(c, chunk), read, statistics),
        row_passes=(RowPass(c, ITEMSIZE[dtypes["x"]], threads, 1, (CHUNK, THREADS, "dims.C"), chunk),),
    )


def _workspaces(threads: Any, accum: str, statistics: tuple[tuple[str, str], ...]) -> tuple[Buffer, ...]:
    """What each reduction over more than one warp adds up in: one value a thread."""
    if not isinstance(threads, int) or not workspace_bytes(threads, threads, ITEMSIZE[accum]):
        return ()
    return tuple(
        Buffer(
            f"{name}_workspace", Scope.SHARED, (threads,), accum, 1, (THREADS,), "", (2 * i, 2 * i), by_compiler=True
        )
        for i, (_, name) in enumerate(statistics)
    )


def _program(
    spec: Spec, tile: tuple[Any, Any], chunks: Any, read: tuple[Tensor, ...], statistics: tuple[tuple[str, str], ...]
) -> tuple[Op, ...]:
    c = symbol("C")
    load = Copy("x", "x_chunk", tile, row_pitch=c, may_overrun=True, decided_by=(CHUNK,))
    body: list[Op] = []
    for kind, statistic in statistics:
        add_up = Elementwise("term", ("term", "x_chunk"), tile)
        body += [
            Fill("term"),
            Loop(LoopKind.SERIAL, "chunk", chunks, (load, add_up), decided_by=(CHUNK,)),
            Reduce(kind, "term", statistic, 1, c, (CHUNK,)),
        ]
    names = tuple(tensor.name for tensor in read[1:])
    store = Elementwise("y", ("x_chunk", *names), tile, what=spec.compute.y.text)  # type: ignore[attr-defined]
    body.append(Loop(LoopKind.SERIAL, "chunk", chunks, (load, store), decided_by=(CHUNK,)))
    return tuple(body)
