"""What the attention templates print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilegen.emit.format import values_text
from tilegen.emit.tiles import tile_tables
from tilegen.expr import formula_to_torch
from tilegen.families.attention import combine, delayed
from tilegen.families.attention.decode import MAX_SPLIT, NEVER
from tilegen.families.attention.plan import SPLITS
from tilegen.plan.instances import listed_values

if TYPE_CHECKING:
    from tilegen.plan.model import Case
    from tilegen.spec.model import Spec

POLICIES = {"square": "Square", "full_row": "FullRow", "full_col": "FullCol"}
PARAMETERS = ("BLOCK_H", "BLOCK_N", "threads", "stages")
INPUTS = ("q_nope", "q_pe", "kv", "seq_lens")


def context(spec: Spec, by_arch: Mapping[str, tuple[Case, ...]]) -> dict[str, Any]:
    """Names and formulas of the kernel, and the tile parameters that each factory takes."""
    compute: Any = spec.compute
    cases = [case for cases in by_arch.values() for case in cases]
    policies = sorted({case.tiles["policy"] for case in cases})
    parameters = (*PARAMETERS, *(("policy",) if len(policies) > 1 else ()))
    lines = {name: spec.span(f"tile.{name}").line for name in spec.tile}
    return {
        "title": f"{spec.kernel}: MLA decode, one query a sequence over a latent cache; B and S dynamic.",
        "public": (spec.kernel, f"{spec.kernel}_kernel_source", f"{spec.kernel}_latency", "use_libraries", "warm_up"),
        "module": None,
        "launched": {
            "arguments": ["q_nope", "q_pe", "kv", "seq_lens", "scale", "num_split", "out", "return_lse"],
            "tensors": ["q_nope", "q_pe", "kv"],
            "options": ["seq_lens", "out"],
            "others": ["type(scale)", "num_split", "return_lse"],
        },
        "dispatch": _dispatch(),
        "accum": compute.accum,
        "scale": formula_to_torch(compute.scale.expr, {}),
        "scale_text": compute.scale.text,
        "dtypes": spec.dtypes("q_nope"),
        "factory_parameters": [*parameters, "split"],
        "split_roles": {name: values_text(splits).replace("'", '"') for name, splits in SPLITS.items()},
        "policies": len(policies) > 1,
        "policy_name": POLICIES[policies[0]],
        # The number of splits is an argument of the call; the kernel is compiled for having any, or none.
        "tables": tile_tables(spec, by_arch, lines, ("schedule", *parameters, "num_split")),
        "piece": delayed.PIECE,
        "strip": delayed.STRIP,
        "named_barriers": ", ".join(str(id) for id in (delayed.P_READY, delayed.QK_DONE, *delayed.GROUPS)),
        "threshold": delayed.THRESHOLD,
        "min_chunk": delayed.MIN_CHUNK,
        "cut_cost": delayed.CUT_COST,
        "max_parts": delayed.MAX_PARTS,
        "schedule_threads": delayed.SCHEDULE_THREADS,
        "never": repr(NEVER).replace("e+", "e"),
        "max_split": MAX_SPLIT,
        "unroll": combine.UNROLL,
        "combine_threads": combine.THREADS,
        "heads_text": _values(spec, "H"),
        "widths": _widths(spec),
        "widths_defaults": ", ".join(_default(spec, name) for name in ("D_nope", "D_rope")),
        "key_block": max(case.tiles["BLOCK_N"] for case in cases),
    }


def _dispatch() -> dict[str, Any]:
    """How the functions of dispatch.py take their arguments, and read the dims off them."""
    inputs = ["q_nope", "q_pe", "kv"]
    options = {"seq_lens": None, "scale": None, "num_split": None, "out": None, "return_lse": False}
    return {
        "first": "q_nope",
        "inputs": inputs,
        "parameters": [*inputs, "*", *(f"{name}={default}" for name, default in options.items())],
        "passed": [*inputs, *(f"{name}={name}" for name in options)],
        "passes_out": False,
        "dims": ("B", "H", "S", "D_nope", "D_rope"),
        "tolerance": "tolerance",
        "sizes": "(B, H, D_nope), S, D_rope = q_nope.shape, kv.shape[1], q_pe.shape[2]",
    }


def _default(spec: Spec, name: str) -> str:
    """A parameter with the dim's value, where it has one alone."""
    values = listed_values(spec.dim(name))
    return f"{name}={values[0]}" if len(values) == 1 else name


def _widths(spec: Spec) -> str:
    """The least listed widths, as keyword arguments."""
    return ", ".join(f"{name}={min(listed_values(spec.dim(name)))}" for name in ("D_nope", "D_rope"))


def _values(spec: Spec, name: str) -> str:
    values = listed_values(spec.dim(name))
    return values_text(values)


def golden_cases(spec: Spec) -> list[dict[str, Any]]:
    """Two sequences of a key block and one key more, for the fewest heads, in each dtype."""
    dims = {name: min(listed_values(spec.dim(name))) for name in ("H", "D_nope", "D_rope")}
    dims = {"B": 2, "H": dims["H"], "S": 65, "D_nope": dims["D_nope"], "D_rope": dims["D_rope"]}
    return [
        {"name": f"{dtype}-B2-H{dims['H']}-S65", "dims": dims, "dtype": dtype, "seed": 0}
        for dtype in spec.dtypes("q_nope")
    ]
