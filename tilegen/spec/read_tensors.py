"""`[tensors]` and `[scalars]`: shapes and dtypes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from tilegen.expr import ExprError, free_names, nearest, parse_integer
from tilegen.spec.document import Path
from tilegen.spec.keys import DTYPE_ALIASES, DTYPES, SCALAR, TENSOR
from tilegen.spec.model import Dim, Scalar, Tensor
from tilegen.spec.reader import Reader
from tilegen.spec.section import FamilySection, TensorRole

_SAME_AS = re.compile(r"same_as\(\s*(\w+)\s*\)")


def read_tensors(reader: Reader, value: Any, section: FamilySection, dims: Collection[str]) -> dict[str, Tensor]:
    """The tensors by name: those of the file in its order, then the family's defaults for those left out."""
    tensors: dict[str, Tensor] = {}
    table = reader.table(("tensors",), value)
    for name, entry in table.items():
        path: Path = ("tensors", name)
        taken = section.taken_names() | dict.fromkeys(dims, "a dim")
        tensor = _read_tensor(reader, path, name, entry, section, dims) if reader.declared(path, taken) else None
        if tensor is not None:
            tensors[name] = tensor
    for name, role in section.tensors.items():
        if name in table or role.optional:
            continue
        if not role.dtypes and role.same_as is None:
            reader.missing_key(("tensors",), name, help=f'{name} is the {role.doc}: shape "{role.shapes[0]}"')
        elif _names(role, section) <= set(dims):
            tensors[name] = _default(name, role, dims)
    _check_same_as(reader, tensors, table)
    return tensors


def _names(role: TensorRole, section: FamilySection) -> set[str]:
    """The dims that the first shape of a role mentions."""
    axes = (parse_integer(axis, section.dims) for axis in role.shapes[0].split())
    return {name for axis in axes for name in free_names(axis)}


def _default(name: str, role: TensorRole, dims: Collection[str]) -> Tensor:
    return Tensor(
        name=name,
        shape=tuple(parse_integer(axis, dims) for axis in role.shapes[0].split()),
        dtypes=role.dtypes or None,
        same_as=role.same_as,
        role=name,
        output=role.output,
        doc=role.doc,
    )


def _read_tensor(
    reader: Reader, path: Path, name: str, value: Any, section: FamilySection, dims: Collection[str]
) -> Tensor | None:
    before = len(reader.diagnostics)
    entry = reader.table(path, value, TENSOR)
    if len(reader.diagnostics) > before:
        return None
    text = reader.string((*path, "shape"), entry["shape"])
    shape = None if text is None else _read_shape(reader, (*path, "shape"), text, dims)
    dtypes, same_as = _read_dtype(reader, (*path, "dtype"), entry["dtype"])
    doc = reader.doc((*path, "doc"), entry.get("doc", ""))
    role = section.tensors.get(name)
    if shape is not None:
        _check_shape(reader, path, name, shape, role, section, dims)
    if len(reader.diagnostics) > before or shape is None:
        return None
    return Tensor(
        name=name,
        shape=shape,
        dtypes=dtypes,
        same_as=same_as,
        role=name if role else None,
        output=role.output if role else False,
        doc=doc or (role.doc if role else ""),
    )


def _read_shape(reader: Reader, path: Path, text: str, dims: Collection[str]) -> tuple[Any, ...] | None:
    """The axes of a shape: separated by blanks, except inside brackets."""
    axes: list[Any] = []
    for start, end in _axes(text):
        try:
            axes.append(parse_integer(text[start:end], dims))
        except ExprError as e:
            span = reader.document.inside(path, start + e.start, start + e.end)
            reader.error_at("spec-bad-shape", e.message, span, help=e.help)
            return None
    if not 1 <= len(axes) <= 8:
        reader.error("spec-bad-shape", f"a shape has 1 to 8 axes, and this has {len(axes)}", path)
        return None
    return tuple(axes)


