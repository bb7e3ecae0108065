"""The tile plan of a gemm with an epilogue: ``c = f(a @ b)``, M dynamic, N and K static."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilegen.check.domain import domain_of
from tilegen.expr import add, bounds, ceil_div, floor_div, maximum, multiply, symbol
from tilegen.families.gemm.persistent import persistent
from tilegen.families.gemm.plain import plain
from tilegen.families.gemm.stream_k import stream_k
from tilegen.plan.model import ITEMSIZE, Case, KernelPlan, TilePlan
from tilegen.plan.pipeline import most_stages

if TYPE_CHECKING:
    from tilegen.spec.model import Spec
    from tilegen.targets import Target

WIDEST_STORE = 128
"""Columns that one TMA store of an explicit schedule carries: wider staging would cost a stage."""


def derive(spec: Spec, target: Target, dtypes: Mapping[str, str], tiles: Mapping[str, Any]) -> dict[str, Any]:
    """The tile values that the spec leaves out, from the ones it gives and the chip."""
    itemsize = ITEMSIZE[dtypes["a"]]
    given = {"schedule": "plain", **tiles}
    schedule = given["schedule"]
    given.setdefault("BLOCK_M", 16 if schedule == "skinny" else 128)
    given.setdefault("BLOCK_N", 64 if schedule == "skinny" else 128)
    given.setdefault("BLOCK_K", 128 // itemsize)
    given.setdefault("group_m", 8)
    given.setdefault("evict_b", False)
    given.setdefault("policy", "square")
    given.setdefault("swizzle", None)
    if "STORE_N" not in given:
        given["STORE_N"] = floor_div(given["BLOCK_N"], ceil_div(given["BLOCK_N"], WIDEST_STORE))
    if "threads" not in given:
        given["threads"] = _threads(spec, given)
    if "stages" not in given:
        stage = multiply(add(given["BLOCK_M"], given["BLOCK_N"]), given["BLOCK_K"], itemsize)
        fixed = 0 if schedule == "plain" else multiply(given["BLOCK_M"], given["STORE_N"], ITEMSIZE[dtypes["c"]])
        given["stages"] = most_stages(target, _largest(spec, stage), _largest(spec, fixed))
    return {name: value for name, value in given.items() if name not in tiles}


def _threads(spec: Spec, tiles: Mapping[str, Any]) -> Any:
    """Warp groups of 64 rows where the schedule divides the tile by rows; else two for a tile over 128 x 128."""
    if tiles["schedule"] == "skinny":
        return 128
    if tiles["schedule"] == "stream_k":
        return maximum(128, multiply(2, tiles["BLOCK_M"]))
    return 256 if _largest(spec, multiply(tiles["BLOCK_M"], tiles["BLOCK_N"])) > 128 * 128 else 128


def _largest(spec: Spec, size: Any) -> int:
    """The most that a size comes to in the declared domain; a size without a bound counts as too much for any chip."""
    if isinstance(size, int):
        return size
    _, high = bounds(size, domain_of(spec).ranges)
    return 2**31 if high is None else high


def plan(spec: Spec, target: Target, dtypes: Mapping[str, str], case: Case) -> TilePlan:
    """The plan of one instance. The case must hold every tile value (see :func:`derive`)."""
    m, n, k = symbol("M"), symbol("N"), symbol("K")
    return TilePlan(
        spec=spec,
        target=target,
        schedule=case.tiles["schedule"],
        dtypes=dtypes,
        case=case,
        kernels=(_kernel(spec, target, dtypes, case),),
        flops=2 * m * n * k,
        bytes_moved=m * k * ITEMSIZE[dtypes["a"]] + k * n * ITEMSIZE[dtypes["b"]] + m * n * ITEMSIZE[dtypes["c"]],
    )


def _kernel(spec: Spec, target: Target, dtypes: Mapping[str, str], case: Case) -> KernelPlan:
    tiles = case.tiles
    match tiles["schedule"]:
        case "persistent":
            return persistent(spec, dtypes, tiles)
        case "stream_k" | "skinny" as schedule:
            return stream_k(spec, dtypes, tiles, swapped=schedule == "skinny")
        case _:
            return plain(spec, target, dtypes, case)
