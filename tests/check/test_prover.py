"""Each way of settling a claim, on claims whose answer is known by hand."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tilegen.check.claim import pointwise
from tilegen.check.domain import Domain
from tilegen.check.prover import Status, prove, satisfiable
from tilegen.check.solver import counterexample
from tilegen.expr import Range, all_of, parse_condition

RANGED = Domain({"M": Range(1, 1_048_576), "N": Range(8, 65_536, 8)}, True, {})
LISTED = Domain({"N": Range(96, 384, 96), "K": Range(64, 128, 64)}, True, {"N": (96, 192, 384), "K": (64, 128)})


def claim(text: str) -> object:
    return parse_condition(text, ("M", "N", "K", "C"))


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("M >= 1", "intervals"),
        ("N % 4 == 0", "intervals"),
        ("(M + 127) // 128 <= 8192", "intervals"),
        ("ceildiv(M, 128) * 128 >= M", "z3"),
        ("M // 7 * 7 + M % 7 == M", "z3"),
        ("N * M % 8 == 0", "intervals"),
        ("ceildiv(N, 8) * 8 == N", "z3"),
    ],
)
def test_what_holds_for_every_value_is_proved(text: str, method: str) -> None:
    outcome = prove(claim(text), RANGED)
    assert (outcome.status, outcome.method) == (Status.PROVED, method)


@pytest.mark.parametrize(
    ("text", "smallest"),
    [
        ("M <= 1000", {"M": 1001}),
        ("M % 16 != 7", {"M": 7}),
        ("ceildiv(M, 128) <= 65", {"M": 8321}),
        ("M + N <= 70_000", {"M": 4465, "N": 65536}),
        ("N % 24 != 16", {"N": 16}),
    ],
)
def test_a_refutation_has_the_smallest_counterexample(text: str, smallest: dict[str, int]) -> None:
    outcome = prove(claim(text), RANGED)
    assert (outcome.status, outcome.counterexample) == (Status.REFUTED, smallest)


def test_listed_dims_are_enumerated_in_the_order_of_the_spec() -> None:
    outcome = prove(claim("N * K <= 192 * 64"), LISTED)
    assert (outcome.method, outcome.counterexample) == ("enumeration", {"N": 192, "K": 128})
    assert prove(claim("N % K == 0 or N % 96 == 0"), LISTED).proved


def test_a_listed_dim_that_is_tied_to_a_ranged_one_has_its_listed_values_and_no_others() -> None:
    """96 * 3 is within its range and a multiple of its divisor, and was a counterexample that nobody had declared."""
    domain = replace(LISTED, ranges={**LISTED.ranges, "M": Range(1, 1_048_576)}, constraint=claim("M <= N * K // 64"))
    assert prove(claim("N % 288 != 0"), domain).proved
    assert prove(claim("N != 288 or M > 5"), domain).proved
    below = replace(domain, constraint=claim("M <= N * K // 64 and N < 384"))
    assert prove(claim("N != 288"), below).proved, "as many values as multiples, though not the same"
    outcome = prove(claim("N < 288 or M > 5"), domain)
    assert (outcome.method, outcome.counterexample) == ("z3", {"N": 384, "K": 64, "M": 1})


def test_what_fails_everywhere_is_refuted_at_the_least_point_without_a_solver() -> None:
    tied = replace(LISTED, ranges={**LISTED.ranges, "M": Range(1, None)}, constraint=claim("M > 5 * K and N > K"))
    outcome = prove(claim("K < 64"), tied)
    assert (outcome.status, outcome.method) == (Status.REFUTED, "intervals")
    least = counterexample(claim("K < 64"), tied, tuple(outcome.counterexample))
    assert outcome.counterexample == least
    nowhere = replace(tied, constraint=claim("M > 5 * K and M * M < M + K"))
    assert prove(claim("K < 64"), nowhere).proved, "a claim that fails everywhere holds where there is no point"


def test_a_condition_on_the_domain_is_used() -> None:
    region = LISTED.restricted(claim("N >= 192"))
    assert prove(claim("N % 192 == 0"), region).proved
    assert not prove(claim("N % 192 == 0"), LISTED).proved


def test_only_dims_that_the_claim_depends_on_stand_in_a_counterexample() -> None:
    assert prove(claim("N < 384"), LISTED).counterexample == {"N": 384}


def test_a_claim_without_a_dim_is_refuted_everywhere() -> None:
    outcome = prove(False, RANGED)
    assert outcome.everywhere
    assert outcome.counterexample == {}


def test_a_fact_without_a_formula_is_enumerated_or_undecided() -> None:
    is_square = pointwise(lambda n: int(n**0.5) ** 2 == n, parse_int("N"))
    assert prove(is_square, LISTED).counterexample == {"N": 96}
    assert prove(is_square, RANGED).status is Status.UNDECIDED


def parse_int(text: str) -> object:
    from tilegen.expr import parse_integer

    return parse_integer(text, ("M", "N", "K"))


def test_a_claim_that_divides_by_zero_somewhere_does_not_hold_there() -> None:
    assert prove(claim("1000 // (N - 192) < 1001"), LISTED).counterexample == {"N": 192}


def test_an_unbounded_domain_is_proved_over() -> None:
    unbounded = Domain({"C": Range(1, None)}, claim("C % 32 == 0"), {})
    assert prove(claim("C % 8 == 0"), unbounded).proved
    assert prove(claim("C % 64 == 0"), unbounded).counterexample == {"C": 32}


PATHOLOGICAL = "M ** 5 + K ** 5 + C ** 5 != N ** 5 + 7 * M * K * C * N + 1"


def test_what_takes_too_long_is_undecided_and_said_so() -> None:
    wide = Domain({name: Range(1, 2**40) for name in "MNKC"}, True, {})
    started = time.perf_counter()
    outcome = prove(claim(PATHOLOGICAL), wide)
    assert outcome.status is Status.UNDECIDED
    assert "limit" in outcome.method
    assert time.perf_counter() - started < 2


def test_an_undecided_condition_counts_as_satisfiable() -> None:
    wide = Domain({name: Range(1, 2**40) for name in "MNKC"}, True, {})
    assert satisfiable(parse_condition(PATHOLOGICAL.replace("!=", "=="), tuple("MNKC")), wide)


@pytest.mark.parametrize("text", ["M <= 1000", "M % 16 != 7", "N % 24 != 16", "M >= 1", "N % 4 == 0"])
def test_tightening_a_domain_never_refutes_what_was_proved(text: str) -> None:
    for cut in ("M <= 512", "N <= 64", "M % 32 == 0", "N % 16 == 0 and M >= 9"):
        whole, part = prove(claim(text), RANGED), prove(claim(text), RANGED.restricted(all_of(claim(cut))))
        assert part.proved or not whole.proved
