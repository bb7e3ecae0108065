"""A TOML file as plain values, with the place of every key and value.

tomllib is the judge of what the file means; tree-sitter says where things stand. A path is a tuple of keys and array
indices: ("tile", "BLOCK_C", 1, "when").
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tilegen.spec.diagnostic import Diagnostic, Severity, SpecError
from tilegen.spec.source import Span

Path = tuple[str | int, ...]

MAX_BYTES = 1 << 18
MAX_DEPTH = 64
_TOMLLIB_PLACE = re.compile(r"^(?P<message>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$")
# A backslash alone stands at the end of its line and joins it with the next.
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[btnfr\"\\]|(?=\s*$))")
_TOML_HELP = 'a line is `key = value`, a value a number, "a string", true, false, [a list] or { key = value }'
_PATH_PART = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def parse_path(text: str) -> Path:
    """The path that "tile.BLOCK_C[1].when" spells."""
    return tuple(int(m[1]) if m[1] else m[2] for m in _PATH_PART.finditer(text))


def spell_path(path: Path) -> str:
    """The text that :func:`parse_path` reads."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


@dataclass(frozen=True)
class Place:
    """Where one key and its value stand; for a table header both are the header."""

    key: Span
    value: Span


@dataclass(frozen=True)
class Document:
    """The parsed file. `values` is what tomllib read; `places` has an entry for every path in it."""

    file: str
    text: str
    values: dict[str, Any]
    places: dict[Path, Place] = field(repr=False)

    def span(self, path: Path) -> Span:
        """The span of the value at `path`, or of its nearest parent; the first line if there is none."""
        place = self._nearest(path)
        return place.value if place else Span(self.file, 1, 1, 1, 1)

    def key_span(self, path: Path) -> Span:
        """The span of the key at `path`, or of its nearest parent's."""
        place = self._nearest(path)
        return place.key if place else Span(self.file, 1, 1, 1, 1)

    def inside(self, path: Path, start: int, end: int) -> Span:
        """The span of characters start..end of the string value at `path`; the whole value if that is no string."""
        span = self.span(path)
        places = _characters(self.text.split("\n"), span)
        if not places:
            return span
        first = places[min(start, len(places) - 1)]
        last = places[min(max(end, start + 1), len(places)) - 1]
        # The end of the text stands at the closing quote.
        return Span(self.file, *first, last[0], last[1] + 1)

    def _nearest(self, path: Path) -> Place | None:
        for length in range(len(path), 0, -1):
            if path[:length] in self.places:
                return self.places[path[:length]]
        return None


def _characters(lines: list[str], span: Span) -> list[tuple[int, int]]:
    """The (line, column) of each character of the string that stands at `span`, and of its closing quote."""
    line, column = span.line, span.column
    source = lines[line - 1]
    quote = source[column - 1 : column]
    if quote not in ("'", '"'):
        return []
    quotes = 3 if source.startswith(quote * 3, column - 1) else 1
    column += quotes
    places: list[tuple[int, int]] = []
    while (line, column) < (span.end_line, span.end_column - quotes):
        source = lines[line - 1]
        rest = source[column - 1 :]
        escape = _ESCAPE.match(rest) if quote == '"' else None
        if escape and escape[0] != "\\":
            places.append((line, column))
            column += len(escape[0])
        elif rest.rstrip("\r") and not escape:
            places.append((line, column))
            column += 1
        else:
            # A line end is a character, but for the one after the opening quotes and one behind a backslash.
            if not escape and (places or (line, column) != (span.line, span.column + quotes)):
                places.append((line, column))
            line, column = line + 1, 1
            while escape and line < span.end_line and not lines[line - 1].strip():
                line += 1
            if escape:
                column += len(lines[line - 1]) - len(lines[line - 1].lstrip())
    return [*places, (line, column)]


def parse_document(data: bytes, file: str) -> Document:
    """The document in `data`. Raises SpecError for bytes that are not TOML, with the place."""
    if len(data) > MAX_BYTES:
        raise SpecError(
            [_error("spec-too-large", f"the file has {len(data)} bytes; a spec has at most {MAX_BYTES}", None)]
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        before = data[: e.start].decode("utf-8")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        span = Span(file, line, column, line, column + 1)
        raise SpecError([_error("spec-not-utf8", f"the byte 0x{data[e.start]:02x} is not UTF-8", span)]) from None
    if text.startswith("\ufeff"):
        message = "the file starts with a byte order mark; save it as plain UTF-8"
        raise SpecError([_error("spec-bad-toml", message, Span(file, 1, 1, 1, 2))])
    collector = _Places(text, file)
    # Before anything that recurses, or whose time grows with the square of a key's length.
    if collector.too_deep():
        raise SpecError([_error("spec-bad-toml", "keys or values are nested too deep", None)])
    collector.collect()
    try:
        values = tomllib.loads(text)
    except RecursionError:  # brackets that never close are no nesting to tree-sitter
        raise SpecError([_error("spec-bad-toml", "keys or values are nested too deep", None)]) from None
    except ValueError as e:
        raise SpecError(_toml_errors(str(e), collector, text, file)) from None
    return Document(file, text, values, collector.places)


def _error(code: str, message: str, span: Span | None, **more: Any) -> Diagnostic:
    return Diagnostic(code, code.removeprefix("spec-"), Severity.ERROR, message, span, **more)


def _toml_errors(message: str, collector: _Places, text: str, file: str) -> list[Diagnostic]:
    """What tomllib refused: duplicate keys by our own walk, which knows both places, the rest where tomllib points."""
    if collector.duplicates:
        return [
            _error(
                "spec-duplicate-key",
                f"`{path[-1]}` is given twice",
                second,
                related=((first, "first given here"),),
                help=("keep one of the two",),
            )
            for path, first, second in collector.duplicates[:10]
        ]
    lines = text.split("\n")
    match = _TOMLLIB_PLACE.match(message)
    if match and match["line"]:
        line, column = int(match["line"]), int(match["column"])
    else:
        line, column = len(lines), len(lines[-1]) + 1
    what = match["message"] if match else "a number is too long"
    return [
        _error(
            "spec-bad-toml",
            f"this is not TOML: {what[:1].lower()}{what[1:]}",
            Span(file, line, column, line, column + 1),
            help=(_TOML_HELP,),
        )
    ]


@lru_cache(maxsize=1)
def _parser() -> Any:
    import tree_sitter
    import tree_sitter_toml

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_toml.language()))


