"""What becomes of a program, from what was observed of it."""

import pytest

from tilegen.targets import target
from tilegen.verify.sweep.draw import Sample, Verdict
from tilegen.verify.sweep.judge import FINE, REFUSED, UNCOMPILED, UNFIT, compiles, judge, outcome_of
from tilegen.verify.sweep.predict import Prediction

SM80 = target("sm_80")


def observed(*, threads=128, dynamic=0, static=0, registers=64):
    return {
        "kernels": [{"name": "k", "threads": threads, "dynamic_bytes": dynamic}],
        "ptxas": {"kernels": {"k": {"registers": registers, "static_shared_memory": static, "spill_bytes": 0}}},
    }


@pytest.mark.parametrize(
    ("seen", "outcome", "reason"),
    [
        ({"error": "no available layout"}, REFUSED, "no available layout"),
        ({"kernels": [], "ptxas": {"error": "static assertion"}}, UNCOMPILED, "static assertion"),
        (observed(dynamic=166_912), FINE, ""),
        (observed(dynamic=165_889, static=1024), UNFIT, "k: 165889 + 1024 bytes of shared memory"),
        (observed(threads=1056, registers=32), UNFIT, "k: 1056 threads"),
        # 64 x 1024 is all of the register file; 65 are rounded up to 72.
        (observed(threads=1024, registers=64), FINE, ""),
        (observed(threads=1024, registers=65), UNFIT, "k: 65 registers over 1024 threads"),
    ],
)
def test_an_outcome_is_the_first_thing_that_stops_a_program(seen, outcome, reason):
    assert outcome_of(seen, SM80) == (outcome, reason)


def test_a_rejected_spec_is_refused_where_any_program_of_it_is():
    prediction = Prediction(Sample("gemm", "sm_80", 0, 0, ""), Verdict(("TG-F1",), ()), (), None)
    assert judge(prediction, observed(), [observed()])["outcome"] == FINE
    row = judge(prediction, observed(), [observed(), {"error": "no available layout"}])
    assert (row["outcome"], row["reason"]) == (REFUSED, "no available layout")
    assert judge(prediction, {"error": "first"}, [])["reason"] == "first"


def test_what_is_not_observed_does_not_compile():
    assert compiles(observed(), "sm_80")
    assert not compiles(None, "sm_80")
    assert not compiles({"error": "no"}, "sm_80")
