"""The rendered schedules on the interpreter: right numbers, clean workspaces, no faults."""

import numpy
import pytest

from tests.families.gemm import RICH, TILES, gemm, module
from tilegen.interp import run

SMS = 6
N, K = 200, 264


def inputs(rows, a_transposed, b_transposed):
    random = numpy.random.RandomState(rows)
    a, b = random.standard_normal((rows, K)), random.standard_normal((K, N))
    return {
        "a": numpy.ascontiguousarray(a.T if a_transposed else a).astype(numpy.float16),
        "b": numpy.ascontiguousarray(b.T if b_transposed else b).astype(numpy.float16),
        "bias": random.standard_normal(N).astype(numpy.float16),
        "scale": random.standard_normal(rows).astype(numpy.float32),
        "residual": random.standard_normal((rows, N)).astype(numpy.float16),
        "alpha": 0.625,
    }


def expected(given, a_transposed, b_transposed):
    wide = {name: numpy.asarray(value, numpy.float64) for name, value in given.items()}
    a, b = wide["a"].T if a_transposed else wide["a"], wide["b"].T if b_transposed else wide["b"]
    return numpy.maximum(wide["alpha"] * (a @ b) * wide["scale"][:, None] + wide["bias"], 0) + wide["residual"]


def launch(kernel, rows, given, sm_count=SMS):
    """c of one launch, and its workspace. What is not written, and what the workspace starts with, is NaN."""
    tiles = kernel.tiles("sm_90a", rows, N, K, sm_count)
    arguments = dict(given)
    if tiles["schedule"] != "plain":
        arguments["blocks"] = kernel.blocks(rows, N, sm_count, **tiles)
    shape = kernel.workspace(arguments["blocks"], **tiles) if hasattr(kernel, "workspace") else None
    if shape is not None:
        arguments["partial"] = numpy.full(shape, numpy.nan, numpy.float32)
        arguments["arrived"] = numpy.zeros(shape[0] // 2, numpy.int32)
    result = run(kernel.build("sm_90a", "float16", N, K, **tiles), arguments)
    assert result.findings == []
    return result.outputs


@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("rows", [1, 150])
def test_a_schedule_gives_the_numbers_of_the_reference(tiles, rows, tmp_path):
    kernel = module(gemm(tiles, **RICH), tmp_path)
    given = inputs(rows, False, False)
    c = launch(kernel, rows, given)["c"]
    wanted = expected(given, False, False)
    numpy.testing.assert_allclose(c.astype(numpy.float64), wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize(("a", "b"), [("K M", "K N"), ("M K", "N K")])
def test_a_schedule_takes_transposed_operands(tiles, a, b, tmp_path):
    kernel = module(gemm(tiles, a=a, b=b, **RICH), tmp_path)
    rows = 72
    given = inputs(rows, a == "K M", b == "N K")
    c = launch(kernel, rows, given)["c"]
    numpy.testing.assert_allclose(
        c.astype(numpy.float64), expected(given, a == "K M", b == "N K"), rtol=2e-3, atol=2e-3
    )


@pytest.mark.parametrize("tiles", ["stream_k", "stream_k_wide", "skinny"])
@pytest.mark.parametrize("sm_count", [1, 7, 40])
def test_a_launch_leaves_the_counters_zero(tiles, sm_count, tmp_path):
    kernel = module(gemm(tiles, **RICH), tmp_path)
    given = inputs(33, False, False)
    outputs = launch(kernel, 33, given, sm_count)
    assert not outputs["arrived"].any()
    numpy.testing.assert_allclose(
        outputs["c"].astype(numpy.float64), expected(given, False, False), rtol=2e-3, atol=2e-3
    )


def test_a_formula_that_is_the_accumulator_has_no_epilogue(tmp_path):
    kernel = module(gemm("stream_k", formula="acc"), tmp_path)
    assert not hasattr(kernel, "epilogue")
    given = {name: value for name, value in inputs(20, False, False).items() if name in ("a", "b")}
    c = launch(kernel, 20, given)["c"]
    wanted = given["a"].astype(numpy.float64) @ given["b"].astype(numpy.float64)
    numpy.testing.assert_allclose(c.astype(numpy.float64), wanted, rtol=2e-3, atol=2e-3)
