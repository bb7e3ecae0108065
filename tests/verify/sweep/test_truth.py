"""A small fixed sample, compiled for real: the verdicts and facts of the checker are what the compiler shows."""

import shutil

import pytest

from tilegen.verify.sweep.draw import draw
from tilegen.verify.sweep.judge import judge
from tilegen.verify.sweep.observe import Store, observe_all
from tilegen.verify.sweep.predict import predict
from tilegen.verify.sweep.tally import PATH, SHARED, tally

SEED = 0
SAMPLES = {
    ("gemm", "sm_90a"): (7, 9),
    ("gemm", "sm_80"): (19, 3),
    ("attention", "sm_90a"): (483, 13),
    ("attention", "sm_80"): (1, 19),
    ("row_norm", "sm_90a"): (3, 63),
    ("row_norm", "sm_80"): (11, 7),
}
"""An accepted and a rejected one of each set. Odd numbers: those are not moved to a limit, so they stay what they are."""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_the_compiler_agrees_with_the_checker_on_a_fixed_sample(tmp_path):
    predictions = [
        predict(draw(family, arch, SEED, index)) for (family, arch), indices in SAMPLES.items() for index in indices
    ]
    jobs = {
        p.program.digest: {"source": p.program.source, "key": p.program.key, "arch": p.program.arch}
        for p in predictions
    }
    store = Store(tmp_path)
    assert observe_all(jobs, store, workers=2, together=6) == 0
    found = tally(judge(p, store.known[p.program.digest]) for p in predictions)
    assert found.accepted_but_failed == []
    assert found.rejected_yet_fine == []
    assert found.disagreeing(*SHARED) == []
    assert found.disagreeing(*PATH) == []
    assert len(found.accepted) >= 5
    assert len(found.rejected) >= 5
