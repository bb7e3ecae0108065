import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilegen.verify.extent import ExtentError, evaluate, extent_equal, extent_names


@pytest.mark.parametrize(
    ("ir", "plan", "equal"),
    [
        ("((m + 127) // 128)", "ceildiv(m, 128)", True),
        ("((m + 127) // 128)", lambda m: -(-m // 128), True),
        ("((m + 126) // 128)", "ceildiv(m, 128)", False),
        ("(m // 128)", "ceildiv(m, 128)", False),
        ("((h * 2) - (h % 2))", "h // 2 * 4 + h % 2", True),
        ("max((s // n), 1)", "s // n if s >= n else 1", True),
        ("(m // 192)", "(m + 1) // 192", False),
        ("((m + 191) // 192)", "ceildiv(m, 192)", True),
        (64, 64, True),
        (64, "m", False),
        ("(a * b)", "(b * a)", True),
        ("(a * b)", "(a + b)", False),
    ],
)
def test_extents_are_equal_when_they_agree_everywhere(ir, plan, equal):
    assert extent_equal(ir, plan) == equal


def test_a_listed_dim_is_tried_at_its_values_alone():
    assert extent_equal("(m // 64)", "ceildiv(m, 64)", {"m": (64, 128, 4096)})


def test_four_dims_are_sampled_within_bounds():
    assert extent_equal("(((a + b) + c) + d)", "d + c + b + a")
    assert not extent_equal("(((a + b) + c) + d)", "d + c + b")


def test_names_of_an_extent():
    assert extent_names("max((m + k), 1)") == {"m", "k"}
    assert extent_names(3) == set()


@pytest.mark.parametrize(
    "text", ["__import__('os')", "m.real", "m[0]", "2 ** 99", "lambda: 0", "m if", "open('x')", "f(1)", "'a'", "1.5"]
)
def test_what_is_not_of_the_language_is_refused(text):
    with pytest.raises(ExtentError):
        evaluate(text, {"m": 1})


def test_a_name_without_a_value_and_a_division_by_zero_are_clear():
    with pytest.raises(ExtentError, match="'k'"):
        evaluate("m + k", {"m": 1})
    with pytest.raises(ExtentError, match="divides by zero"):
        evaluate("m // k", {"m": 1, "k": 0})
    with pytest.raises(ExtentError, match="longer"):
        evaluate("m+" * 3000 + "m", {"m": 1})


@given(st.integers(1, 10_000), st.integers(1, 512))
def test_both_spellings_of_rounding_up_agree(m, block):
    assert evaluate(f"(m + {block - 1}) // {block}", {"m": m}) == evaluate(f"ceildiv(m, {block})", {"m": m})
