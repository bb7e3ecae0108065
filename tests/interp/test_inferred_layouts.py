"""Fragments that TileLang lays out by a loop over a part of them.

On an H200 those that keep every element give the interpreter's numbers; those that lose some leave half of the output unwritten
where half is covered (for three quarters, the registers that TileLang allots were counted).
"""

import numpy as np
import pytest
import tilelang
import tilelang.language as T

from tilegen.interp import run


def between_copies(touch, threads=128):
    """A fragment is loaded, ``touch`` gets at a part of it, and all of it is stored."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=threads) as _:
            x = T.alloc_fragment((64, 64), "float32")
            T.copy(A, x)
            touch(x, C)
            T.copy(x, C)

    return main


def scaled_part(rows, columns, threads=128):
    """Only ``rows`` x ``columns`` of the fragment are scaled."""

    @T.macro
    def scale(x, C):
        for i, j in T.Parallel(rows, columns):
            x[i, j] = x[i, j] * 2

    return between_copies(scale, threads)


@T.macro
def scale_where(x, C):
    for i, j in T.Parallel(64, 64):
        if j < 32:
            x[i, j] = x[i, j] * 2


@T.macro
def fill_part(x, C):
    T.fill(x[:, 0:32], 0)


@T.macro
def store_part_then_all(x, C):
    for i, j in T.Parallel(64, 32):
        C[i, j] = x[i, j] * 2
    for i, j in T.Parallel(64, 64):
        C[i, j] = x[i, j]


@T.macro
def lay_out_and_scale(x, C):
    T.annotate_layout(
        {
            x: tilelang.layout.Fragment(
                (64, 64), forward_thread_fn=lambda i, j: i * 2 + j // 32, forward_index_fn=lambda i, j: j % 32
            )
        }
    )
    for i, j in T.Parallel(64, 32):
        x[i, j] = x[i, j] * 2


def part_never_read():
    """Half of the fragment is loaded and not used: losing it changes nothing."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), C: T.Tensor((64, 32), "float32")):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((64, 64), "float32")
            T.copy(A, x)
            for i, j in T.Parallel(64, 32):
                C[i, j] = x[i, j] * 2

    return main


def part_of_an_accumulator():
    """A product decides the layout of its accumulator, whatever else covers a part of it."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_shared((64, 64), "float16")
            x = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.gemm(a, a, x, clear_accum=True)
            for i, j in T.Parallel(64, 32):
                x[i, j] = x[i, j] * 2
            T.copy(x, C)

    return main


def part_of_a_vector():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((64,), "float32")
            T.copy(A, x)
            for i in T.Parallel(32):
                x[i] = 1.0
            T.copy(x, C)

    return main


LOST = {
    "half of the columns": (scaled_part(64, 32), (0, 32), "(64, 32)"),
    "half of the rows": (scaled_part(32, 64), (32, 0), "(32, 64)"),
    "three quarters of the rows": (scaled_part(48, 64), (48, 0), "(48, 64)"),
    "three quarters of the columns": (scaled_part(64, 48), (0, 48), "(64, 48)"),
    "on 256 threads": (scaled_part(64, 32, threads=256), (0, 32), "(64, 32)"),
    "only read by the loop": (between_copies(store_part_then_all), (0, 32), "(64, 32)"),
}
KEPT = {
    "a loop that no layout of its own fits": scaled_part(64, 63),
    "a condition inside": between_copies(scale_where),
    "a part filled": between_copies(fill_part),
    "a part that is not read": part_never_read(),
    "an accumulator": part_of_an_accumulator(),
    "an explicit layout": between_copies(lay_out_and_scale),
    "a vector shorter than the block": part_of_a_vector(),
}


def inputs_of(function):
    return {"A": next(tuple(map(int, buffer.shape)) for buffer in function.buffer_map.values() if buffer.name == "A")}


@pytest.mark.parametrize("name", LOST)
def test_elements_that_an_inferred_layout_has_no_place_for_are_found(name):
    function, index, covered = LOST[name]
    (finding,) = run(function, inputs_of(function)).errors
    assert (finding.kind, finding.buffer, finding.index) == ("layout", "x", index)
    assert f"TileLang lays x (64, 64) out by a loop over {covered} of it" in finding.message
    assert finding.place.startswith("tests/interp/test_inferred_layouts.py:")
    assert finding.operation.startswith("x[i, j]" if name != "only read by the loop" else "x[")


@pytest.mark.parametrize("name", KEPT)
def test_nothing_is_found_where_every_element_that_is_read_has_a_place(name):
    function = KEPT[name]
    assert run(function, inputs_of(function)).findings == []


def test_values_do_not_depend_on_the_layout():
    a = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    output = run(scaled_part(64, 32), {"A": a}).outputs["C"]
    assert np.array_equal(output, np.hstack([a[:, :32] * 2, a[:, 32:]]))
