"""Explicit layouts change no value; each kernel against numpy, and a layout that is wrong is said to be."""

import numpy as np
import pytest
import tilelang.language as T

from tests.interp import fragment_layout_kernels, layout_kernels
from tests.interp.kernel_cases import VALUES, Case, assert_fault_is_seen, assert_lowers, assert_right
from tilegen.interp import run


def wide(array):
    return array.astype(np.float64)


def softmax(x):
    weights = np.exp(wide(x) - x.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def inputs(**shapes):
    """Each argument's shape and dtype: ``X=(64, 32, "float16")``."""
    return lambda normal, rng: {name: normal(*shape[:-1], dtype=shape[-1]) for name, shape in shapes.items()}


def turned(x):
    return wide(x).T


HALF, SINGLE = inputs(X=(100, 70, "float16")), inputs(X=(100, 70, "float32"))
CASES = {
    "full_swizzle": Case(layout_kernels.full_swizzle, HALF, turned, VALUES),
    "half_swizzle": Case(layout_kernels.half_swizzle, HALF, turned, VALUES),
    "quarter_swizzle": Case(layout_kernels.quarter_swizzle, HALF, turned, VALUES),
    "padded_pitch": Case(layout_kernels.padded_pitch, SINGLE, turned, "layout"),
    "by_columns": Case(layout_kernels.by_columns, SINGLE, turned, "layout"),
    "own_swizzle": Case(layout_kernels.own_swizzle, SINGLE, turned, "layout"),
    "in_blocks": Case(layout_kernels.in_blocks, HALF, turned, "layout"),
    "repeated_atom": Case(layout_kernels.repeated_atom, SINGLE, turned, "layout"),
    "wgmma_operands": Case(
        layout_kernels.wgmma_operands,
        inputs(A=(128, 128, "float16"), B=(128, 128, "float16")),
        lambda a, b: wide(a) @ wide(b),
        "uninitialised-read",
        tolerance=1e-5,
    ),
    "unswizzled_operands": Case(
        layout_kernels.unswizzled_operands,
        inputs(A=(32, 64, "float16"), B=(64, 64, "float16")),
        lambda a, b: wide(a) @ wide(b),
        VALUES,
        tolerance=1e-5,
    ),
    "staged_tiles": Case(
        layout_kernels.staged_tiles, inputs(X=(128, 64, "float16")), lambda x: x * np.float16(2), VALUES
    ),
    "swizzled_epilogue": Case(
        layout_kernels.swizzled_epilogue,
        inputs(A=(64, 64, "bfloat16"), B=(128, 64, "bfloat16")),
        lambda a, b: wide(a) @ wide(b).T,
        "uninitialised-read",
    ),
    "row_to_a_thread": Case(fragment_layout_kernels.row_to_a_thread, inputs(X=(64, 16, "float32")), softmax, "layout"),
    "column_to_a_thread": Case(
        fragment_layout_kernels.column_to_a_thread,
        inputs(X=(16, 128, "float32")),
        lambda x: wide(x).sum(0),
        "uninitialised-read",
    ),
    "vectors_of_four": Case(
        fragment_layout_kernels.vectors_of_four,
        inputs(X=(16, 64, "float16")),
        lambda x: wide(x) ** 2 + 1,
        "layout",
    ),
    "replicated_weights": Case(
        fragment_layout_kernels.replicated_weights,
        inputs(X=(64, 32, "float32"), W=(4, "float32")),
        lambda x, w: np.polynomial.polynomial.polyval(wide(x), wide(w)),
        "uninitialised-read",
        tolerance=1e-5,
    ),
    "replicated_rows": Case(
        fragment_layout_kernels.replicated_rows,
        inputs(X=(32, 64, "float32"), scale=(32, "float32")),
        lambda x, scale: x * scale[:, None],
        "layout",
    ),
    "stored_accumulator": Case(
        fragment_layout_kernels.stored_accumulator,
        inputs(X=(64, 32, "float16")),
        lambda x: np.maximum(x, 0),
        "layout",
    ),
    "pinned_reducer": Case(
        fragment_layout_kernels.pinned_reducer,
        inputs(X=(8, 128, "float32")),
        lambda x: wide(x).sum(1),
        VALUES,
        tolerance=1e-5,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_with_an_explicit_layout_gives_the_numbers_of_its_reference(normal, rng, name):
    assert_right(CASES[name], normal, rng)


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_in_a_layout_or_round_it_is_seen(normal, rng, name):
    assert_fault_is_seen(CASES[name], normal, rng)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_tilelang_lowers_the_kernel_with_an_explicit_layout(name):
    assert_lowers(CASES[name])


MESSAGES = {
    "padded_pitch": "tile puts tile[1, 0] where tile[0, 31] is, at 31",
    "by_columns": "tile puts tile[0, 0] ahead of its memory, at -32",
    "own_swizzle": "tile puts tile[1, 4] where tile[1, 0] is, at 36",
    "in_blocks": "tile puts tile[0, 1] where tile[0, 0] is, at 0, 0, 0, 0",
    "repeated_atom": "tile is for a tile of (16, 32); tile has the shape (32, 32)",
    "row_to_a_thread": "x puts x[32, 0] into thread 32 of a block of 32",
    "vectors_of_four": "x puts x[8, 0] where x[0, 0] is, at 0 of thread 0",
    "replicated_rows": "factor puts factor[0] twice at 0 of thread 0: its replicas need threads of their own",
    "stored_accumulator": "x is for a tile of (128, 32); x has the shape (64, 32)",
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_wrong_layout_is_said_with_the_element_and_its_place(normal, rng, name):
    case = CASES[name]
    (finding,) = run(case.factory(fault=True), case.inputs(normal, rng)).errors
    assert finding.message == f"the layout of {MESSAGES[name]}"


def test_without_diagnostics_no_layout_is_checked(normal, rng):
    case = CASES["padded_pitch"]
    assert run(case.factory(fault=True), case.inputs(normal, rng), diagnostics=False).findings == []


def shifted_by_block():
    @T.prim_func
    def main(X: T.Tensor((8, 8), "float32"), Y: T.Tensor((8, 8), "float32")):
        with T.Kernel(1, threads=32) as b:
            tile = T.alloc_shared((8, 8), "float32")
            T.annotate_layout({tile: lambda i, j: i * 8 + j + b})
            T.copy(X, tile)
            T.copy(tile, Y)

    return main


def test_a_layout_that_names_a_block_is_left_unchecked(clean, normal):
    x = normal(8, 8)
    assert np.array_equal(clean(shifted_by_block(), {"X": x}), x)
