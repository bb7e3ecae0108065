"""`[compute]`: the family's own table, with its formulas parsed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from tilegen.spec.document import Path
from tilegen.spec.model import Scalar, Tensor
from tilegen.spec.reader import Reader
from tilegen.spec.section import Compute, FamilySection, Formula, FormulaNames


def read_compute(
    reader: Reader,
    value: Any,
    section: FamilySection,
    dims: Collection[str],
    tensors: Mapping[str, Tensor],
    scalars: Mapping[str, Scalar],
) -> Compute | None:
    """The family's compute model, or None after reporting what is wrong."""
    model = section.compute
    if model is None:
        return None
    before = len(reader.diagnostics)
    values = dict(reader.table(("compute",), value))
    for name, field in model.model_fields.items():
        names = formula_names(field)
        if names is None or name not in values:
            continue
        formula = _read_formula(reader, ("compute", name), values[name], names, section, dims, tensors, scalars)
        if formula is None:
            values.pop(name)
        else:
            values[name] = formula
    try:
        compute = model.model_validate(values)
    except ValidationError as e:
        for problem in e.errors(include_url=False):
            _report(reader, problem, model, value)
        return None
    if len(reader.diagnostics) > before:
        return None
    for key, message, help in compute.problems():
        reader.error("spec-bad-compute", message, ("compute", key), help=help)
    return compute


def formula_names(field: FieldInfo) -> FormulaNames | None:
    """What the formula in this field may mention; None if the field is no formula."""
    return next((m for m in field.metadata if isinstance(m, FormulaNames)), None)


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


def _report(reader: Reader, problem: Any, model: type[Compute], value: Any) -> None:
    """One pydantic error as a diagnostic of ours."""
    path: Path = ("compute", *problem["loc"])
    key = str(problem["loc"][0]) if problem["loc"] else ""
    kind = problem["type"]
    if kind == "extra_forbidden":
        reader.unknown_key(("compute",), key, model.model_fields)
    elif kind == "missing":
        # A formula that did not parse was reported there.
        if key not in (value if isinstance(value, dict) else {}):
            reader.missing_key(("compute",), key, help=model.model_fields[key].description or "")
    elif kind == "literal_error":
        choices = [c.strip(" '") for c in problem["ctx"]["expected"].replace(" or ", ",").split(",")]
        if isinstance(problem["input"], str):
            reader.unknown_word(path, problem["input"], choices, f"a choice of `{key}`")
        else:
            reader.wrong_type(path, f"one of {', '.join(choices)}", problem["input"])
    else:
        reader.error("spec-wrong-type", f"`compute.{key}`: {problem['msg'][:1].lower()}{problem['msg'][1:]}", path)
