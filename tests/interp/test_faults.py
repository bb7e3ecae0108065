"""Planted faults: each is caught with the right message, at the right operation, and its right twin is silent."""

from __future__ import annotations

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import run
from tilegen.interp.reference import compare


def gemm(fault=None, M=64, N=64, K=96):
    rows = 128 if fault == "off-by-one tile" else 64

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            A_shared = T.alloc_shared((64, 32), "float16")
            B_shared = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            if fault != "missing clear":
                T.clear(acc)
            for k in T.serial(T.ceildiv(K, 32)):
                T.copy(A[by * 64, k * 32], A_shared)
                if fault == "read before write":
                    T.gemm(A_shared, B_shared, acc)
                    T.copy(B[k * 32, bx * 64], B_shared)
                else:
                    T.copy(B[k * 32, bx * 64], B_shared)
                    T.gemm(A_shared, B_shared, acc)
            for i, j in T.Parallel(rows, 64):
                C[by * 64 + i, bx * 64 + j] = acc[i, j]

    return main


def square_tiles(fault=None):
    """A product whose tiles of B are square, so that a wrong transpose fits too."""

    @T.prim_func
    def main(A: T.Tensor((64, 96), "float16"), B: T.Tensor((96, 32), "float16"), C: T.Tensor((64, 32), "float32")):
        with T.Kernel(1, threads=128) as _:
            A_shared = T.alloc_shared((64, 32), "float16")
            B_shared = T.alloc_shared((32, 32), "float16")
            acc = T.alloc_fragment((64, 32), "float32")
            T.clear(acc)
            for k in T.serial(3):
                T.copy(A[0, k * 32], A_shared)
                T.copy(B[k * 32, 0], B_shared)
                T.gemm(A_shared, B_shared, acc, transpose_B=fault == "wrong transpose")
            T.copy(acc, C)

    return main


def row_norm(fault=None, columns=128):
    rows = T.dynamic("M")
    eps = 0.0 if fault == "no epsilon" else 1e-5

    @T.prim_func
    def main(X: T.Tensor((rows, columns), "float16"), Y: T.Tensor((rows, columns), "float16")):
        with T.Kernel(T.ceildiv(rows, 16), threads=128) as b:
            x = T.alloc_fragment((16, columns), "float32")
            square = T.alloc_fragment((16, columns), "float16" if fault == "narrow squares" else "float32")
            total = T.alloc_fragment((16,), "float32")
            T.copy(X[b * 16, 0], x)
            for i, j in T.Parallel(16, columns):
                square[i, j] = x[i, j] * x[i, j]
            if fault != "missing reduction":
                T.reduce_sum(square, total, dim=1)
            for i, j in T.Parallel(16, columns):
                if fault == "row index over the tile":
                    x[i, j] = x[i, j] * T.rsqrt(total[i + 1] / columns + eps)
                else:
                    x[i, j] = x[i, j] * T.rsqrt(total[i] / columns + eps)
            if fault == "half of the rows":
                T.copy(x[0:8, :], Y[b * 16 : b * 16 + 8, :])
            else:
                T.copy(x, Y[b * 16, 0])

    return main


def softmax(fault=None, rows=16, columns=200):
    """Online softmax over column blocks of 64."""

    @T.prim_func
    def main(X: T.Tensor((rows, columns), "float32"), Y: T.Tensor((rows,), "float32")):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((rows, 64), "float32")
            high = T.alloc_fragment((rows,), "float32")
            previous = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            part = T.alloc_fragment((rows,), "float32")
            T.fill(high, -T.infinity("float32"))
            T.clear(total)
            for k in T.serial(T.ceildiv(columns, 64)):
                T.copy(X[0, k * 64], x)
                if fault != "missing tail mask":
                    for i, j in T.Parallel(rows, 64):
                        x[i, j] = T.if_then_else(k * 64 + j < columns, x[i, j], -T.infinity("float32"))
                if fault != "stale running maximum":
                    T.copy(high, previous)
                T.reduce_max(x, high, dim=1, clear=False)
                for i, j in T.Parallel(rows, 64):
                    x[i, j] = T.exp(x[i, j] - high[i])
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(rows):
                    total[i] = total[i] * T.exp(previous[i] - high[i]) + part[i]
            for i in T.Parallel(rows):
                Y[i] = T.log(total[i]) + high[i]

    return main


