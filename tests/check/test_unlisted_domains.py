"""Proofs over domains that no enumeration could cover: dims without a list, without an end, or known only at run time.

Each claim is settled by arithmetic on intervals and residues or by z3; none may be settled point by point. Beside each
proof stands what would be claimed wrongly: it is refuted, with the least counterexample in the order of the dims.
"""

from __future__ import annotations

import pytest

from tilegen.check.checker import check, settle
from tilegen.check.domain import ENUMERABLE, Domain, domain_of
from tilegen.check.examples import Example
from tilegen.check.prover import Status, prove
from tilegen.expr import Range, free_names, parse_condition
from tilegen.spec import load_bytes

NAMES = ("M", "N", "K", "C", "S", "B", "sm_count")


def claim(text: str) -> object:
    return parse_condition(text, NAMES)


# C % 32 == 0 with no list and no end; rows and keys known at run time; N in multiples of 8 up to 2^31.
OPEN = Domain(
    {
        "M": Range(1, 2**31 - 1),
        "N": Range(8, 2**31 - 8, 8),
        "C": Range(32, None, 32),
        "S": Range(1, 2**20),
        "B": Range(1, 4096),
        "sm_count": Range(1, 512),
    },
    claim("C % 32 == 0"),
    {},
)

PROVED = [
    "C % 8 == 0",
    "C % 32 == 0",
    "C * 2 % 64 == 0",
    "C * 2 % 16 == 0",
    "C // 32 * 32 == C",
    "ceildiv(C, 32) * 32 == C",
    "ceildiv(C, 64) * 64 >= C",
    "ceildiv(C, 64) * 64 - C <= 32",
    "C % 64 == 0 or C % 64 == 32",
    "(C + 31) // 32 == C // 32",
    "N * 2 % 16 == 0",
    "N * C % 256 == 0",
    "M * N % 8 == 0",
    "M * C >= 32",
    "ceildiv(M, 128) * 128 >= M",
    "ceildiv(M, 128) * 128 < M + 128",
    "ceildiv(M, 128) <= 16777216",
    "M // 128 * 128 <= M",
    "M // 7 * 7 + M % 7 == M",
    "min(M, 128) <= 128",
    "max(M, 16) >= 16",
    "min(ceildiv(M, 128), sm_count) <= 512",
    "min(ceildiv(M, 128), sm_count) >= 1",
    "ceildiv(S, 64) * 64 >= S",
    "ceildiv(S, 64) <= 16384",
    "(S - 1) // 64 + 1 == ceildiv(S, 64)",
    "ceildiv(ceildiv(S, 64), 4) * 4 >= ceildiv(S, 64)",
    "max(1, min(256, ceildiv(S, 64))) <= 256",
    "sm_count // B <= 512",
    "B * ceildiv(S, 64) <= 67108864",
    "M % 128 + M // 128 * 128 == M",
    "not (M <= 16 and M > 64)",
    "M <= 16 or M > 16",
    "N // 8 * 8 == N",
    "2 * M + N >= 10",
]

REFUTED = [
    ("C % 64 == 0", {"C": 32}),
    ("C <= 4096", {"C": 4128}),
    ("ceildiv(C, 64) * 64 == C", {"C": 32}),
    ("N % 16 == 0", {"N": 8}),
    ("ceildiv(M, 128) * 128 == M", {"M": 1}),
    ("ceildiv(M, 128) <= 65535", {"M": 8388481}),
    ("ceildiv(S, 64) <= 1000", {"S": 64001}),
    ("M + N <= 4294967280", {"M": 2**31 - 7, "N": 2**31 - 8}),
    ("M != 4097 or S != 77", {"M": 4097, "S": 77}),
    ("B * S <= 4096 * 1048575", {"S": 1048576, "B": 4096}),
]


def enumerable(text: str) -> bool:
    """Whether the dims of a claim have so few points that each could be looked at."""
    names = [name for name in NAMES if name in text.replace("ceildiv", "").replace("min", "")]
    total = 1
    for name in names:
        range_ = OPEN.ranges[name]
        if range_.hi is None:
            return False
        total *= (range_.hi - (range_.lo or 0)) // range_.multiple_of + 1
    return total <= ENUMERABLE


