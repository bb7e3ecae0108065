"""``tilegen run``: kernels in files of either style, inputs, references, traces, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tilegen.cli.run import command

FOLDER = Path(__file__).parents[1] / "interp"
GEMM = f"{FOLDER / 'kernels.py'}:gemm_relu"
ARGUMENTS = ["--arg", "N=128", "--arg", "K=64", "--arg", "stages=1"]
FAULTY = """
import tilelang.language as T


def kernel(fault):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            tile = T.alloc_fragment((64,), "float32")
            if not fault:
                T.copy(A, tile)
            T.copy(tile, B)

    return main
"""


def tilegen_run(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_outputs_are_summed_up_and_nothing_is_found():
    result = tilegen_run(GEMM, *ARGUMENTS, "--input", "A=70x64")
    assert result.exit_code == 0, result.output
    assert "dims: M = 70" in result.output
    assert "C (70, 128) float16: min 0, max " in result.output
    assert result.output.endswith("nothing found\n")


def test_the_same_seed_gives_the_same_run():
    first, again, other = (
        tilegen_run(GEMM, *ARGUMENTS, "--input", "A=70x64", "--seed", seed).output for seed in (1, 1, 2)
    )
    assert first == again != other


def test_a_reference_that_agrees_and_one_that_differs():
    reference = FOLDER / "kernels.py"
    good = tilegen_run(GEMM, *ARGUMENTS, "--input", "A=70x64", "--ref", f"{reference}:gemm_relu_reference")
    assert good.exit_code == 0
    assert "C agrees with the reference: largest error" in good.output
    bad = tilegen_run(GEMM, *ARGUMENTS, "--input", "A=70x64", "--ref", f"{reference}:gemm_reference_without_relu")
    assert bad.exit_code == 1
    assert "C differs from the reference" in bad.output


def test_findings_are_printed_and_give_exit_code_one(tmp_path):
    (tmp_path / "faulty.py").write_text(FAULTY)
    assert tilegen_run(f"{tmp_path}/faulty.py:kernel", "--arg", "fault=False").exit_code == 0
    result = tilegen_run(f"{tmp_path}/faulty.py:kernel", "--arg", "fault=True")
    assert result.exit_code == 1
    assert "error[uninitialised-read]: tile[0] (local.fragment) is read before anything writes it" in result.output
    assert "at `T.copy(tile[0], B[0])` (block (0,))" in result.output


def test_json_holds_outputs_comparisons_findings_and_trace(tmp_path):
    (tmp_path / "faulty.py").write_text(FAULTY)
    result = tilegen_run(f"{tmp_path}/faulty.py:kernel", "--arg", "fault=True", "--format", "json")
    report = json.loads(result.output)
    assert set(report) == {"dims", "outputs", "comparisons", "findings", "trace"}
    assert report["outputs"]["B"]["nan"] == 64
    assert report["findings"][0]["kind"] == "uninitialised-read"
    traced = tilegen_run(GEMM, *ARGUMENTS, "--input", "A=70x64", "--watch", "acc[0,0]", "--format", "json")
    assert len(json.loads(traced.output)["trace"]) >= 2


def test_arrays_come_from_files_and_go_to_one(tmp_path):
    a = np.random.default_rng(0).standard_normal((70, 64)).astype(np.float16)
    np.save(tmp_path / "a.npy", a)
    np.savez(tmp_path / "b.npz", weights=np.ones((64, 128), np.float16))
    result = tilegen_run(
        GEMM, *ARGUMENTS, "--input", f"A={tmp_path}/a.npy", "--input", f"B={tmp_path}/b.npz:weights",
        "--save", tmp_path / "out.npz",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    saved = np.load(tmp_path / "out.npz")
    assert np.array_equal(saved["A"], a)
    assert np.allclose(saved["C"][:, 0], np.maximum(a.astype(np.float32).sum(1), 0), atol=2e-2)


def test_a_block_and_an_element_are_traced():
    result = tilegen_run(GEMM, *ARGUMENTS, "--input", "A=200x64", "--block", "0,1", "--watch", "C[150, 3]")
    assert result.exit_code == 0
    assert "block (0, 1): C[150, 3] = " in result.output


def test_eager_and_lazy_jit_functions_run(tmp_path):
    eager = tilegen_run(f"{FOLDER / 'eager_kernels.py'}:relu", "--input", "X=40x64")
    assert eager.exit_code == 0, eager.output
    assert "Y (40, 64) float16: min 0" in eager.output
    lazy = tilegen_run(
        f"{FOLDER / 'lazy_kernels.py'}:double", "--arg", "N=100", "--arg", "dtype=float32", "--jobs", "2"
    )
    assert lazy.exit_code == 0, lazy.output
    assert "B (100) float32" in lazy.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py:kernel"], "there is no file nowhere.py"),
        ([f"{FOLDER / 'kernels.py'}:nothing"], "has no 'nothing'; it defines attention, "),
        (["kernel"], "'kernel' does not say FILE:FUNCTION"),
        ([GEMM, "--arg", "N=0", "--arg", "K=x"], "gemm_relu raised"),
        ([GEMM], "missing a required argument: 'N'"),
        ([GEMM, *ARGUMENTS], "the shape of A is not determined"),
        ([GEMM, *ARGUMENTS, "--input", "A=70x65"], "A has the shape (70, 64)"),
        ([GEMM, *ARGUMENTS, "--input", "A=seven"], "is no shape (300x64"),
        ([GEMM, *ARGUMENTS, "--input", "Z=3x3"], "has no argument 'Z'"),
        ([GEMM, *ARGUMENTS, "--arg", "N"], "'N' is not NAME=VALUE"),
        ([GEMM, *ARGUMENTS, "--input", "A=70x64", "--block", "a"], "'a' is not X, X,Y or X,Y,Z"),
        ([GEMM, *ARGUMENTS, "--input", "A=70x64", "--watch", "acc"], "'acc' is not BUFFER[I,J]"),
        ([GEMM, *ARGUMENTS, "--input", "A=70x64", "--block", "0", "--ref", "a:b"], "--ref compares whole outputs"),
    ],
)
def test_misuse_is_explained_and_gives_exit_code_two(arguments, message):
    result = tilegen_run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output