def _axes(text: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    depth, start = 0, None
    for i, c in enumerate(text + " "):
        depth += (c == "(") - (c == ")")
        if c.isspace() and depth <= 0:
            if start is not None:
                spans.append((start, i))
            start = None
        elif start is None:
            start = i
    if start is not None:
        spans.append((start, len(text)))
    return spans


def _read_dtype(reader: Reader, path: Path, value: Any) -> tuple[tuple[str, ...] | None, str | None]:
    """(dtypes, None) or (None, the tensor whose dtype it shares)."""
    if isinstance(value, str):
        match = _SAME_AS.fullmatch(value.strip())
        if match:
            return None, match[1]
        dtype = reader.word(path, value, DTYPES, "a dtype", DTYPE_ALIASES)
        return (dtype,) if dtype else None, None
    dtypes: list[str] = []
    for p, element in reader.array(path, value, 'a dtype, a list of dtypes or "same_as(x)"'):
        dtype = reader.word(p, element, DTYPES, "a dtype", DTYPE_ALIASES)
        if dtype in dtypes:
            reader.error("spec-duplicate-value", f"{dtype} is listed twice", p)
        elif dtype:
            dtypes.append(dtype)
    if value == []:
        reader.error("spec-empty-domain", "the list of dtypes is empty", path)
    return tuple(dtypes) or None, None


def _check_shape(
    reader: Reader,
    path: Path,
    name: str,
    shape: tuple[Any, ...],
    role: TensorRole | None,
    section: FamilySection,
    dims: Collection[str],
) -> None:
    if role is None and not section.extra_shapes:
        reader.error(
            "spec-unknown-tensor",
            f"{section.name} has no tensor `{name}`",
            path,
            at_key=True,
            help=nearest(name, section.tensors),
        )
        return
    forms = role.shapes if role else section.extra_shapes
    known = [tuple(parse_integer(axis, {*dims, *section.dims}) for axis in form.split()) for form in forms]
    if shape not in known:
        choices = " or ".join(f'"{form}"' for form in forms)
        reader.error("spec-bad-shape", f"the shape of `{name}` must be {choices}", (*path, "shape"))


def _check_same_as(reader: Reader, tensors: Mapping[str, Tensor], table: Mapping[str, Any]) -> None:
    reported: set[str] = set()
    for name, tensor in tensors.items():
        if tensor.same_as is None:
            continue
        path: Path = ("tensors", name, "dtype")
        if tensor.same_as not in tensors:
            if tensor.same_as not in table:
                reader.error(
                    "spec-unknown-name",
                    f"there is no tensor `{tensor.same_as}`",
                    path,
                    help=nearest(tensor.same_as, tensors),
                )
            continue
        chain = [name]
        while (other := tensors.get(chain[-1])) is not None and other.same_as and other.same_as not in chain:
            chain.append(other.same_as)
        # Said once, at the first tensor of the cycle; tensors that only lead into it are innocent.
        if other is not None and other.same_as == name and name not in reported:
            reported |= set(chain)
            reader.error("spec-circular", f"the dtype refers to itself: {' -> '.join([*chain, name])}", path)


def read_scalars(reader: Reader, value: Any, taken: Mapping[str, str]) -> dict[str, Scalar]:
    """The scalars by name; `taken` holds the names of dims, tensors and the family."""
    scalars: dict[str, Scalar] = {}
    for name, raw in reader.table(("scalars",), value).items():
        path: Path = ("scalars", name)
        if not reader.declared(path, taken):
            continue
        entry = reader.table(path, raw, SCALAR)
        dtype = (
            reader.word((*path, "dtype"), entry["dtype"], ("float32", "float64", "int32", "int64"), "a scalar dtype")
            if "dtype" in entry
            else None
        )
        doc = reader.doc((*path, "doc"), entry.get("doc", ""))
        if dtype:
            scalars[name] = Scalar(name=name, dtype=dtype, doc=doc)
    return scalars


def check_dims_bound(reader: Reader, dims: Mapping[str, Dim], tensors: Mapping[str, Tensor]) -> None:
    """A dim that stands alone on no axis could not be read off the arguments at run time."""
    bound = {str(axis) for tensor in tensors.values() for axis in tensor.shape}
    for name in dims:
        if name not in bound:
            reader.error(
                "spec-unbound-dim",
                f"no tensor has `{name}` as an axis",
                ("dims", name),
                at_key=True,
                help="a dim is read off the shape of a tensor; remove it or give a tensor that has it",
            )