class _Places:
    """Collects the place of every key and value from the syntax tree."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.source = text.encode("utf-8")
        self.lines = None if text.isascii() else self.source.split(b"\n")
        self.root = _parser().parse(self.source).root_node
        self.places: dict[Path, Place] = {}
        self.duplicates: list[tuple[Path, Span, Span]] = []
        self.array_lengths: dict[Path, int] = {}
        self.tables: set[Path] = set()

    def too_deep(self) -> bool:
        """True if the syntax tree is deeper than any spec. A dotted key is as deep as it has parts."""
        cursor = self.root.walk()
        while True:
            if cursor.depth > MAX_DEPTH:
                return True
            if cursor.goto_first_child():
                continue
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return False

    def collect(self) -> None:
        """Fills `places` and `duplicates`."""
        for node in self.root.named_children:
            if node.type == "pair":
                self._pair(node, ())
            elif node.type in ("table", "table_array_element"):
                self._table(node)

    def _table(self, node: Any) -> None:
        first, *children = node.named_children
        keys = [self._key_text(k) for k in self._keys(first)]
        header = Span(self.file, *self._point(node.start_point), *self._point(first.end_point))
        header = Span(self.file, header.line, header.column, header.end_line, header.end_column + len(_brackets(node)))
        path = self._current(keys[:-1])
        path = (*path, keys[-1])
        for length in range(1, len(path)):
            self.places.setdefault(path[:length], Place(header, header))
        if node.type == "table_array_element":
            index = self.array_lengths.get(path, 0)
            self.array_lengths[path] = index + 1
            self.places.setdefault(path, Place(header, header))
            path = (*path, index)
        elif path in self.tables:
            self.duplicates.append((path, self.places[path].key, header))
        self.tables.add(path)
        self.places.setdefault(path, Place(header, header))
        for child in children:
            if child.type == "pair":
                self._pair(child, path)

    def _current(self, keys: list[str]) -> Path:
        """The path of a header's parent: an array of tables stands for its last element."""
        path: Path = ()
        for key in keys:
            path = (*path, key)
            if path in self.array_lengths:
                path = (*path, self.array_lengths[path] - 1)
        return path

    def _pair(self, node: Any, parent: Path) -> None:
        children = [c for c in node.named_children if c.type != "comment"]
        if len(children) != 2:
            return
        keys = list(self._keys(children[0]))
        path = parent
        value = self._span(children[1])
        for i, key in enumerate(keys):
            path = (*path, self._key_text(key))
            place = Place(self._span(key), value)
            if i == len(keys) - 1 and path in self.places:
                self.duplicates.append((path, self.places[path].key, place.key))
            self.places.setdefault(path, place)
        self._value(children[1], path)

    def _value(self, node: Any, path: Path) -> None:
        if node.type == "inline_table":
            for child in node.named_children:
                if child.type == "pair":
                    self._pair(child, path)
        elif node.type == "array":
            for index, child in enumerate(c for c in node.named_children if c.type != "comment"):
                span = self._span(child)
                self.places[(*path, index)] = Place(span, span)
                self._value(child, (*path, index))

    def _keys(self, node: Any) -> list[Any]:
        """The simple keys of a key; tree-sitter nests a dotted key to the left."""
        stack, keys = [node], []
        while stack:
            top = stack.pop()
            if top.type == "dotted_key":
                stack += top.named_children
            else:
                keys.append(top)
        keys.reverse()
        return keys

    def _key_text(self, node: Any) -> str:
        text: str = node.text.decode("utf-8")
        if node.type != "quoted_key":
            return text
        try:
            return next(iter(tomllib.loads(f"{text} = 0")))
        except ValueError:
            return text

    def _span(self, node: Any) -> Span:
        return Span(self.file, *self._point(node.start_point), *self._point(node.end_point))

    def _point(self, point: Any) -> tuple[int, int]:
        row, column = point
        if self.lines is not None:
            column = len(self.lines[row][:column].decode("utf-8", "replace"))
        return row + 1, column + 1


def _brackets(node: Any) -> str:
    return "]]" if node.type == "table_array_element" else "]"
