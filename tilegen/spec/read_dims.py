"""`[dims]`: names and domains."""

from __future__ import annotations

from typing import Any

from tilegen.expr import Range, compile_closure, narrowed
from tilegen.spec.document import Path
from tilegen.spec.keys import DIM
from tilegen.spec.model import Dim
from tilegen.spec.reader import Reader
from tilegen.spec.section import FamilySection


def read_dims(reader: Reader, value: Any, section: FamilySection) -> dict[str, Dim]:
    """The dims that could be read, by name."""
    dims: dict[str, Dim] = {}
    for name, entry in reader.table(("dims",), value).items():
        path: Path = ("dims", name)
        dim = _read_dim(reader, path, name, entry) if reader.declared(path, section.taken_names()) else None
        if dim is not None:
            dims[name] = dim
    for name, role in section.dims.items():
        if role.required and name not in (value if isinstance(value, dict) else ()):
            reader.missing_key(("dims",), name, help=f"{name} is the {role.doc}")
    return dims


def _read_dim(reader: Reader, path: Path, name: str, value: Any) -> Dim | None:
    before = len(reader.diagnostics)
    if not isinstance(value, dict):
        help = (
            f"write {name} = {{ values = {value} }}"
            if isinstance(value, list)
            else f"write {name} = {{ values = [{value}] }}"
        )
        reader.wrong_type(path, "a table", value, help=help if isinstance(value, (int, list)) else "")
        return None
    entry = reader.table(path, value, DIM)
    values = tuple(
        v
        for p, e in reader.array((*path, "values"), entry.get("values", []), "a list of integers")
        if (v := reader.integer(p, e)) is not None
    )
    bounds = {k: reader.integer((*path, k), entry[k]) for k in ("min", "max", "multiple_of") if k in entry}
    dynamic = reader.boolean((*path, "dynamic"), entry["dynamic"]) if "dynamic" in entry else False
    doc = reader.doc((*path, "doc"), entry.get("doc", ""))
    also = reader.condition((*path, "also"), entry["also"], [name]) if "also" in entry else None
    if len(reader.diagnostics) == before:
        _check_domain(reader, path, name, entry, values, also)
    if len(reader.diagnostics) > before:
        return None
    return Dim(
        name=name,
        values=values,
        also=also,
        also_text=" ".join(entry.get("also", "").split()),
        dynamic=bool(dynamic),
        doc=doc,
        **bounds,
    )


def _check_domain(
    reader: Reader, path: Path, name: str, entry: dict[str, Any], values: tuple[int, ...], also: Any
) -> None:
    low, high, step = entry.get("min", 1), entry.get("max"), entry.get("multiple_of", 1)
    if "values" in entry and not values:
        reader.error("spec-empty-domain", f"`{name}` has an empty list of values", (*path, "values"))
        return
    if not values and also is None and high is None and not {"min", "multiple_of"} & entry.keys():
        reader.error(
            "spec-no-domain",
            f"`{name}` has no domain" if not entry.get("dynamic") else f"the dynamic dim `{name}` needs `max`",
            path,
            help="give `values`, or `also`, or a range by `min`, `max` and `multiple_of`"
            if not entry.get("dynamic")
            else "grid limits and index widths are proved up to it",
        )
        return
    if high is None and (entry.get("dynamic") or {"min", "multiple_of"} & entry.keys()):
        reader.error("spec-no-domain", f"the range of `{name}` needs `max`", path, help="proofs hold up to it")
    elif high is not None and (high < low or high // step * step < low):
        reader.error(
            "spec-empty-domain",
            f"no multiple of {step} lies from {low} to {high}",
            (*path, "max"),
            help=f"the nearest are {low // step * step} and {-(-low // step) * step}",
        )
    seen: set[int] = set()
    for i, v in enumerate(values):
        if v in seen:
            reader.error("spec-duplicate-value", f"{v} is listed twice", (*path, "values", i))
        seen.add(v)
        if entry.get("dynamic") and (v < low or (high is not None and v > high) or v % step):
            reader.error("spec-outside-domain", f"{v} is outside the range of `{name}`", (*path, "values", i))
    if also is not None and not values:
        _check_also(reader, path, name, also, narrowed(also, name, Range(low, high, step)))


def _check_also(reader: Reader, path: Path, name: str, also: Any, within: Range) -> None:
    """An `also` that holds nowhere among the first sizes of its range is a slip of the pen."""
    holds = compile_closure(also, [name])
    step = within.multiple_of
    first = -(-max(within.lo or 1, 1) // step) * step
    last = first + 20_000 * step if within.hi is None else min(within.hi, first + 20_000 * step)
    try:
        if not any(holds((v,)) for v in range(first, last + 1, step)):
            reader.error("spec-empty-domain", f"this holds for no size up to {last}", (*path, "also"))
    except ZeroDivisionError:
        reader.error("spec-bad-expression", "this divides by zero for some size", (*path, "also"))
