"""The keys of a spec that are not the family's, with type and doc: what the loader admits and the schema shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DTYPES = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "int32",
    "int16",
    "int8",
    "uint8",
    "int64",
    "bool",
)

# What people write, and what it is called here.
DTYPE_ALIASES = {
    "fp64": "float64",
    "double": "float64",
    "fp32": "float32",
    "float": "float32",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
    "float8": "float8_e4m3fn",
    "e4m3": "float8_e4m3fn",
    "float8_e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "int": "int32",
}


@dataclass(frozen=True)
class Key:
    """One key: its JSON schema without the description, its doc, and whether it must be there."""

    schema: Mapping[str, Any]
    doc: str
    required: bool = False


_STRING = {"type": "string"}
_INTEGER = {"type": "integer"}
_POSITIVE = {"type": "integer", "minimum": 1}
_TABLE = {"type": "object"}

SPEC: dict[str, Key] = {
    "kernel": Key({"type": "string", "pattern": "^[a-z][a-z0-9_]*$", "maxLength": 64}, "name of the kernel", True),
    "family": Key(_STRING, "family of the kernel", True),
    "variant": Key(_STRING, "variant of the family"),
    "schedule": Key({}, "how the tile program is arranged; the family's first choice if absent"),
    "doc": Key(_STRING, "what the kernel is for; stands in the emitted docstring"),
    "dims": Key(_TABLE, "the dims and their domains", True),
    "shapes": Key(
        {"type": "array", "items": {"type": "object", "additionalProperties": _POSITIVE}, "minItems": 1},
        "combinations of the static dims that are built, tested and warmed ahead; every one of their values if absent",
    ),
    "tensors": Key(_TABLE, "the tensors, by name"),
    "scalars": Key(_TABLE, "numbers given at run time, by name"),
    "compute": Key(_TABLE, "what is computed", True),
    "tile": Key(_TABLE, "tile parameters; what is left out is derived"),
    "target": Key(_TABLE, "the chips to build for, by arch; sm_90a if absent"),
    "dispatch": Key(_TABLE, "callables that take over for part of the domain"),
    "allow": Key(_TABLE, "rules whose findings are accepted, each with the reason"),
    "tests": Key(_TABLE, "golden cases beyond the derived ones"),
    "tolerance": Key(_TABLE, "tolerances in place of the derived ones"),
}

DIM: dict[str, Key] = {
    "values": Key(
        {"type": "array", "items": _POSITIVE, "minItems": 1}, "sizes that are built, tested and warmed ahead"
    ),
    "also": Key(_STRING, "a condition on the dim: proved for all of it, compiled at first use"),
    "min": Key(_POSITIVE, "least size of the range"),
    "max": Key(_POSITIVE, "greatest size of the range"),
    "multiple_of": Key(_POSITIVE, "divisor of every size of the range"),
    "dynamic": Key({"type": "boolean"}, "a run-time symbol: one compiled kernel for the whole range"),
    "doc": Key(_STRING, "what the dim is"),
}

TENSOR: dict[str, Key] = {
    "shape": Key(_STRING, 'axes separated by blanks: "M C"; an expression in brackets: "B (D_nope + D_rope)"', True),
    "dtype": Key(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"enum": list(DTYPES)}, "minItems": 1}]},
        'a dtype, a list of them, or "same_as(x)"',
        True,
    ),
    "doc": Key(_STRING, "what the tensor is"),
}

SCALAR: dict[str, Key] = {
    "dtype": Key({"enum": ["float32", "float64", "int32", "int64"]}, "dtype of the number", True),
    "doc": Key(_STRING, "what the number is"),
}

RULE: dict[str, Key] = {
    "use": Key({}, "the value", True),
    "when": Key(_STRING, "the condition under which it is used; always if absent"),
}

SWIZZLE: dict[str, Key] = {
    "panel": Key(_POSITIVE, "tiles in a panel", True),
    "order": Key({"enum": ["row", "column"]}, "direction of the walk"),
}

TARGET: dict[str, Key] = {
    "tile": Key(_TABLE, "tile parameters that differ on this chip"),
    "schedule": Key({}, "the schedule on this chip"),
}

DISPATCH: dict[str, Key] = {
    "prefer": Key({"type": "array", "items": _TABLE}, "callables in the order in which they are tried", True),
}

PREFER: dict[str, Key] = {
    "call": Key(_STRING, '"module.sub:function" with the signature of the kernel', True),
    "when": Key(_STRING, "the condition on dims under which it is called; always if absent"),
}

TESTS: dict[str, Key] = {
    "cases": Key({"type": "array", "items": _TABLE}, "golden cases: a value for each dim, and a dtype", True),
}

TOLERANCE: dict[str, Key] = {
    "atol": Key({"type": "number", "exclusiveMinimum": 0}, "absolute tolerance"),
    "rtol": Key({"type": "number", "exclusiveMinimum": 0}, "relative tolerance"),
    "reason": Key(_STRING, "why the derived tolerance does not do", True),
}