@pytest.mark.parametrize("text", PROVED)
def test_it_is_proved_without_looking_at_points(text: str) -> None:
    outcome = prove(claim(text), OPEN)
    assert outcome.status is Status.PROVED
    assert not enumerable(text)


@pytest.mark.parametrize(("text", "least"), REFUTED, ids=[text for text, _ in REFUTED])
def test_what_is_wrong_is_refuted_at_its_least_point(text: str, least: dict[str, int]) -> None:
    outcome = prove(claim(text), OPEN)
    assert (outcome.status, dict(outcome.counterexample)) == (Status.REFUTED, least)


def test_thirty_claims_at_least_take_arithmetic_on_intervals_or_z3() -> None:
    methods = [prove(claim(text), OPEN).method for text in dict.fromkeys(PROVED)]
    assert sum(method in SYMBOLIC for method in methods) >= 30


SYMBOLIC = ("intervals", "z3")
MLA = "attention/mla_decode"
WIDE = {
    "M": {"dynamic": True, "max": 2**20},
    "N": {"values": [1024], "also": "N % 64 == 0 and N <= 4194304"},
    "K": {"values": [1024], "also": "K % 64 == 0 and K >= 512 and K <= 4194304"},
}
BY_RULES = {
    "BLOCK_N": [{"use": 256, "when": "M > 64 and N % 256 == 0"}, {"use": 128, "when": "N % 128 == 0"}, {"use": 64}],
    "stages": "max(1, min(3, K // 256))",
}
SPLIT = [{"use": 4, "when": "B * ceildiv(H, BLOCK_H) < sm_count"}, {"use": 1}]
SPECS: list[tuple[str, dict[str, object]]] = [
    ("gemm", {"dims": WIDE, "tile": BY_RULES}),
    ("gemm", {"dims": WIDE, "schedule": "persistent"}),
    ("gemm", {"dims": WIDE, "tile": {"BLOCK_N": 128, "threads": 128}, "target": {"sm_80": {}}}),
    ("row_norm", {"dims": {"C": {"values": [65_536], "also": "C % 32 == 0"}}, "schedule": "two_pass"}),
    (MLA, {"schedule": "plain", "dims": {"H": {"values": [64]}}, "tile": {"num_split": SPLIT}}),
]


def proved_symbolically(of: str, change: dict[str, object]) -> set[tuple[str, str]]:
    """The obligations of a spec over domains that enumeration could not cover, each by its rule and its claim."""
    found = set()
    for plan, results in settle(load_bytes(Example("", False, of, change, "").spec(), "example.toml")):
        region = domain_of(plan.spec).restricted(plan.case.condition)
        for result in results:
            said = result.obligation.claim
            size = region.size(region.closure(free_names(said))) if hasattr(said, "free_symbols") else 0
            if (size is None or size > ENUMERABLE) and result.outcome.proved and result.outcome.method in SYMBOLIC:
                found.add((result.rule.id, str(said)))
    return found


def test_thirty_obligations_of_rules_at_least_no_enumeration_could_settle() -> None:
    found = set().union(*(proved_symbolically(of, change) for of, change in SPECS))
    assert len(found) >= 30
    assert len({rule for rule, _ in found}) >= 8


ROW_NORM = {
    "dims": {"C": {"values": [256], "also": "C % 32 == 0"}},
    "tile": {"BLOCK_C": 128, "BLOCK_M": 8, "threads": 128},
}


def test_a_spec_over_an_unlisted_width_is_proved_by_its_rules() -> None:
    """C in multiples of 32 with no list and no end: rule F19 holds for all of it, and F9 is refuted at its least."""
    spec = load_bytes(Example("", False, "row_norm", ROW_NORM, "").spec(), "example.toml")
    assert domain_of(spec).size(("C",)) is None
    verdict = check(spec)
    assert verdict.rules["TG-F19"] == {"proved": 2, "refuted": 0, "undecided": 0}
    (registers,) = [found for found in verdict.diagnostics if found.code == "TG-F9"]
    assert "smallest: C = " in registers.notes[0]
    assert verdict.undecided == 0
