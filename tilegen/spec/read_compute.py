"""`[compute]`: the family's own table, with its formulas parsed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tilegen.spec.document import Path
from tilegen.spec.model import Scalar, Tensor
from tilegen.spec.reader import Reader
from tilegen.spec.section import Compute, ComputeKey, FamilySection, Formula, FormulaNames


def read_compute(
    reader: Reader,
    value: Any,
    section: FamilySection,
    dims: Collection[str],
    tensors: Mapping[str, Tensor],
    scalars: Mapping[str, Scalar],
) -> Compute | None:
    """The family's compute table, or None after reporting what is wrong."""
    model = section.compute
    if model is None:
        return None
    before = len(reader.diagnostics)
    given, keys = reader.table(("compute",), value), model.table()
    read: dict[str, Any] = {}
    for name, entry in given.items():
        path: Path = ("compute", name)
        key = keys.get(name)
        if key is None:
            reader.unknown_key(("compute",), name, keys)
        elif key.names is not None:
            read[name] = _read_formula(reader, path, entry, key.names, section, dims, tensors, scalars)
        elif key.choices:
            read[name] = _read_word(reader, path, entry, key)
        else:
            read[name] = _read_number(reader, path, entry, key)
    for name, key in keys.items():
        if key.required and name not in given:
            reader.missing_key(("compute",), name, help=key.doc)
    if len(reader.diagnostics) > before:
        return None
    compute = model(**read)
    for name, message, help in compute.problems():
        reader.error("spec-bad-compute", message, ("compute", name), help=help)
    return compute


def _read_word(reader: Reader, path: Path, value: Any, key: ComputeKey) -> str | None:
    if not isinstance(value, str):
        reader.wrong_type(path, f"one of {', '.join(key.choices)}", value)
        return None
    return reader.word(path, value, key.choices, f"a choice of `{path[-1]}`")


def _read_number(reader: Reader, path: Path, value: Any, key: ComputeKey) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        reader.wrong_type(path, "a number", value)
        return None
    if not key.least <= value < key.under:
        message = f"`compute.{path[-1]}` must be at least {key.least:g} and under {key.under:g}, not {value:g}"
        reader.error("spec-out-of-range", message, path)
        return None
    return float(value)


def _read_formula(
    reader: Reader,
    path: Path,
    value: Any,
    names: FormulaNames,
    section: FamilySection,
    dims: Collection[str],
    tensors: Mapping[str, Tensor],
    scalars: Mapping[str, Scalar],
) -> Formula | None:
    known = set(names.inputs)
    if names.extra:
        # A family's own operands (a and b of a gemm) are no operands of its epilogue; its optional tensors are.
        known |= {n for n, t in tensors.items() if not t.output and (t.role is None or section.tensors[n].optional)}
        known |= set(scalars)
    integers = set(dims) - known if names.dims else set()
    expr = reader.formula(path, value, known | integers, integers)
    if expr is None:
        return None
    return Formula(" ".join(value.split()) if isinstance(value, str) else repr(value), expr)