def windows(fault=None):
    """Rows of which some have no visible key: the running maximum stays at minus infinity."""

    @T.prim_func
    def main(X: T.Tensor((32, 32), "float32"), Y: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((32, 32), "float32")
            high = T.alloc_fragment((32,), "float32")
            T.copy(X, x)
            for i, j in T.Parallel(32, 32):
                x[i, j] = T.if_then_else(i >= 4 and j <= i, x[i, j], -T.infinity("float32"))
            T.reduce_max(x, high, dim=1)
            if fault is None:
                for i in T.Parallel(32):
                    high[i] = T.if_then_else(high[i] == -T.infinity("float32"), 0.0, high[i])
            for i, j in T.Parallel(32, 32):
                Y[i, j] = T.exp(x[i, j] - high[i])

    return main


def scatter(fault=None):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                if fault == "double write":
                    B[i // 2] = A[i]
                else:
                    B[63 - i] = A[i]

    return main


def row_and_column(fault=None):
    @T.prim_func
    def main(A: T.Tensor((16, 32), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=64) as _:
            row = T.alloc_shared((16,), "float32")
            for i, j in T.Parallel(16, 32):
                if fault == "double write of a row" or j == 0:
                    row[i] = A[i, j]
            T.copy(row, B)

    return main


def overlapping_blocks(fault=None):
    width = 24 if fault == "overlapping blocks" else 16

    @T.prim_func
    def main(A: T.Tensor((4, 64), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(4, threads=32) as b:
            for i in T.Parallel(width):
                B[b * 16 + i] = A[b, i]

    return main


def block_reads_neighbour(fault=None):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), W: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(4, threads=32) as b:
            for i in T.Parallel(16):
                W[b * 16 + i] = A[b * 16 + i] * 2
            if fault == "read of another block":
                for i in T.Parallel(16):
                    B[b * 16 + i] = W[(b * 16 + i + 48) % 64]
            else:
                for i in T.Parallel(16):
                    B[b * 16 + i] = W[b * 16 + i]

    return main


def sums_without_atomics(fault=None):
    @T.prim_func
    def main(A: T.Tensor((4, 64), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(4, threads=64) as b:
            for i in T.Parallel(64):
                if fault == "sum without atomic":
                    B[i] = B[i] + A[b, i]
                else:
                    T.atomic_add(B[i], A[b, i])

    return main


def reshape(fault=None):
    @T.prim_func
    def main(A: T.Tensor((16, 32), "float32"), B: T.Tensor((32, 16), "float32")):
        with T.Kernel(1, threads=64) as _:
            tile = T.alloc_shared((16, 32), "float32")
            T.copy(A, tile)
            if fault == "reshape for a transpose":
                T.copy(T.reshape(tile, (32, 16)), B)
            else:
                for i, j in T.Parallel(32, 16):
                    B[i, j] = tile[j, i]

    return main


def big_index(fault=None):
    """The index of a row times a stride that does not fit in 32 bits."""
    factor = 1 << 28 if fault == "index overflow" else 1

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(64, threads=32) as b:
            B[b] = A[(b * factor) // factor]

    return main


def stage_index(fault=None):
    """A ring of two stages whose index is not taken modulo two."""

    @T.prim_func
    def main(A: T.Tensor((4, 16, 32), "float32"), B: T.Tensor((4, 16, 32), "float32")):
        with T.Kernel(1, threads=64) as _:
            ring = T.alloc_shared((2, 16, 32), "float32")
            for k in T.serial(4):
                if fault == "stage not wrapped":
                    T.copy(A[k, :, :], ring[k, :, :])
                    T.copy(ring[k, :, :], B[k, :, :])
                else:
                    T.copy(A[k, :, :], ring[k % 2, :, :])
                    T.copy(ring[k % 2, :, :], B[k, :, :])

    return main


def wrong_device_assert(fault=None):
    limit = 50 if fault == "failed assert" else 64

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(64, threads=32) as b:
            T.device_assert(b < limit)
            B[b] = A[b]

    return main


def divides_by_a_count(fault=None):
    shift = 0 if fault == "division by zero" else 1

    @T.prim_func
    def main(counts: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                B[i] = 100 // (counts[i] + shift)

    return main


def logarithm(fault=None):
    @T.prim_func
    def main(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=64) as _:
            a = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            for i, j in T.Parallel(32, 32):
                if fault == "logarithm of a negative number":
                    a[i, j] = T.log(a[i, j])
                else:
                    a[i, j] = T.log(T.abs(a[i, j]) + 1)
            for i, j in T.Parallel(32, 32):
                B[i, j] = a[i, j] * 2

    return main


def barrier_between_threads(fault=None):
    """Threads that read what their neighbour wrote; the kernel places its barriers itself."""

    @T.prim_func
    def main(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
        T.annotate_pass_configs({"tl.disable_thread_storage_sync": True})
        with T.Kernel(1, threads=256) as _:
            tx = T.get_thread_binding()
            low = T.alloc_shared((128,), "float32")
            high = T.alloc_shared((128,), "float32")
            if tx < 128:
                T.copy(A[0:128], low)
                if fault is None:
                    T.sync_threads(9, 256)
                T.copy(high, B[0:128])
            else:
                T.copy(A[128:256], high)
                if fault is None:
                    T.sync_threads(9, 256)
                T.copy(low, B[128:256])

    return main


def shifted(fault=None):
    """A row shifted by one: in place, each iteration reads what its neighbour writes."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            row = T.alloc_shared((64,), "float32")
            moved = T.alloc_shared((64,), "float32")
            T.copy(A, row)
            if fault == "shift in place":
                for i in T.Parallel(64):
                    row[i] = row[(i + 1) % 64]
                T.copy(row, B)
            else:
                for i in T.Parallel(64):
                    moved[i] = row[(i + 1) % 64]
                for i in T.Parallel(32):
                    moved[i] = moved[i + 32] + moved[i]
                T.copy(moved, B)

    return main


NORMAL = np.random.default_rng(3).standard_normal


def half(*shape):
    return NORMAL(shape).astype(np.float16)


def single(*shape):
    return NORMAL(shape).astype(np.float32)


SQUARE = {"A": half(64, 96), "B": half(96, 32)}
GEMM_INPUTS = {"A": half(64, 96), "B": half(96, 64)}
A64 = {"A": single(64)}
#: kernel, fault, inputs, kind of the finding, a part of its message, a part of the operation.
CAUGHT = [
    (gemm, "missing clear", GEMM_INPUTS, "uninitialised-read", "acc[0, 0] (local.fragment) is read before", "T.gemm"),
    (gemm, "read before write", GEMM_INPUTS, "uninitialised-read", "B_shared[0, 0] (shared.dyn) is read", "T.gemm"),
    (gemm, "off-by-one tile", GEMM_INPUTS, "out-of-bounds", "acc[64, 0] is outside its shape (64, 64)", "C[by * 64"),
    (row_norm, "missing reduction", {"X": half(40, 128)}, "uninitialised-read", "total[0]", "rsqrt(total"),
    (
        row_norm,
        "row index over the tile",
        {"X": half(40, 128)},
        "out-of-bounds",
        "total[16] is outside its shape (16)",
        "rs",
    ),
    (row_norm, "half of the rows", {"X": half(48, 128)}, "unwritten-output", "Y[8, 0] is never written", ""),
    (row_norm, "no epsilon", {"X": half(40, 128) * 0}, "non-finite", "becomes nan", "rsqrt"),
    (row_norm, "narrow squares", {"X": half(40, 128) * 0 + 300}, "non-finite", "becomes inf", "square[i, j]"),
    (softmax, "stale running maximum", {"X": single(16, 200)}, "uninitialised-read", "previous[0]", "total[i]"),
    (windows, "no guard", {"X": single(32, 32)}, "non-finite", "high[i] = -inf", "T.exp(x[i, j] - high[i])"),
    (scatter, "double write", A64, "double-write", "written by two iterations", "B[i // 2]"),
    (row_and_column, "double write of a row", {"A": single(16, 32)}, "double-write", "row[0] (shared.dyn)", "row[i]"),
    (shifted, "shift in place", A64, "iteration-race", "is read by one iteration", "row[i] = row["),
    (
        overlapping_blocks,
        "overlapping blocks",
        {"A": single(4, 64)},
        "block-race",
        "another value than block (0,) wrote",
        "B[",
    ),
    (block_reads_neighbour, "read of another block", A64, "block-race", "written by block (0,) with nothing", "W["),
    (
        sums_without_atomics,
        "sum without atomic",
        {"A": single(4, 64), "B": single(64)},
        "block-race",
        "B[0]",
        "B[i] + ",
    ),
    (big_index, "index overflow", A64, "index-overflow", "which int32 cannot hold", "B[bx]"),
    (
        stage_index,
        "stage not wrapped",
        {"A": single(4, 16, 32)},
        "out-of-bounds",
        "ring[2:3, 0:16, 0:32] leaves",
        "ring[k",
    ),
    (wrong_device_assert, "failed assert", A64, "failed-assert", "is false", "condition"),
    (
        divides_by_a_count,
        "division by zero",
        {"counts": np.arange(64, dtype=np.int32)},
        "division-by-zero",
        "int32",
        "100",
    ),
    (logarithm, "logarithm of a negative number", {"A": single(32, 32)}, "non-finite", "from a[i, j] = -", "T.log(a"),
    (
        barrier_between_threads,
        "no barrier",
        {"A": single(256)},
        "shared-race",
        "no barrier after threads 0 to 127",
        "T.copy",
    ),
]


@pytest.mark.parametrize(
    ("kernel", "fault", "inputs", "kind", "message", "operation"), CAUGHT, ids=[row[1] for row in CAUGHT]
)
def test_a_planted_fault_is_caught_with_its_place(kernel, fault, inputs, kind, message, operation):
    found = [finding for finding in run(kernel(fault), inputs).findings if finding.kind == kind]
    assert found, [str(finding) for finding in run(kernel(fault), inputs).findings]
    assert message in found[0].message
    assert operation in found[0].operation


RIGHT = {
    kernel.__name__: (kernel, inputs)
    for kernel, fault, inputs, *_ in CAUGHT
    if fault not in ("no epsilon", "narrow squares")
}


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_found_in_the_right_kernel(name):
    kernel, inputs = RIGHT[name]
    assert [str(finding) for finding in run(kernel(), inputs).findings] == []


#: Faults that give wrong numbers and nothing else: the reference finds them.
def _log_sum_exp(x):
    return np.log(np.exp(x.astype(np.float64)).sum(1))


X = single(16, 200)
NUMBERS = [
    (square_tiles, "wrong transpose", SQUARE, "C", SQUARE["A"].astype(float) @ SQUARE["B"].astype(float)),
    (softmax, "missing tail mask", {"X": X}, "Y", _log_sum_exp(X)),
    (reshape, "reshape for a transpose", {"A": single(16, 32)}, "B", None),
]


@pytest.mark.parametrize(("kernel", "fault", "inputs", "output", "expected"), NUMBERS, ids=[row[1] for row in NUMBERS])
def test_a_fault_of_values_only_is_found_by_the_reference(kernel, fault, inputs, output, expected):
    expected = inputs["A"].T if expected is None else expected
    assert compare(output, run(kernel(), inputs).outputs[output], expected, 1e-5).passes
    assert not compare(output, run(kernel(fault), inputs).outputs[output], expected, 1e-5).passes


def test_a_finding_names_block_and_loop_variables():
    finding = run(gemm("read before write"), GEMM_INPUTS).findings[0]
    assert finding.block == (0, 0)
    assert dict(finding.loops) == {"k": 0}
    assert finding.buffer == "B_shared"
    assert finding.index == (0, 0)
    assert "(block (0, 0), k = 0)" in str(finding)


def test_repeated_findings_are_counted_not_repeated():
    findings = run(overlapping_blocks("overlapping blocks"), {"A": single(4, 64)}).findings
    assert [finding.count for finding in findings] == [3]


def test_findings_of_several_processes_are_merged():
    alone = run(row_norm("half of the rows"), {"X": half(48, 128)})
    together = run(row_norm("half of the rows"), {"X": half(48, 128)}, jobs=3)
    assert [finding.kind for finding in together.findings] == [finding.kind for finding in alone.findings]
    missing = run(row_norm("missing reduction"), {"X": half(48, 128)}, jobs=3).findings
    assert [(finding.kind, finding.count) for finding in missing if finding.kind == "uninitialised-read"] == [
        ("uninitialised-read", 3)
    ]


def test_without_diagnostics_only_numbers_are_computed():
    result = run(gemm(), GEMM_INPUTS, diagnostics=False)
    assert np.array_equal(result.outputs["C"], run(gemm(), GEMM_INPUTS).outputs["C"])
    assert run(gemm("missing clear"), GEMM_INPUTS, diagnostics=False).findings == []


def short_pipeline(stages):
    @T.prim_func
    def main(A: T.Tensor((2, 16, 32), "float32"), B: T.Tensor((2, 16, 32), "float32")):
        with T.Kernel(1, threads=64) as _:
            tile = T.alloc_shared((16, 32), "float32")
            for k in T.Pipelined(2, num_stages=stages):
                T.copy(A[k, :, :], tile)
                T.copy(tile, B[k, :, :])

    return main


def test_more_stages_than_trips_is_a_note_not_an_error():
    result = run(short_pipeline(4), {"A": single(2, 16, 32)})
    assert [finding.kind for finding in result.findings] == ["stages"]
    assert result.errors == []
    assert run(short_pipeline(2), {"A": single(2, 16, 32)}).findings == []


def log_of_sums():
    """The log of an empty sum is minus infinity, and right."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                B[i] = T.log(A[i])

    return main


def test_an_infinity_is_a_note_and_a_nan_an_error():
    result = run(log_of_sums(), {"A": np.arange(64, dtype=np.float32)})
    assert [(finding.kind, finding.severity) for finding in result.findings] == [("infinity", "note")]
    assert "B[0] becomes -inf, from A[i] = 0.0" in result.findings[0].message
    assert [finding.kind for finding in run(log_of_sums(), {"A": -np.ones(64, np.float32)}).errors] == ["non-finite"]
