"""One block, one element: what is printed, in which order."""

import numpy as np
import pytest

from tests.interp.kernels import gemm_relu
from tests.interp.test_roles import RING, producer_consumer
from tests.interp.test_threads import saxpy
from tilegen.interp import InvalidKernelError, run


def trace(function, inputs, **options):
    lines: list[str] = []
    run(function, inputs, print_line=lines.append, **options)
    return lines


def test_each_write_to_a_watched_element_is_printed_in_order(normal):
    a, b = normal(130, 128, dtype="float16"), normal(128, 128, dtype="float16")
    lines = trace(gemm_relu(128, 128), {"A": a, "B": b}, block=(0, 1), watches=[("acc", (1, 7)), ("C", (129, 7))])
    first = a[129, :64].astype(np.float32) @ b[:64, 7].astype(np.float32)
    total = a[129].astype(np.float32) @ b[:, 7].astype(np.float32)
    assert [line.split("`")[1].split("(")[0] for line in lines[:3]] == ["T.fill", "T.gemm", "T.gemm"]
    assert "k = 0: acc[1, 7] = " in lines[1]
    values = [float(line.split("acc[1, 7] = ")[1].split()[0]) for line in lines[:3]]
    assert np.allclose(values, [0, first, total], atol=1e-3)
    assert lines[-1].startswith("block (0, 1): C[129, 7] = ")


def test_a_single_block_leaves_the_rest_unwritten(normal):
    a, b = normal(200, 128, dtype="float16"), normal(128, 256, dtype="float16")
    result = run(gemm_relu(256, 128), {"A": a, "B": b}, block=(1, 0))
    whole = run(gemm_relu(256, 128), {"A": a, "B": b})
    assert np.array_equal(result.outputs["C"][:128, 128:], whole.outputs["C"][:128, 128:])
    assert np.isnan(result.outputs["C"][128:]).all()
    assert result.errors == []


def test_the_copies_of_threads_are_shown_together(normal):
    lines = trace(saxpy(64), {"X": normal(64), "Y": normal(64), "a": 1.0}, watches=[("Z", (3,))])
    assert len(lines) == 1
    assert "Z[3] = " in lines[0]


def test_a_role_is_named_by_its_threads():
    lines = trace(producer_consumer(), RING, watches=[("total", (0, 0))])
    assert len(lines) == 7
    assert all("threads 0 to 127: total[0, 0]" in line for line in lines)


def test_a_watch_that_names_nothing_is_refused(normal):
    inputs = {"X": normal(64), "Y": normal(64), "a": 1.0}
    with pytest.raises(InvalidKernelError, match="there is no buffer 'W'; there are X, Y, Z"):
        run(saxpy(64), inputs, watches=[("W", (0,))])
    with pytest.raises(InvalidKernelError, match=r"has no element \[64\]"):
        run(saxpy(64), inputs, watches=[("Z", (64,))])
    with pytest.raises(InvalidKernelError, match=r"no block \(9,\): the grid is \(1,\)"):
        run(saxpy(64), inputs, block=(9,))
