"""What is said of a sample before any compiler sees it."""

from tilegen.verify.sweep.draw import draw
from tilegen.verify.sweep.predict import predict


def test_a_rejected_sample_has_a_program_too():
    found = [predict(draw("gemm", "sm_90a", 7, index)) for index in range(12)]
    assert any(not entry.verdict.accepted for entry in found)
    assert all(entry.program is not None and entry.kernels for entry in found)
