"""The language: what parses, to what, and what is refused, where and how fast."""

from __future__ import annotations

import builtins
import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.expr.random_expressions import NAMES, REPEATABLE
from tilegen.expr import ExprError, parse_condition, parse_formula, parse_integer, symbol, to_text

PARSERS = (parse_integer, parse_condition, parse_formula)


def error_place(parse, text: str, names) -> tuple[int, int]:
    """Where the text is refused; (0, 0) if it parses."""
    try:
        parse(text, names)
    except ExprError as e:
        return e.start, e.end
    return 0, 0


def test_plain_numbers_stay_native_ints() -> None:
    assert parse_integer("2 * (3 + 4) // 5", ()) == 2
    assert type(parse_integer("2 ** 8", ())) is int
    assert parse_condition("3 < 4 <= 4", ()) is True


def test_a_symbol_is_one_integer_nonnegative_instance() -> None:
    assert parse_integer("M", {"M"}) is symbol("M")
    assert symbol("M").is_integer
    assert symbol("M").is_nonnegative


def test_blanks_and_line_ends_do_not_matter() -> None:
    assert parse_integer("  M\n +\t1 ", {"M"}) == parse_integer("M+1", {"M"})


@pytest.mark.parametrize(
    ("text", "message", "start", "end"),
    [
        ("M + foo", "unknown name `foo`", 4, 7),
        ("  M + foo", "unknown name `foo`", 6, 9),
        ("9**9**9", "an exponent must be a constant from 0 to 8", 6, 7),
        ("2 ** M", "an exponent must be a constant from 0 to 8", 5, 6),
        ("M / 2", "`/` does not give an integer", 0, 5),
        ("1.5", "`1.5` is not an integer", 0, 3),
        ("True", "`True` is not an integer", 0, 4),
        ("M // 0", "division by zero", 0, 6),
        ("M % (1 - 1)", "division by zero", 0, 11),
        ("9223372036854775807 * 9223372036854775807 + M", "the value does not fit into 64 bits", 0, 41),
        ("M.real", "`M.real` is not part of the expression language", 0, 6),
        ("M[0]", "`M[0]` is not part of the expression language", 0, 4),
        ("min(M)", "`min` takes two or more arguments", 0, 6),
        ("ceildiv(M, 2, 3)", "`ceildiv` takes two arguments", 0, 16),
        ("open(M)", "there is no function `open` here", 0, 4),
        ("min(*M)", "functions take plain arguments only", 0, 7),
        ("max(M, key=M)", "functions take plain arguments only", 0, 13),
        ("lambda: M", "`lambda: M` is not part of the expression language", 0, 9),
        ("M if M else 1", "`M if M else 1` is not part of the expression language", 0, 13),
        ("M < 2", "an integer is needed here, and this is a condition", 0, 5),
        ("M; M", "the character ';' is not part of the expression language", 1, 2),
        ("M # x", "the character '#' is not part of the expression language", 2, 3),
        ("é", "the character 'é' is not part of the expression language", 0, 1),
        ("", "the expression is empty", 0, 0),
        ("M << 2", "`M << 2` is not part of the expression language", 0, 6),
        ("~M", "the character '~' is not part of the expression language", 0, 1),
    ],
)
def test_a_bad_integer_is_refused_at_its_place(text: str, message: str, start: int, end: int) -> None:
    with pytest.raises(ExprError) as caught:
        parse_integer(text, {"M"})
    assert (caught.value.message, caught.value.start, caught.value.end) == (message, start, end)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("M", "`M` is not a condition"),
        ("M % 2", "`M % 2` is not a condition"),
        ("M in 2", "`in` needs a list of values"),
        ("M in (96)", "`in` needs a list of values"),
        ("M is 2", "this comparison is not part of the expression language"),
        ("M < 2 and 3", "`3` is not a condition"),
        ("not M", "`M` is not a condition"),
        ("M == 'a'", 'the character "\'" is not part of the expression language'),
    ],
)
def test_a_bad_condition_is_refused(text: str, message: str) -> None:
    with pytest.raises(ExprError) as caught:
        parse_condition(text, {"M"})
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x // 2", "`x // 2` is not part of the expression language"),
        ("x % 2", "`x % 2` is not part of the expression language"),
        ("1e999", "`1e999` is not a finite number"),
        ("1j", "`1j` is not a finite number"),
        ("x / 0", "division by zero"),
        ("where(x, 1, 2)", "`x` is not a condition"),
        ("where(x < 1, 1)", "`where` takes a condition and two values"),
        ("x < 1", "a number is needed here, and this is a condition"),
        ("silu(x, x)", "`silu` takes 1 argument"),
        ("clamp(x)", "`clamp` takes 3 arguments"),
        ("where(x in (1, 2), 1, 2)", "`in` has no meaning for real numbers"),
        ("siluu(x)", "there is no function `siluu` here"),
    ],
)
def test_a_bad_formula_is_refused(text: str, message: str) -> None:
    with pytest.raises(ExprError) as caught:
        parse_formula(text, {"x"})
    assert caught.value.message == message


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(ExprError) as caught:
        parse_integer("block_c", {"BLOCK_C", "threads"})
    assert caught.value.help == "did you mean `BLOCK_C`?"
    with pytest.raises(ExprError) as caught:
        parse_formula("siluu(x)", {"x"})
    assert caught.value.help == "did you mean `silu`?"


