"""Findings and traces name the line of source, also inside macros, and in operations that TileLang writes as macros."""

import inspect
from pathlib import Path

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import InterpretedKernel, run
from tilegen.interp.loading import to_prim_func

FILE = Path(__file__).name


@T.macro
def scale(tile, factor):
    for i, j in T.Parallel(16, 32):
        tile[i, j] = tile[i, j] * factor[i]  # the line in the macro


def scaled_by_its_sum(fault=True):
    @T.prim_func
    def main(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32, 32), "float32")):
        with T.Kernel(2, threads=64) as b:
            tile = T.alloc_fragment((16, 32), "float32")
            total = T.alloc_fragment((16,), "float32")
            if not fault:
                T.copy(A[b * 16, 0], tile)
            T.reduce_sum(
                tile,
                total,
                dim=1,
            )
            scale(tile, total)
            T.copy(tile, B[b * 16, 0])

    return main


def line_of(text):
    lines, start = inspect.getsourcelines(inspect.getmodule(scaled_by_its_sum))
    return next(number for number, line in enumerate(lines, start or 1) if text in line and "line_of" not in line)


def test_a_finding_names_its_line_and_shows_the_statement():
    findings = run(to_prim_func(scaled_by_its_sum)).findings
    reduction, macro = findings[:2]
    assert reduction.place.endswith(f"{FILE}:{line_of('T.reduce_sum(')}")
    assert reduction.source == "T.reduce_sum(tile, total, dim=1,)"
    assert f"\n  {reduction.place}: T.reduce_sum(" in str(reduction)
    assert reduction.as_dict()["source"] == reduction.source
    assert macro.place.endswith(f"{FILE}:{line_of('the line in the ma' + 'cro')}")


def test_a_kernel_traced_elsewhere_names_the_line_before_an_operation_of_the_library():
    reduction = run(scaled_by_its_sum()).findings[0]
    assert reduction.place.startswith("after ")
    assert reduction.place.rsplit(":")[-1] == str(line_of("with T.Kernel(2"))
    assert reduction.source == ""


@pytest.mark.parametrize("jobs", [1, 2])
def test_processes_hand_on_the_places(jobs):
    kernel = InterpretedKernel(scaled_by_its_sum, strict=False, jobs=jobs)
    kernel(np.zeros((32, 32), np.float32), np.zeros((32, 32), np.float32))
    assert {finding.place.rsplit("/")[-1].split(":")[0] for finding in kernel.findings} == {FILE}


def test_a_trace_names_the_line_and_the_value_before():
    lines = []
    run(to_prim_func(lambda: scaled_by_its_sum(False)), block=(1,), watches=[("tile", (3, 4))], print_line=lines.append)
    first, second = lines
    assert "(was" not in first
    assert f"(was {first.split(' = ')[1].split()[0]})" in second
    assert second.endswith(f"{FILE}:{line_of('the line in the ma' + 'cro')}")


def test_an_uninitialised_read_says_where_the_buffer_is_written():
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32) as _:
            late = T.alloc_fragment((32,), "float32")
            total = T.alloc_fragment((32,), "float32")
            never = T.alloc_fragment((32,), "float32")
            for i in T.Parallel(32):
                total[i] += late[i]
            T.copy(A, late)  # the late copy
            for i in T.Parallel(32):
                B[i] = total[i] + never[i]

    messages = {finding.buffer: finding.message for finding in run(main).errors}
    assert messages["late"].endswith(f"{FILE}:{line_of('the late co' + 'py')}")
    assert "; it is written at " in messages["late"]
    assert messages["total"].endswith("; only this statement writes it: it has to be cleared or filled first")
    assert messages["never"].endswith("before anything writes it; the kernel never writes it")


def test_what_is_never_written_is_described_by_its_bounds():
    @T.prim_func
    def main(B: T.Tensor((32, 64), "float32")):
        with T.Kernel(1, threads=32) as _:
            for i, j in T.Parallel(20, 48):
                B[i + 1, j] = 1.0

    (found,) = run(main).errors
    assert "B[0, 0] is never written, nor are 1087 other elements of 2048, all in B[0:32, 0:64]" in found.message
    assert "; it is written at " in found.message
