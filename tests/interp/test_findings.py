"""What a finding and a refusal say of the place in the source."""

from pathlib import Path

import pytest
import tilelang.language as T

from tilegen.interp import UnsupportedError, run


def refused_at_run_time():
    @T.prim_func
    def main(A: T.Tensor((2, 64), "float32"), B: T.Tensor((2, 64), "float32")):
        with T.Kernel(1, threads=64) as _:
            tile = T.alloc_shared((64,), "float32")
            tx = T.get_thread_binding()
            for k in T.serial(tx % 2 + 1):
                T.copy(A[k, 0], tile)  # the line that the refusal names
            T.copy(tile, B[0, 0])

    return main


def line_of(comment):
    text = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(text, 1) if line.endswith("# " + comment))


def test_a_refusal_names_the_line_of_the_source(normal):
    with pytest.raises(UnsupportedError, match=f"test_findings.py:{line_of('the line that the refusal names')}: "):
        run(refused_at_run_time(), {"A": normal(2, 64)})


def adds_to_nothing(operation):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_shared((64, 64), "float16")
            total = T.alloc_fragment((64, 64), "float32")
            peak = T.alloc_fragment((64,), "float32")
            T.copy(A, a)
            T.gemm(a, a, total, clear_accum=operation != "gemm")
            T.reduce_max(total, peak, dim=1, clear=operation != "reduce")
            T.copy(total, B)
            T.copy(peak, C)

    return main


@pytest.mark.parametrize(("operation", "mend"), [("gemm", "clear_accum=True"), ("reduce", "leave clear=True")])
def test_a_finding_says_what_to_do(normal, operation, mend):
    found = run(adds_to_nothing(operation), {"A": normal(64, 64, dtype="float16")}).findings[0]
    assert found.kind == "uninitialised-read"
    assert mend in found.message