HOSTILE = (
    "9**9**9",
    "9**9**9**9**9**9",
    "M" + "+M" * 50_000,
    "(" * 10_000 + "M" + ")" * 10_000,
    "(" * 900 + "M" + ")" * 900,
    "-" * 1_900 + "M",
    "not " * 450 + "M < 1",
    "M" + "**8" * 600,
    "M" + "+M" * 900,
    "min(" * 300 + "M" + ",M)" * 300,
    "9" * 1_999,
    "M<" * 900 + "M",
    "(M+1)**8 * (M+2)**8 * ((M+3)**8)**8",
    "[" * 1_000,
    "(" * 30 + "M" + ")**8" * 30,
    "(" * 30 + "M*M" + ")**8" * 30,
    "(" * 30 + "M" + ")**64.0" * 30,
    "M**(M**M)",
    "0x" + "f" * 1_900,
    "M if " * 300 + "M",
    "\\\n" * 900,
    "\x00",
)


@pytest.mark.parametrize("text", HOSTILE, ids=lambda t: f"{t[:12]!r}x{len(t)}")
@pytest.mark.parametrize("parse", PARSERS, ids=lambda p: p.__name__)
def test_a_hostile_text_is_settled_without_exploding(parse, text: str) -> None:
    parse_formula("silu(x) + 1", {"x"})  # imports are not part of the measure
    start = time.process_time()
    place = error_place(parse, text, {"M"})
    assert time.process_time() - start < 5.0  # it takes milliseconds; a walk that explodes takes hours
    assert 0 <= place[0] <= place[1] <= max(len(text), 1)


CODE = (
    "__import__('os').system('touch {path}')",
    "open('{path}', 'w')",
    "().__class__.__base__.__subclasses__()",
    "(lambda: M)()",
    "[M for M in (1, 2)]",
    "f'{M}'",
    "M := 3",
    "print(M)",
    "exec('M')",
    "M.__class__",
    "silu.__globals__",
    "min.__self__",
)


@pytest.mark.parametrize("text", CODE)
@pytest.mark.parametrize("parse", PARSERS, ids=lambda p: p.__name__)
def test_code_is_refused_and_not_run(parse, text: str, tmp_path, monkeypatch) -> None:
    path = tmp_path / "written"
    for name in ("eval", "exec", "__import__"):
        original = getattr(builtins, name)
        if name != "__import__":
            monkeypatch.setattr(builtins, name, lambda *a, n=name, o=original: pytest.fail(f"{n} was called"))
    monkeypatch.setattr(os, "system", lambda *_: pytest.fail("os.system was called"))
    with pytest.raises(ExprError):
        parse(text.replace("{path}", str(path)), {"M"})
    assert not path.exists()


@REPEATABLE
@given(st.one_of(st.text(max_size=60), st.text("M0123456789+-*/%()<>=,. andornti", max_size=40)))
def test_random_text_raises_nothing_but_exprerror(text: str) -> None:
    for parse in PARSERS:
        start, end = error_place(parse, text, NAMES)
        assert 0 <= start <= end <= max(len(text), 1)


def test_powers_are_bounded_however_they_are_nested() -> None:
    assert parse_integer("(M ** 8) ** 8", {"M"}) == symbol("M") ** 64
    for text in ("(M ** 8) ** 8 ** 2", "((M ** 8) ** 8) ** 2", "(M ** 8 * M) ** 8"):
        with pytest.raises(ExprError):
            parse_integer(text, {"M"})
    parse_formula("2 ** x * (D + 64) ** -0.5", {"x", "D"}, integers={"D"})
    for text in ("2 ** D", "D ** D", "D ** 65", "(D ** 9) ** 9", "2 ** 99999"):
        with pytest.raises(ExprError, match="degree"):
            parse_formula(text, {"x", "D"}, integers={"D"})


def test_membership_prints_as_it_is_written() -> None:
    assert to_text(parse_condition("C in (192, 96)", {"C"})) == "C in (96, 192)"
