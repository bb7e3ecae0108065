"""From a spec file to a `Spec`: the road, and the parts of a spec that are not the family's."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilegen import families
from tilegen import targets as chips
from tilegen.spec import document as doc
from tilegen.spec import keys
from tilegen.spec.diagnostic import Diagnostic, Severity, SpecError
from tilegen.spec.find import lock_bytes, lock_path
from tilegen.spec.model import Allow, Dim, GoldenCase, Lock, Prefer, Spec, Target, Tensor, TileValue, Tolerance
from tilegen.spec.names import call_problem, kernel_problem, suggested_kernel
from tilegen.spec.read_compute import read_compute
from tilegen.spec.read_dims import read_dims
from tilegen.spec.read_lock import read_lock
from tilegen.spec.read_shapes import read_shapes
from tilegen.spec.read_tensors import check_dims_bound, read_scalars, read_tensors
from tilegen.spec.read_tile import read_schedule, read_tile
from tilegen.spec.reader import Reader
from tilegen.spec.section import FamilySection

DEFAULT_ARCH = "sm_90a"
_RULE_ID = re.compile(r"TG-[A-Z][0-9]{1,3}")


def load(path: Path) -> Spec:
    """The spec in the file at `path`. Raises SpecError with all that is wrong with it, and nothing else."""
    try:
        data, lock = Path(path).read_bytes(), lock_bytes(Path(path))
    except (OSError, ValueError) as e:
        reason = getattr(e, "strerror", None) or str(e)
        diagnostic = Diagnostic("spec-unreadable", "unreadable", Severity.ERROR, f"cannot read {path}: {reason}", None)
        raise SpecError([diagnostic]) from None
    return load_bytes(data, str(path), lock)


def load_bytes(data: bytes, path: str, lock: bytes | None = None) -> Spec:
    """The spec in `data`, which stands at `path`, with the winners of its lock if there is one. Raises SpecError."""
    reader = Reader(doc.parse_document(data, path))
    spec = _read(reader, hashlib.sha256(data).hexdigest(), path)
    if spec is None or reader.diagnostics:
        raise SpecError(sorted(reader.diagnostics, key=lambda d: (d.span is None, d.span or 0)))
    if lock is None:
        return spec
    dynamic = [dim.name for dim in spec.dims if dim.dynamic]
    names = [dim.name for dim in spec.dims]
    found = read_lock(lock, str(lock_path(Path(path))), spec.section, names, dynamic, spec.targets)
    return with_lock(spec, found)


def with_lock(spec: Spec, lock: Lock | None) -> Spec:
    """The spec with these winners in place of its own."""
    return replace(spec, lock=lock)


def _read(reader: Reader, sha256: str, path: str) -> Spec | None:
    values = reader.table((), reader.document.values, keys.SPEC)
    kernel = reader.string(("kernel",), values["kernel"]) if "kernel" in values else None
    if kernel is not None and (problem := kernel_problem(kernel)):
        reader.error("spec-bad-name", problem, ("kernel",), help=suggested_kernel(kernel))
    doc_text = reader.doc(("doc",), values.get("doc", ""), lines=True)
    section, variant = _read_family(reader, values)
    if section is None:
        return None
    dims = read_dims(reader, values.get("dims", {}), section)
    declared = _declared(values.get("dims"), section)
    shapes = read_shapes(reader, values.get("shapes"), dims)
    schedule = read_schedule(reader, ("schedule",), values.get("schedule"), section, declared)
    tensors = read_tensors(reader, values.get("tensors", {}), section, declared)
    taken = section.taken_names() | dict.fromkeys(declared, "a dim") | dict.fromkeys(tensors, "a tensor")
    scalars = read_scalars(reader, values.get("scalars", {}), taken)
    if not reader.diagnostics:
        check_dims_bound(reader, dims, tensors)
    compute = read_compute(reader, values.get("compute", {}), section, declared, tensors, scalars)
    dynamic = [dim.name for dim in dims.values() if dim.dynamic]
    tile = read_tile(reader, ("tile",), values.get("tile", {}), section, declared, dynamic, {})
    rest: dict[str, Any] = {
        "targets": _read_targets(reader, values.get("target", {}), section, declared, dynamic, tile),
        "dispatch": _read_dispatch(reader, values.get("dispatch"), declared),
        "allow": _read_allow(reader, values.get("allow", {})),
        "tests": _read_tests(reader, values.get("tests"), dims, tensors),
        "tolerance": _read_tolerance(reader, values.get("tolerance")),
    }
    if reader.diagnostics or compute is None or kernel is None:
        return None
    return Spec(
        path=path,
        sha256=sha256,
        kernel=kernel,
        family=values["family"],
        variant=variant,
        schedule=schedule,
        doc=doc_text,
        dims=tuple(dims.values()),
        shapes=shapes,
        tensors=tuple(tensors.values()),
        scalars=tuple(scalars.values()),
        compute=compute,
        tile=tile,
        document=reader.document,
        section=section,
        **rest,
    )


def _declared(value: Any, section: FamilySection) -> list[str]:
    """The dims that are there or should be, so that one bad or missing entry does not make its uses unknown."""
    required = [name for name, role in section.dims.items() if role.required]
    return list(dict.fromkeys([*(value if isinstance(value, dict) else ()), *required]))


def _read_family(reader: Reader, values: Mapping[str, Any]) -> tuple[FamilySection | None, str | None]:
    if "family" not in values:
        return None, None
    name = reader.word(("family",), values["family"], families.names(), "a kernel family")
    if name is None:
        return None, None
    section = families.section(name)
    if "variant" not in values:
        if section.compute is None:
            help = f"{name} has the variants {', '.join(section.variants)}"
            reader.error("spec-missing-key", "the spec lacks `variant`", ("family",), help=help)
            return None, None
        return section, None
    if not section.variants:
        reader.error("spec-unknown-word", f"{name} has no variants", ("variant",), help="leave it out")
        return None, None
    variant = reader.word(("variant",), values["variant"], section.variants, f"a variant of {name}")
    return (section.variants[variant] if variant else None), variant


def _read_targets(
    reader: Reader,
    value: Any,
    section: FamilySection,
    dims: Collection[str],
    dynamic: Collection[str],
    tile: Mapping[str, TileValue],
) -> tuple[Target, ...]:
    targets: list[Target] = []
    for arch, raw in reader.table(("target",), value).items():
        path: doc.Path = ("target", arch)
        if arch not in chips.names():
            reader.error(
                "spec-unknown-target", f"there is no chip `{arch[:70]}`", path, at_key=True, help=_nearest_chip(arch)
            )
            continue
        entry = reader.table(path, raw, keys.TARGET)
        targets.append(
            Target(
                arch=arch,
                tile=read_tile(reader, (*path, "tile"), entry["tile"], section, dims, dynamic, tile)
                if "tile" in entry
                else {},
                schedule=read_schedule(reader, (*path, "schedule"), entry.get("schedule"), section, dims),
                span=reader.document.key_span(path),
            )
        )
    if not targets:
        targets.append(Target(arch=DEFAULT_ARCH, span=reader.document.span(("target",))))
    return tuple(targets)


def _nearest_chip(name: str) -> str:
    near = chips.UnknownTargetError(name[:64]).nearest
    return f"did you mean `{near}`?" if near else f"known here: {', '.join(chips.names())}"


def _read_dispatch(reader: Reader, value: Any, dims: Collection[str]) -> tuple[Prefer, ...]:
    if value is None:
        return ()
    table = reader.table(("dispatch",), value, keys.DISPATCH)
    preferred: list[Prefer] = []
    unconditional: doc.Path | None = None
    for path, raw in reader.array(("dispatch", "prefer"), table.get("prefer", []), "a list of { when, call }"):
        if unconditional is not None:
            reader.unreachable(path, unconditional)
            break
        entry = reader.table(path, raw, keys.PREFER, "a table { when = ..., call = ... }")
        call = reader.string((*path, "call"), entry["call"]) if "call" in entry else None
        if call is not None and (problem := call_problem(call)):
            reader.error("spec-bad-name", problem, (*path, "call"))
        when = reader.condition((*path, "when"), entry["when"], dims) if "when" in entry else None
        if "when" not in entry:
            unconditional = path
        if call is not None:
            text = entry.get("when", "")
            preferred.append(
                Prefer(
                    when=when,
                    when_text=" ".join(text.split()) if isinstance(text, str) else "",
                    call=call,
                    span=reader.document.span(path),
                )
            )
    return tuple(preferred)


def _read_allow(reader: Reader, value: Any) -> tuple[Allow, ...]:
    allowed: list[Allow] = []
    for rule, raw in reader.table(("allow",), value).items():
        path: doc.Path = ("allow", rule)
        if not _RULE_ID.fullmatch(rule):
            reader.error(
                "spec-unknown-rule",
                f"`{rule[:70]}` is not the id of a rule",
                path,
                at_key=True,
                help="rule ids look like TG-C4",
            )
        reason = reader.doc(path, raw)
        if isinstance(raw, str) and not reason.strip():
            reader.error("spec-no-reason", "an accepted finding needs a reason", path)
        else:
            allowed.append(Allow(rule=rule, reason=reason, span=reader.document.key_span(path)))
    return tuple(allowed)


def _read_tests(
    reader: Reader, value: Any, dims: Mapping[str, Dim], tensors: Mapping[str, Tensor]
) -> tuple[GoldenCase, ...]:
    if value is None:
        return ()
    table = reader.table(("tests",), value, keys.TESTS)
    dtypes = sorted({d for t in tensors.values() for d in t.dtypes or ()})
    cases: list[GoldenCase] = []
    for path, raw in reader.array(("tests", "cases"), table.get("cases", []), "a list of tables"):
        known = {name: keys.Key({}, "", required=True) for name in dims} | {"dtype": keys.Key({}, "")}
        before = len(reader.diagnostics)
        entry = reader.table(path, raw, known, "a table with a value for each dim")
        dtype = (
            reader.word((*path, "dtype"), entry.pop("dtype"), dtypes, "a dtype of this spec", keys.DTYPE_ALIASES)
            if "dtype" in entry
            else None
        )
        sizes = {name: reader.integer((*path, name), size) for name, size in entry.items()}
        for name, size in sizes.items():
            if size is not None and not dims[name].contains(size):
                reader.error("spec-outside-domain", f"{size} is outside the domain of `{name}`", (*path, name))
        if len(reader.diagnostics) == before:
            found = {n: s for n, s in sizes.items() if s is not None}
            cases.append(GoldenCase(dims=found, dtype=dtype, span=reader.document.span(path)))
    return tuple(cases)


def _read_tolerance(reader: Reader, value: Any) -> Tolerance | None:
    if value is None:
        return None
    table = reader.table(("tolerance",), value, keys.TOLERANCE)
    bounds = {k: reader.number(("tolerance", k), table[k]) for k in ("atol", "rtol") if k in table}
    if isinstance(value, dict) and not bounds:
        reader.missing_key(("tolerance",), "atol", help="give `atol`, `rtol` or both")
    reason = reader.doc(("tolerance", "reason"), table.get("reason", ""))
    return Tolerance(reason=reason, span=reader.document.span(("tolerance",)), **bounds)
