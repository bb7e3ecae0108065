"""Random specs: the checker never fails on one, says the same again, and stands by its word on a part of the domain."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.check.random_specs import decodes, gemms, norms
from tilegen.check import checker
from tilegen.check.checker import Verdict, check, settle, settle_spec
from tilegen.check.claim import Pointwise
from tilegen.check.domain import domain_over
from tilegen.check.examples import to_toml
from tilegen.check.prover import Status
from tilegen.check.rule import catalogue, rules
from tilegen.expr import evaluate, free_names
from tilegen.spec import Severity, SpecError, load_bytes, render_text


def said(spec: bytes) -> str:
    try:
        verdict = check(load_bytes(spec, "random.toml"))
    except SpecError as error:
        return render_text(error.diagnostics)
    return f"{verdict.proved} {verdict.refuted} {verdict.undecided}\n{render_text(verdict.diagnostics)}"


def bare(spec: bytes) -> Verdict:
    """The verdict without the nearest legal values, which take most of the time, where nothing is asked of them."""
    return check(load_bytes(spec, "random.toml"), mends=lambda _: False)


SETTINGS = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@SETTINGS
@given(gemms())
def test_a_random_gemm_is_answered_and_answered_the_same_again(spec: bytes) -> None:
    assert said(spec) == said(spec)


@settings(SETTINGS, max_examples=8)
@given(decodes())
def test_a_random_decode_is_answered_and_answered_the_same_again(spec: bytes) -> None:
    assert said(spec) == said(spec)


@SETTINGS
@given(norms())
def test_a_random_row_norm_is_answered_and_answered_the_same_again(spec: bytes) -> None:
    assert said(spec) == said(spec)


@settings(SETTINGS, max_examples=20)
@given(st.integers(64, 8192), st.integers(1, 4))
def test_what_is_legal_for_all_n_is_legal_for_some(n: int, step: int) -> None:
    text = (Path(__file__).parent / "plain_gemm.toml").read_text(encoding="utf-8")
    whole = text.replace("N = { values = [1024, 4096, 8192] }", f"N = {{ min = 8, max = {n}, multiple_of = {step} }}")
    part = text.replace(
        "N = { values = [1024, 4096, 8192] }", f"N = {{ min = 8, max = {n}, multiple_of = {8 * step} }}"
    )
    if bare(whole.encode()).ok:
        assert bare(part.encode()).ok


def outcome(spec: bytes) -> tuple[object, ...]:
    """What the checker says of a spec, apart from how it words it."""
    try:
        verdict = bare(spec)
    except SpecError as error:
        return tuple(sorted((entry.code, str(entry.span)) for entry in error.diagnostics))
    found = sorted((entry.code, entry.severity, str(entry.span)) for entry in verdict.diagnostics)
    return tuple(found), sorted((rule, tuple(counts.items())) for rule, counts in verdict.rules.items())


def forgotten() -> None:
    """Drops what was settled before, so that a claim is settled anew and in another order."""
    domain_over.cache_clear()


@settings(SETTINGS, max_examples=9)
@given(st.one_of(gemms(), norms(), decodes()), st.randoms(use_true_random=False))
def test_the_order_of_rules_changes_nothing(spec: bytes, random: Random) -> None:
    forgotten()
    before = outcome(spec)
    shuffled, asked = list(rules()), []
    random.shuffle(shuffled)
    forgotten()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checker, "rules", lambda: asked.append(1) or tuple(shuffled))
        assert outcome(spec) == before
    assert asked or not planned(spec)


def planned(spec: bytes) -> bool:
    """Whether a spec comes to plans, which the rules are asked of."""
    try:
        return bare(spec).plans > 0
    except SpecError:
        return False


@settings(SETTINGS, max_examples=30)
@given(st.one_of(gemms(), norms(), decodes()))
def test_a_counterexample_is_a_point_of_the_case_where_the_claim_fails(text: bytes) -> None:
    try:
        spec = load_bytes(text, "random.toml")
    except SpecError:
        return
    if any(not result.outcome.proved for result in settle_spec(spec)):
        return
    for _, results in settle(spec):
        for result in results:
            point, condition, claim = result.outcome.counterexample, result.case.condition, result.obligation.claim
            for name, value in point.items():
                assert name == "sm_count" or spec.dim(name).contains(value), f"{name} = {value} is not declared"
            if result.outcome.status is Status.REFUTED and free_names(condition) <= point.keys():
                assert evaluate(condition, point) is True
            if result.outcome.status is Status.REFUTED and not isinstance(claim, Pointwise):
                assert evaluate(claim, point) is False


@settings(SETTINGS, max_examples=8)
@given(st.one_of(gemms(), norms(), decodes()), st.one_of(gemms(), norms(), decodes()))
def test_what_was_checked_before_changes_nothing(spec: bytes, other: bytes) -> None:
    forgotten()
    alone = said(spec)
    forgotten()
    said(other)
    assert said(spec) == alone


ABOUT_THE_DOMAIN = {rule.code for rule in catalogue().values() if rule.some_shape}


@st.composite
def tightened(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A gemm with every tile value given, over a domain, and over a part of it."""
    low, step = draw(st.integers(1, 64)), draw(st.sampled_from([1, 2, 4, 8, 16, 64]))
    high = low + draw(st.integers(0, 9000))
    tile = {
        "BLOCK_M": draw(st.sampled_from([16, 64, 128, 192])),
        "BLOCK_N": draw(st.sampled_from([32, 64, 100, 128, 256])),
        "BLOCK_K": draw(st.sampled_from([16, 32, 64])),
        "threads": draw(st.sampled_from([64, 128, 256])),
        "stages": draw(st.integers(1, 6)),
        "policy": "square",
    }
    cut_low, cut_step = low + draw(st.integers(0, high - low)), step * draw(st.sampled_from([1, 2, 3]))
    rows, fewer = draw(st.integers(1, 2**32)), draw(st.integers(1, 2**32))
    dtype = draw(st.sampled_from(["float16", "int8", "float32"]))
    accum = "int32" if dtype == "int8" else "float32"
    arch = draw(st.sampled_from(["sm_80", "sm_90a", "gfx942"]))

    def spec(m: int, n: dict[str, int]) -> bytes:
        return to_toml(
            {
                "kernel": "random",
                "family": "gemm",
                "schedule": "plain",
                "dims": {"M": {"dynamic": True, "max": m}, "N": n, "K": {"values": [1024, 4096]}},
                "tensors": {
                    "a": {"shape": "M K", "dtype": dtype},
                    "b": {"shape": "N K", "dtype": "same_as(a)"},
                    "c": {"shape": "M N", "dtype": accum},
                },
                "compute": {"accum": accum, "c": "acc"},
                "tile": tile,
                "target": {arch: {}},
            }
        ).encode()

    whole = {"min": low, "max": high, "multiple_of": step}
    return spec(rows, whole), spec(min(rows, fewer), {"min": cut_low, "max": high, "multiple_of": cut_step})


