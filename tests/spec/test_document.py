"""Places of keys and values, and what is said of a file that is no TOML."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.expr.random_expressions import REPEATABLE
from tilegen.spec import SpecError
from tilegen.spec.document import Document, parse_document, parse_path

TEXT = '''\
top = "x"
a.b."c d" = 1           # dotted and quoted
"größe" = { x = [1, { y = 2 }], z.w = 'q' }

[t.u]
v = [
  10,  # a comment between
  20,
]
s = """
two lines"""

[[list]]
n = 1
[[list]]
n = 2
[list.sub]
m = 3
'''


def document(text: str) -> Document:
    return parse_document(text.encode(), "x.toml")


def written(doc: Document, path: str) -> str:
    span = doc.span(parse_path(path))
    lines = doc.text.split("\n")[span.line - 1 : span.end_line]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("top", '"x"'),
        ("a.b.c d", "1"),
        ("a.b", "1"),
        ("größe.x[0]", "1"),
        ("größe.x[1].y", "2"),
        ("größe.z.w", "'q'"),
        ("t", "[t.u]"),
        ("t.u", "[t.u]"),
        ("t.u.v[1]", "20"),
        ("t.u.v", "[\n  10,  # a comment between\n  20,\n]"),
        ("t.u.s", '"""\ntwo lines"""'),
        ("list", "[[list]]"),
        ("list[1]", "[[list]]"),
        ("list[0].n", "1"),
        ("list[1].n", "2"),
        ("list[1].sub.m", "3"),
    ],
)
def test_a_value_has_its_place(path: str, text: str) -> None:
    assert written(document(TEXT), path) == text


def test_a_key_has_its_place_in_characters_not_bytes() -> None:
    span = document(TEXT).key_span(parse_path("größe.x[1].y"))
    assert (span.line, span.column, span.end_column) == (3, 23, 24)


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ('"M + foo"', "foo"),
        ("'M + foo'", "foo"),
        ('"""M + foo"""', "foo"),
        ("'''\nM + foo'''", "foo"),
        ('"M \\u002b foo"', "foo"),
        ('"M\\t+ f\\u006fo"', "f\\u006fo"),
        ('"""M\n+ foo"""', "foo"),
        ('"""\nM +\\\n\n    \\u0020foo"""', "foo"),
        ('"""\r\nM\r\n+ foo"""', "foo"),
    ],
)
def test_a_place_inside_a_string_is_found(source: str, shown: str) -> None:
    text = f"x = [1, {source}]\n"
    doc = document(text)
    value = doc.values["x"][1].replace("\r", "")
    assert value.split() == ["M", "+", "foo"]
    start = doc.values["x"][1].index("foo")
    span = doc.inside(("x", 1), start, start + 3)
    assert span.line == span.end_line
    assert text.split("\n")[span.line - 1][span.column - 1 : span.end_column - 1] == shown


def test_the_end_of_a_string_is_its_closing_quote_and_no_string_is_whole() -> None:
    doc = document('a = "M +"\nb = 123\n')
    assert doc.inside(("a",), 3, 4).column == 9
    assert doc.inside(("b",), 1, 2) == doc.span(("b",))


@pytest.mark.parametrize(
    ("text", "code", "message", "line", "column"),
    [
        ("a = \n", "spec-bad-toml", "this is not TOML: invalid value", 1, 5),
        (
            "a = 1\nb = 1 2\n",
            "spec-bad-toml",
            "this is not TOML: expected newline or end of document after a statement",
            2,
            7,
        ),
        ('a = "x', "spec-bad-toml", "this is not TOML: unterminated string", 1, 7),
        ("a = 1\n[t]\na = 2\n[t]\n", "spec-duplicate-key", "`t` is given twice", 4, 1),
        ("a = 1\na = 2\n", "spec-duplicate-key", "`a` is given twice", 2, 1),
        ("t = { a = 1, a = 2 }\n", "spec-duplicate-key", "`a` is given twice", 1, 14),
        ("a.b = 1\na = 2\n", "spec-duplicate-key", "`a` is given twice", 2, 1),
        ("a = 1\na.b = 2\n", "spec-bad-toml", "this is not TOML: cannot overwrite a value", 2, 8),
        ("\ufeffa = 1\n", "spec-bad-toml", "the file starts with a byte order mark; save it as plain UTF-8", 1, 1),
        ("a = " + "9" * 5000, "spec-bad-toml", "this is not TOML: a number is too long", 1, 5005),
    ],
)
def test_what_is_no_toml_is_refused_at_its_place(text: str, code: str, message: str, line: int, column: int) -> None:
    with pytest.raises(SpecError) as caught:
        document(text)
    (d,) = caught.value.diagnostics
    assert (d.code, d.message, d.span.line, d.span.column) == (code, message, line, column)


def test_a_duplicate_key_shows_both_places() -> None:
    with pytest.raises(SpecError) as caught:
        document("a = 1\nb = 2\na = 3\n")
    ((span, message),) = caught.value.diagnostics[0].related
    assert (span.line, message) == (1, "first given here")


def test_bytes_that_are_no_utf8_are_refused_at_their_place() -> None:
    with pytest.raises(SpecError) as caught:
        parse_document("a = 1\nb = 'ä".encode() + b"\xff'\n", "x.toml")
    (d,) = caught.value.diagnostics
    assert (d.code, d.span.line, d.span.column) == ("spec-not-utf8", 2, 7)


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 9000 + "]" * 9000, "a = " + "{a=" * 900 + "1" + "}" * 900, ".".join("a" * 9000) + " = 1"]
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        document(text)
    assert caught.value.diagnostics[0].message == "keys or values are nested too deep"


# -- every path of any document has a place

_keys = st.one_of(st.text("abc-_1", min_size=1, max_size=3), st.sampled_from(["x y", "ä", ".", "[0]"]))


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _key(key: str) -> str:
    return f'"{key}"'


_values = st.recursive(
    st.one_of(st.integers(-5, 5), st.booleans(), st.text("aäz ", max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_keys, inner, max_size=3)),
    max_leaves=6,
)


def _paths(value: object, path: tuple = ()):
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key), child
        yield from _paths(child, (*path, key))


@REPEATABLE
@given(st.dictionaries(_keys, st.one_of(_values, st.dictionaries(_keys, _values, max_size=3)), max_size=4))
def test_every_path_has_a_place_that_holds_its_value(table: dict) -> None:
    plain = {k: v for k, v in table.items() if not isinstance(v, dict)}
    text = "".join(f"{_key(k)} = {_toml(v)}\n" for k, v in plain.items())
    for k, v in table.items():
        if isinstance(v, dict):
            text += f"[{_key(k)}]\n" + "".join(f"{_key(i)} = {_toml(w)}\n" for i, w in v.items())
    doc = document(text)
    assert doc.values == table
    for path, value in _paths(table):
        assert path in doc.places
        if not (len(path) == 1 and isinstance(value, dict)):
            span = doc.span(path)
            source = text.split("\n")[span.line - 1][span.column - 1 : span.end_column - 1]
            assert tomllib.loads(f"v = {source}") == {"v": value}


_string_parts = st.one_of(
    st.text("abä # '", max_size=3),
    st.sampled_from(["\\n", "\\t", "\\\\", '\\"', "\\u0041", "\\U0001F600", "\n", "\\\n  ", "\\  \n\n", "\r\n"]),
)


@REPEATABLE
@given(st.lists(_string_parts, max_size=6).map("".join), st.booleans())
def test_every_character_of_a_string_has_one_place(body: str, several_lines: bool) -> None:
    if not several_lines:
        body = body.replace("\\\n", "").replace("\\  \n\n", "").replace("\r", "").replace("\n", "")
    quotes = '"""' if several_lines else '"'
    text = f"a = {quotes}{body}{quotes}\n"
    doc = document(text)
    value = tomllib.loads(text)["a"]
    lines = text.split("\n")
    for i, character in enumerate(value):
        span = doc.inside(("a",), i, i + 1)
        line = lines[span.line - 1]
        if character == "\n" and line[span.column - 1 : span.column] != "\\":
            assert line[span.column - 1 :] in ("", "\r")
        else:
            written = line[span.column - 1]
            assert written in (character, "\\")
    end = doc.inside(("a",), len(value), len(value) + 1)
    assert lines[end.line - 1][end.column - 1 :] == quotes
