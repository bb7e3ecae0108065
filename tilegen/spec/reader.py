"""Typed access to a document. Every mismatch becomes a diagnostic, and reading goes on."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from tilegen.expr import ExprError, nearest, nearest_name, parse_condition, parse_formula, parse_integer
from tilegen.spec import keys
from tilegen.spec.diagnostic import Diagnostic, Severity
from tilegen.spec.document import Document, Path
from tilegen.spec.keys import Key
from tilegen.spec.names import identifier_problem
from tilegen.spec.source import Span

T = TypeVar("T")

MAX_INTEGER = 2**63 - 1
MAX_STRING = 2000
MAX_DIAGNOSTICS = 100
MAX_ENTRIES = 256


class Reader:
    """Reads one document and collects what is wrong with it."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.diagnostics: list[Diagnostic] = []

    # -- saying what is wrong

    def error(self, code: str, message: str, path: Path, *, at_key: bool = False, **more: Any) -> None:
        """An error at the value at `path`, or at its key."""
        span = self.document.key_span(path) if at_key else self.document.span(path)
        self.error_at(code, message, span, **more)

    def error_at(
        self,
        code: str,
        message: str,
        span: Span | None,
        *,
        label: str = "",
        help: str | tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
        related: tuple[tuple[Span, str], ...] = (),
    ) -> None:
        """An error at a span."""
        if len(self.diagnostics) == MAX_DIAGNOSTICS:
            return
        helps = ((help,) if help else ()) if isinstance(help, str) else help
        self.diagnostics.append(
            Diagnostic(
                code, code.removeprefix("spec-"), Severity.ERROR, message, span, label, notes, helps, related=related
            )
        )

    # -- tables and keys

    def table(
        self, path: Path, value: Any, keys: Mapping[str, Key] | None = None, what: str = "a table"
    ) -> dict[str, Any]:
        """The table at `path`, with its unknown and missing keys reported; an empty one if it is no table."""
        if not isinstance(value, dict):
            self.wrong_type(path, what, value)
            return {}
        if len(value) > MAX_ENTRIES:
            where = f"`{_dotted(path)}`" if path else "the spec"
            self.error("spec-too-long", f"{where} has {len(value)} keys; the limit is {MAX_ENTRIES}", path)
            return {}
        if keys is None:
            return value
        misspelt: set[str | None] = set()
        for key in value:
            if key not in keys:
                self.unknown_key(path, key, keys)
                misspelt.add(nearest_name(key, keys))
        for name, required in keys.items():
            if required.required and name not in value and name not in misspelt:
                self.missing_key(path, name)
        return {k: v for k, v in value.items() if k in keys}

    def unknown_key(self, path: Path, key: str, known: Collection[str]) -> None:
        """Reports `key` of the table at `path`."""
        where = f" in [{_dotted(path)}]" if path else ""
        self.error(
            "spec-unknown-key",
            f"unknown key `{_short(key)}`{where}",
            (*path, key),
            at_key=True,
            help=_belongs(path, key) or nearest(key, known),
        )

    def declared(self, path: Path, taken: Mapping[str, str]) -> bool:
        """True if the last key of `path` may name a dim, tensor or scalar; `taken` says what has which name."""
        name = str(path[-1])
        problem = identifier_problem(name)
        if problem is None and name in taken:
            problem = f"`{name}` is already the name of {taken[name]}"
        if problem:
            self.error("spec-bad-name", problem, path, at_key=True)
        return problem is None

    def unreachable(self, path: Path, unconditional: Path) -> None:
        """Reports a rule that stands after one without `when`."""
        earlier = self.document.span(unconditional)
        message = "this one has no `when`, so it takes all that is left"
        self.error("spec-unreachable-rule", "no value reaches this rule", path, related=((earlier, message),))

    def missing_key(self, path: Path, key: str, help: str = "") -> None:
        """Reports that the table at `path` lacks `key`."""
        where = f"[{_dotted(path)}]" if path else "the spec"
        self.error("spec-missing-key", f"{where} lacks `{key}`", path, help=help)

    def wrong_type(self, path: Path, wanted: str, value: Any, help: str = "") -> None:
        """Reports that the value at `path` is of the wrong type."""
        self.error("spec-wrong-type", f"`{_dotted(path)}` must be {wanted}, not {_kind(value)}", path, help=help)

    # -- values; each returns None after reporting

    def string(self, path: Path, value: Any) -> str | None:
        """One line of text without control characters."""
        if not isinstance(value, str):
            self.wrong_type(path, "a string", value)
            return None
        if len(value) > MAX_STRING:
            self.error(
                "spec-too-long", f"`{_dotted(path)}` has {len(value)} characters; the limit is {MAX_STRING}", path
            )
            return None
        if not value.isprintable():
            self.error("spec-bad-character", f"`{_dotted(path)}` holds a line end or a control character", path)
            return None
        return value

    def doc(self, path: Path, value: Any, *, lines: bool = False) -> str:
        """Text that emitted code shows in comments and docstrings; several lines only where `lines` says so."""
        text = self.string(path, value.replace("\n", " ") if lines and isinstance(value, str) else value)
        if text is not None and ("\\" in text or '"""' in text):
            self.error("spec-bad-character", f'`{_dotted(path)}` holds a backslash or """', path)
        return "" if text is None else str(value)

    def integer(self, path: Path, value: Any, *, least: int = 1) -> int | None:
        """An integer from `least` to 2**63 - 1."""
        if isinstance(value, bool) or not isinstance(value, int):
            self.wrong_type(path, "an integer", value)
            return None
        if not least <= value <= MAX_INTEGER:
            self.error("spec-out-of-range", f"`{_dotted(path)}` must be at least {least} and fit into 64 bits", path)
            return None
        return value

    def boolean(self, path: Path, value: Any) -> bool | None:
        """true or false."""
        if not isinstance(value, bool):
            self.wrong_type(path, "true or false", value)
            return None
        return value

    def number(self, path: Path, value: Any) -> float | None:
        """A positive finite number."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.wrong_type(path, "a number", value)
            return None
        if not 0 < value <= 1e300:
            self.error("spec-out-of-range", f"`{_dotted(path)}` must be positive and finite", path)
            return None
        return float(value)

    def word(
        self, path: Path, value: Any, choices: Collection[str], what: str, aliases: Mapping[str, str] | None = None
    ) -> str | None:
        """One of `choices`."""
        text = self.string(path, value)
        if text is None:
            return None
        if text not in choices:
            known = (aliases or {}).get(text.lower())
            help = f"did you mean `{known}`?" if known else nearest(text, choices)
            self.unknown_word(path, text, choices, what, help)
            return None
        return text

    def unknown_word(self, path: Path, text: str, choices: Collection[str], what: str, help: str = "") -> None:
        """Reports a word that is none of `choices`."""
        few = len(choices) <= 8 and not (help or nearest(text, choices)).startswith("known")
        notes = (f"the choices are {', '.join(choices)}",) if few and len(choices) > 1 else ()
        self.error(
            "spec-unknown-word",
            f"`{_short(text)}` is not {what}",
            path,
            notes=notes,
            help=help or nearest(text, choices),
        )

    def array(self, path: Path, value: Any, what: str) -> list[tuple[Path, Any]]:
        """The elements of an array with their paths; none if it is no array."""
        if not isinstance(value, list):
            self.wrong_type(path, what, value)
            return []
        if len(value) > 4096:
            self.error("spec-too-long", f"`{_dotted(path)}` has {len(value)} elements; the limit is 4096", path)
            return []
        return [((*path, i), v) for i, v in enumerate(value)]

    # -- expressions

    def size(self, path: Path, value: Any, names: Collection[str], hints: Mapping[str, str] | None = None) -> Any:
        """An integer, or an integer expression over `names`. `hints` has help for some names that are not known."""
        if isinstance(value, str):
            return self._expression(path, value, lambda: parse_integer(value, names), hints)
        if isinstance(value, bool) or not isinstance(value, int):
            whole = isinstance(value, float) and value.is_integer()
            self.wrong_type(
                path,
                "an integer or an expression",
                value,
                help=f"write {int(value)}" if whole else 'an expression stands in quotes: "16 * threads // BLOCK_C"',
            )
            return None
        if abs(value) > MAX_INTEGER:
            self.error("spec-out-of-range", f"`{_dotted(path)}` must fit into 64 bits", path)
            return None
        return value

    def condition(self, path: Path, value: Any, names: Collection[str], hints: Mapping[str, str] | None = None) -> Any:
        """A condition over `names`."""
        if not isinstance(value, str):
            self.wrong_type(path, "a condition in quotes", value)
            return None
        condition = self._expression(path, value, lambda: parse_condition(value, names), hints)
        if isinstance(condition, bool):
            help = "leave it out" if condition else ""
            self.error("spec-constant-condition", f"this is always {str(condition).lower()}", path, help=help)
            return None
        return condition

    def formula(self, path: Path, value: Any, names: Collection[str], integers: Collection[str]) -> Any:
        """A formula over `names`, of which `integers` are dims; a plain number is one too."""
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            self.wrong_type(path, "a formula in quotes", value)
            return None
        text = value if isinstance(value, str) else repr(value)
        return self._expression(path, text, lambda: parse_formula(text, names, integers=integers))

    def _expression(
        self, path: Path, text: str, parse: Callable[[], T], hints: Mapping[str, str] | None = None
    ) -> T | None:
        try:
            return parse()
        except ExprError as e:
            message, help = e.message, e.help
            name = text[e.start : e.end]
            if hints and name in hints:
                message, help = f"`{name}` has no value here", hints[name]
            self.error_at("spec-bad-expression", message, self.document.inside(path, e.start, e.end), help=help)
            return None


def _belongs(path: Path, key: str) -> str:
    """Help for a key of the whole spec that stands below a table header."""
    if path and key in keys.SPEC:
        return f"`{key}` belongs to the whole spec: put it above the first [table]"
    return ""


def _dotted(path: Path) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{_short(part)}" if text else _short(part)
    return text


def _short(text: str) -> str:
    """A name from the spec, fit for a message."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= 70 else text[:67] + "..."


_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "a boolean"),
    (int, "an integer"),
    (float, "a float"),
    (str, "a string"),
    (list, "an array"),
    (dict, "a table"),
    ((datetime.date, datetime.time), "a date"),
)


def _kind(value: Any) -> str:
    return next((name for kind, name in _KINDS if isinstance(value, kind)), type(value).__name__)