@settings(SETTINGS, max_examples=25)
@given(tightened())
def test_tightening_a_domain_never_turns_proved_into_refuted(pair: tuple[bytes, bytes]) -> None:
    try:
        whole, part = map(bare, pair)
    except SpecError:
        return  # no multiple in the range
    for rule, counts in whole.rules.items():
        if counts["refuted"] == counts["undecided"] == 0 and rule not in ABOUT_THE_DOMAIN:
            assert part.rules.get(rule, {}).get("refuted", 0) == 0, rule


def test_an_undecided_obligation_is_reported_and_fails_only_under_strict() -> None:
    text = (Path(__file__).parent / "plain_gemm.toml").read_text(encoding="utf-8")
    for name in "NK":
        text = text.replace(
            f"{name} = {{ values = [1024, 4096, 8192] }}", f"{name} = {{ min = 1, max = 1_099_511_627_776 }}"
        )
    condition = "M ** 5 + K ** 5 != N ** 5 + 7 * M * K * N + 1"
    text = text.replace("BLOCK_N = 256", f'BLOCK_N = [{{ use = 256, when = "{condition}" }}]')
    verdict = check(load_bytes(text.encode(), "undecided.toml"))
    (found,) = verdict.diagnostics
    assert (found.code, found.severity) == ("TG-T2", Severity.UNDECIDED)
    assert "not settled: z3 reached its limit of work" in found.notes
    assert verdict.undecided > 0
    assert not verdict.fails(strict=False)
    assert verdict.fails(strict=True)
