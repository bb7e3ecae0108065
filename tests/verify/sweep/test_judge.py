"""What becomes of a program, from what was observed of it."""

import pytest

from tilegen.targets import target
from tilegen.verify.sweep.judge import FINE, REFUSED, UNCOMPILED, UNFIT, outcome_of

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
