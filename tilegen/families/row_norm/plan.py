"""The tile plan of a row norm: statistics over each row of x (M, C), then an elementwise formula. M is dynamic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilegen.expr import Size, ceil_div, floor_div, free_names, maximum, minimum, multiply, native, substitute, symbol
from tilegen.families.row_norm.two_pass import two_pass
from tilegen.lowering.legal import is_power_of_two
from tilegen.lowering.reduction import row_reduction
from tilegen.lowering.shared_memory import workspace_bytes
from tilegen.plan.model import (
    ITEMSIZE,
    Buffer,
    Case,
    Copy,
    Elementwise,
    KernelPlan,
    Launch,
    Op,
    Reduce,
    RowPass,
    Scope,
    TilePlan,
)

if TYPE_CHECKING:
    from tilegen.spec.model import Spec, Tensor
    from tilegen.targets import Target

VECTOR_BYTES = 16
STATISTICS = {
    "rms": (("sum", "rstd"),),
    "l2": (("sum", "rstd"),),
    "layer": (("sum", "mean"), ("sum", "rstd")),
    "softmax": (("max", "row_max"), ("sum", "row_sum")),
}
"""The reductions of each norm in program order, and the row statistic that each gives."""


def inputs(spec: Spec) -> tuple[Tensor, ...]:
    """x and every tensor that the formula reads, in the order of the spec."""
    used = free_names(spec.compute.y.expr)  # type: ignore[attr-defined]
    return tuple(tensor for tensor in spec.tensors if not tensor.output and (tensor.name == "x" or tensor.name in used))


def vector(dtypes: Mapping[str, str]) -> int:
    """Elements of x in one 16-byte access."""
    return VECTOR_BYTES // ITEMSIZE[dtypes["x"]]


def derive(spec: Spec, target: Target, dtypes: Mapping[str, str], tiles: Mapping[str, Any]) -> dict[str, Any]:
    """The tile values that the spec leaves out: 16 lanes a row, two rows a thread, as many blocks as registers allow; of a
    row in chunks 512 threads, two sweeps at a time.
    """
    given: dict[str, Any] = {"schedule": "one_pass", **tiles}
    if given["schedule"] == "two_pass":
        given.setdefault("threads", 512)
        given.setdefault("BLOCK_C", multiply(2 * vector(dtypes), given["threads"]))
        given.setdefault("blocks_per_sm", 2)
        return {name: value for name, value in given.items() if name not in tiles}
    given.setdefault("threads", 128)
    given.setdefault("BLOCK_C", 16 * vector(dtypes))
    lanes = maximum(floor_div(given["BLOCK_C"], vector(dtypes)), 1)
    given.setdefault("BLOCK_M", maximum(floor_div(given["threads"], lanes), 1))
    given.setdefault("preload", True)
    given.setdefault("blocks_per_sm", 1)
    return {name: value for name, value in given.items() if name not in tiles}


def has_row_layout(tiles: Mapping[str, Any], dtypes: Mapping[str, str]) -> bool:
    """Whether BLOCK_C gives each row a power of two of lanes, so that the source can lay the fragment out itself."""
    block_c = tiles["BLOCK_C"]
    if not isinstance(block_c, int):
        return False
    if tiles["schedule"] == "two_pass":
        return True
    return block_c % vector(dtypes) == 0 and is_power_of_two(block_c // vector(dtypes))


def plan(spec: Spec, target: Target, dtypes: Mapping[str, str], case: Case) -> TilePlan:
    """The plan of one instance. The case must hold every tile value (see :func:`derive`)."""
    m, c = symbol("M"), symbol("C")
    moved = sum((_elements(tensor) * ITEMSIZE[dtypes[tensor.name]] for tensor in inputs(spec)), start=0)
    return TilePlan(
        spec=spec,
        target=target,
        schedule=case.tiles["schedule"],
        dtypes=dtypes,
        case=case,
        kernels=(_kernel(spec, dtypes, case.tiles),),
        flops=8 * m * c,
        bytes_moved=moved + m * c * ITEMSIZE[dtypes["y"]],
    )


def _kernel(spec: Spec, dtypes: Mapping[str, str], tiles: Mapping[str, Any]) -> KernelPlan:
    if tiles["schedule"] == "two_pass":
        return two_pass(spec, dtypes, tiles, inputs(spec), STATISTICS[spec.compute.norm])  # type: ignore[attr-defined]
    return _one_pass(spec, dtypes, tiles)


def _elements(tensor: Tensor) -> Size:
    return multiply(*tensor.shape)


def _one_pass(spec: Spec, dtypes: Mapping[str, str], tiles: Mapping[str, Any]) -> KernelPlan:
    m, c = symbol("M"), symbol("C")
    block_m, block_c = tiles["BLOCK_M"], tiles["BLOCK_C"]
    own_layout = has_row_layout(tiles, dtypes)
    width = multiply(ceil_div(c, block_c), block_c)
    rows = RowPass(
        c,
        ITEMSIZE[dtypes["x"]],
        floor_div(block_c, vector(dtypes)),
        block_m,
        ("tile.BLOCK_M", "tile.BLOCK_C", "dims.C"),
    )
    return KernelPlan(
        name=spec.kernel,
        launch=Launch(grid=(ceil_div(m, block_m),), threads=tiles["threads"], decided_by=("dims.M",)),
        buffers=(
            *_global(spec, dtypes),
            *_fragments(spec, dtypes, tiles, width, own_layout),
            *(_columns(spec, dtypes, width) if tiles["preload"] else ()),
            *_workspaces(spec, tiles, dtypes, at_only_size(spec, width)),
        ),
        body=_program(spec, block_m, width),
        row_passes=(rows,) if own_layout else (),
    )


def _global(spec: Spec, dtypes: Mapping[str, str]) -> tuple[Buffer, ...]:
    tensors = (*inputs(spec), spec.tensor("y"))
    return tuple(
        Buffer(tensor.name, Scope.GLOBAL, tensor.shape, dtypes[tensor.name], decided_by=("dims.C",))
        for tensor in tensors
    )


def _fragments(
    spec: Spec, dtypes: Mapping[str, str], tiles: Mapping[str, Any], width: Size, own_layout: bool
) -> tuple[Buffer, ...]:
    block_m = tiles["BLOCK_M"]
    # A thread that holds whole rows holds what others hold too: there are no more owners than rows.
    alone = _lanes(spec, tiles, dtypes, at_only_size(spec, width)) == 1 and not own_layout
    owners = minimum(block_m, tiles["threads"]) if alone else None
    accum = spec.compute.accum  # type: ignore[attr-defined]
    keys = ("tile.BLOCK_M", "tile.BLOCK_C")
    tile = (block_m, width)
    statistics = [name for _, name in STATISTICS[spec.compute.norm]]  # type: ignore[attr-defined]
    return (
        Buffer("x_row", Scope.FRAGMENT, tile, dtypes["x"], 1, keys, "rows of x", annotated=own_layout, owners=owners),
        Buffer("term", Scope.FRAGMENT, tile, accum, 1, keys, "what a reduction adds up", annotated=own_layout),
        *(Buffer(name, Scope.FRAGMENT, (block_m,), accum, 1, keys[:1], "one a row") for name in statistics),
    )


def _lanes(spec: Spec, tiles: Mapping[str, Any], dtypes: Mapping[str, str], width: Size) -> int | None:
    """Threads that share a row: as the source lays it out, else as TileLang infers it; None where sizes are open."""
    rows, threads, block_c = tiles["BLOCK_M"], tiles["threads"], tiles["BLOCK_C"]
    if has_row_layout(tiles, dtypes):
        return int(block_c) // vector(dtypes)
    if not (isinstance(rows, int) and isinstance(threads, int) and isinstance(width, int)):
        return None
    pitch = at_only_size(spec, symbol("C"))
    return row_reduction(
        rows,
        width,
        threads,
        ITEMSIZE[dtypes["x"]],
        row_loop=True,
        pitch=pitch if isinstance(pitch, int) else None,
        term_itemsize=ITEMSIZE[spec.compute.accum],  # type: ignore[attr-defined]
        beside=bool(tiles["preload"] and column_tensors(spec)),
    ).lanes


def at_only_size(spec: Spec, size: Size) -> Size:
    """A size as a number where the spec lists one row length alone."""
    values = spec.dim("C").values if spec.dim("C").is_listed else ()
    return native(substitute(size, {"C": values[0]})) if len(values) == 1 and not isinstance(size, int) else size


def _workspaces(spec: Spec, tiles: Mapping[str, Any], dtypes: Mapping[str, str], width: Size) -> tuple[Buffer, ...]:
    """What a reduction across more than one warp adds up in: one value a thread, for each reduction in its turn."""
    threads = tiles["threads"]
    lanes = _lanes(spec, tiles, dtypes, width)
    accum = spec.compute.accum  # type: ignore[attr-defined]
    if not isinstance(threads, int) or lanes is None or not workspace_bytes(lanes, threads, ITEMSIZE[accum]):
        return ()
    return tuple(
        Buffer(
            f"{statistic}_workspace",
            Scope.SHARED,
            (threads,),
            accum,
            decided_by=("tile.threads",),
            life=(2 * turn, 2 * turn),
            by_compiler=True,
        )
        for turn, (_, statistic) in enumerate(STATISTICS[spec.compute.norm])  # type: ignore[attr-defined]
    )


def column_tensors(spec: Spec) -> tuple[Tensor, ...]:
    """The inputs that have one value for each column: gamma, beta and the like."""
    return tuple(tensor for tensor in inputs(spec) if tensor.shape == (symbol("C"),))


def _columns(spec: Spec, dtypes: Mapping[str, str], width: Size) -> tuple[Buffer, ...]:
    return tuple(
        Buffer(
            f"{tensor.name}_row", Scope.FRAGMENT, (width,), dtypes[tensor.name], 1, ("tile.BLOCK_C",), "one a column"
        )
        for tensor in column_tensors(spec)
    )


def _program(spec: Spec, block_m: Size, width: Size) -> tuple[Op, ...]:
    c = symbol("C")
    tile = (block_m, width)
    keys = ("tile.BLOCK_M", "tile.BLOCK_C")
    body: list[Op] = [Copy("x", "x_row", tile, row_pitch=c, may_overrun=True, decided_by=keys)]
    for kind, statistic in STATISTICS[spec.compute.norm]:  # type: ignore[attr-defined]
        body += [
            Elementwise("term", ("x_row",), tile),
            Reduce(kind, "term", statistic, 1, c, keys),
        ]
    names = tuple(tensor.name for tensor in inputs(spec))
    body.append(Elementwise("y", ("x_row", *names[1:]), tile, what=spec.compute.y.text))  # type: ignore[attr-defined]
    return tuple(body)
