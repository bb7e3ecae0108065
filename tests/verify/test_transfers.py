"""How the tiles of a gemm move, by hand."""

import pytest

from tests.families.gemm import gemm
from tilegen.plan.build import dtype_bindings, plan_of
from tilegen.plan.cases import cases
from tilegen.verify.transfers import transfers


def moved(spec, arch, n, k):
    (case,) = cases(spec, arch)
    plan = plan_of(spec, arch, dtype_bindings(spec)[0], case)
    return [
        (transfer.tensor, transfer.path, transfer.vector_bytes)
        for transfer in transfers(plan, plan.kernels[0], {"N": n, "K": k, "M": 4096})
    ]


@pytest.mark.parametrize(
    ("arch", "n", "k", "expected"),
    [
        ("sm_90a", 200, 264, [("a", "tma", None), ("b", "tma", None), ("c", "tma", None)]),
        # Rows of 265 float16 start at odd multiples of 2 bytes.
        ("sm_90a", 200, 265, [("a", "plain", 2), ("b", "tma", None), ("c", "tma", None)]),
        ("sm_80", 200, 264, [("a", "cp_async", 16), ("b", "cp_async", 16), ("c", "plain", 16)]),
        # Rows of 202 float16 are a multiple of 4 bytes, those of 265 of 2.
        ("sm_80", 202, 265, [("a", "plain", 2), ("b", "cp_async", 4), ("c", "plain", 4)]),
    ],
)
def test_tiles_of_a_plain_gemm_move_as_their_rows_allow(arch, n, k, expected):
    assert moved(gemm("plain", n=n, k=k, arch=arch), arch, n, k) == expected
