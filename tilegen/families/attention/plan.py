"""The tile plan of MLA decode: one query a sequence, all heads over one latent cache. B and S are dynamic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilegen.expr import symbol
from tilegen.families.attention.decode import Decode
from tilegen.families.attention.delayed import delayed, fits
from tilegen.families.attention.plain import plain
from tilegen.plan.model import ITEMSIZE, Case, TilePlan

if TYPE_CHECKING:
    from tilegen.spec.model import Spec
    from tilegen.targets import Target

SCHEDULES = {"plain": plain, "delayed": delayed}
SPLITS: Mapping[str, tuple[bool | str, ...]] = {"plain": (False, True), "delayed": (False, "even", "ragged")}
"""How a kernel may be compiled to split the keys: not at all; then the ways that a call chooses from."""


def derive(spec: Spec, target: Target, dtypes: Mapping[str, str], tiles: Mapping[str, Any]) -> dict[str, Any]:
    """The tile values that the spec leaves out, from the ones it gives and the chip."""
    given = dict(tiles)
    given.setdefault("BLOCK_H", _most_heads(spec, target, dtypes))
    given.setdefault("threads", 256 if given["BLOCK_H"] == 64 else 128)
    given.setdefault("BLOCK_N", 64 if given["BLOCK_H"] == 64 else 32)
    # Without TMA the loop is pipelined by cp.async, and then only one stage has a run-time trip count (rule TG-E4).
    given.setdefault("stages", 2 if target.tma else 1)
    given.setdefault("policy", "full_col")
    given.setdefault("num_split", "auto")
    if "schedule" not in given:
        given["schedule"] = "delayed" if fits(Decode(spec, target, dtypes, given)) else "plain"
    whole, *cuts = SPLITS[given["schedule"]]
    given.setdefault("split", whole if given["num_split"] == 1 else cuts[0])
    return {name: value for name, value in given.items() if name not in tiles}


def roles(tiles: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """What a kernel of these tiles is compiled for, the case's own role first: a call gives num_split and lengths."""
    own = tiles["split"]
    return ({"split": own}, *({"split": split} for split in SPLITS[tiles["schedule"]] if split != own))


def _most_heads(spec: Spec, target: Target, dtypes: Mapping[str, str]) -> int:
    """64 heads fill a warp group; 16 where not even one key block of 64 fits beside 64 queries."""
    columns = sum(spec.dim(name).range.hi or 512 for name in ("D_nope", "D_rope"))
    one_stage = 2 * 64 * columns * ITEMSIZE[dtypes["kv"]]
    return 64 if one_stage < target.shared_memory.per_block else 16


def plan(spec: Spec, target: Target, dtypes: Mapping[str, str], case: Case) -> TilePlan:
    """The plan of one instance. The case must hold every tile value (see :func:`derive`)."""
    decode = Decode(spec, target, dtypes, case.tiles)
    b, h, s = symbol("B"), symbol("H"), symbol("S")
    row = decode.row * decode.itemsize
    result = decode.latent * ITEMSIZE[dtypes["out"]] + ITEMSIZE[dtypes["lse"]]
    return TilePlan(
        spec=spec,
        target=target,
        schedule=case.tiles["schedule"],
        dtypes=dtypes,
        case=case,
        kernels=SCHEDULES[case.tiles["schedule"]](decode),
        flops=2 * b * h * s * (decode.row + decode.latent),
        bytes_moved=b * s * row + b * h * (row + result),
    )
