"""A suite: the shapes, dtypes and peers of one kernel's benchmark, as a TOML file that can be run again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilegen.bench.peers import PeerError, parse_peers
from tilegen.bench.shapes import ShapeError, shapes
from tilegen.spec.diagnostic import Diagnostic, Severity, SpecError
from tilegen.spec.document import parse_document
from tilegen.spec.keys import Key
from tilegen.spec.reader import Reader

if TYPE_CHECKING:
    from tilegen.spec.model import Spec

KEYS = {
    "kernel": Key({}, "kernel to time", True),
    "against": Key({}, "its peers, separated by commas", True),
    "shapes": Key({}, "tables that give dims their sizes, each the product of them", True),
    "dtypes": Key({}, "dtypes of the first tensor; all of the spec if absent"),
    "states": Key({}, 'states of L2: "cold", "warm"; both if absent'),
}


@dataclass(frozen=True)
class Suite:
    shapes: tuple[dict[str, int], ...]
    against: tuple[str, ...]
    dtypes: tuple[str, ...]
    states: tuple[str, ...]


def read_suite(path: Path, spec: Spec) -> Suite:
    """The suite in a file, for this spec. Raises ``SpecError`` with all that is wrong with it, and where."""
    try:
        data = path.read_bytes()
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise SpecError([Diagnostic("suite-unreadable", "unreadable", Severity.ERROR, message, None)]) from None
    reader = Reader(parse_document(data, str(path)))
    values = reader.table((), reader.document.values, KEYS)
    kernel = reader.string(("kernel",), values["kernel"]) if "kernel" in values else None
    if kernel is not None and kernel != spec.kernel:
        reader.error("suite-other-kernel", f"this suite is of `{kernel}`, not of `{spec.kernel}`", ("kernel",))
    suite = Suite(
        tuple(_shapes(reader, spec, values.get("shapes", []))),
        _against(reader, values.get("against", "")),
        _words(reader, "dtypes", values.get("dtypes"), spec.dtypes(spec.tensors[0].name)),
        _words(reader, "states", values.get("states"), ("cold", "warm")),
    )
    if reader.diagnostics:
        raise SpecError(reader.diagnostics)
    return suite


def _shapes(reader: Reader, spec: Spec, value: Any) -> list[dict[str, int]]:
    found: list[dict[str, int]] = []
    for path, raw in reader.array(("shapes",), value, "a list of tables"):
        entry = reader.table(path, raw, {dim.name: Key({}, "") for dim in spec.dims}, "a table of sizes")
        given = {name: _text(reader, (*path, name), size) for name, size in entry.items()}
        try:
            found += [dims for dims in shapes(spec, given) if dims not in found]
        except ShapeError as error:
            reader.error("suite-bad-size", str(error), path)
    return found


def _text(reader: Reader, path: Any, value: Any) -> str:
    """A size as the command line would give it: a number, a list of numbers, or text."""
    if isinstance(value, list):
        return ", ".join(str(reader.integer((*path, i), entry)) for i, entry in enumerate(value))
    if isinstance(value, str):
        return reader.string(path, value) or ""
    return str(reader.integer(path, value))


def _against(reader: Reader, value: Any) -> tuple[str, ...]:
    text = reader.string(("against",), value) if value else ""
    try:
        return parse_peers(text or "")
    except PeerError as error:
        reader.error("suite-bad-peer", str(error), ("against",))
        return ()


def _words(reader: Reader, key: str, value: Any, known: tuple[str, ...]) -> tuple[str, ...]:
    if value is None:
        return known
    entries = reader.array((key,), value, f"a list of {', '.join(known)}")
    return tuple(word for path, raw in entries if (word := reader.word(path, raw, known, f"one of {key}")))
