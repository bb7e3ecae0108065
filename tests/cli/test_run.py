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


ODD = """
import sys
import tilelang.language as T

def itself(): return itself
def leaves(): sys.exit(3)

def add(x=1):
    N = T.dynamic("N")
    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), a: T.int32, Y: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 32) * x, threads=32) as b:
            for i in T.Parallel(32):
                Y[b % T.ceildiv(N, 32) * 32 + i] = X[b % T.ceildiv(N, 32) * 32 + i] + a
    return main

kernel = add()

def right(X, a): return X + a
def one_argument(X): return X + 1
def raises(X): raise ValueError("no")
def text(X): return "abc"
def other_name(X): return {"Z": X}
def nothing(X): return {}
value = 7
"""


@pytest.fixture
def odd(tmp_path):
    (tmp_path / "odd.py").write_text(ODD)
    (tmp_path / "leaves.py").write_text("raise SystemExit(4)")
    (tmp_path / "junk.npy").write_bytes(b"hello")
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "text.npy", np.array(["a"]))
    np.save(tmp_path / "x.npy", np.ones(40, np.float32))
    np.savez(tmp_path / "x.npz", x=np.ones(40, np.float32))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["leaves.py:kernel"], "cannot be imported: SystemExit: 4"),
        (["odd.py:leaves"], "leaves raised SystemExit: 3"),
        (["odd.py:itself"], "no prim_func, jit function or factory of one: function"),
        (["odd.py:kernel", "--arg", "x=2"], "a prim_func has no factory arguments (x)"),
        (["odd.py:add", "--input", "N=-5"], "X would have the shape (-5,)"),
        (["odd.py:add", "--input", "N=1.5"], "the dimension N is 1.5, which is no whole number"),
        (["odd.py:add", "--input", "X=99999999999999x"], "no memory for X"),
        (["odd.py:add", "--input", "N=99999999999999999999"], "no memory for X"),
        (["odd.py:add", "--input", "X=junk.npy"], "is no .npy or .npz file of numbers"),
        (["odd.py:add", "--input", "X=objects.npy"], "is no .npy or .npz file of numbers"),
        (["odd.py:add", "--input", "X=text.npy"], "X is float32, the argument is <U1"),
        (["odd.py:add", "--input", "X=x.npy:x"], "holds one array; 'x' would name one of an .npz file"),
        (["odd.py:add", "--input", "X=x.npz"], "say which array of"),
        (["odd.py:add", "--input", "X=x.npz:y"], "say which array of"),
        (
            ["odd.py:add", "--input", "X=40x", "--input", "a=2.5"],
            "the scalar argument a is int32; 2.5 is no such number",
        ),
        (["odd.py:add", "--input", "X=40x", "--input", "a=9999999999"], "9999999999 is no such number"),
        (["odd.py:add", "--input", "X=40x", "--input", "a=x.npy"], "the scalar argument a is int32; array("),
        (["odd.py:add", "--arg", "x=2000000000"], "axis x may have 2147483647 blocks"),
        (["odd.py:add", "--seed", "-1"], "-1 is not in the range x>=0"),
        (["odd.py:add", "--save", "nowhere/out.npz"], "--save: there is no folder"),
        (["odd.py:add", "--ref", "odd.py:raises"], "the reference raises, called with X, raised ValueError: no"),
        (["odd.py:add", "--ref", "odd.py:right"], "missing 1 required positional argument: 'a'"),
        (["odd.py:add", "--ref", "odd.py:text"], "'abc', which is no array of numbers"),
        (["odd.py:add", "--ref", "odd.py:other_name"], "other_name returns Z; the outputs are Y"),
        (["odd.py:add", "--ref", "odd.py:nothing"], "nothing returns nothing; the outputs are Y"),
        (["odd.py:add", "--ref", "odd.py:value"], "the reference is no function but a int"),
        (["odd.py:add", "--ref", "..:f"], "the module .. cannot be imported"),
        (["odd.py:add", "--ref", "odd.py:one_argument", "--tol", "nan"], "nan is no bound on an error"),
    ],
)
def test_odd_kernels_inputs_and_references_are_explained_without_a_traceback(odd, monkeypatch, arguments, message):
    monkeypatch.chdir(odd)
    defaults = [] if "kernel" in arguments[0] or "=" in " ".join(arguments[1:3]) else ["--input", "X=40x"]
    scalar = [] if any(part.startswith("a=") for part in arguments) or "kernel" in arguments[0] else ["--input", "a=1"]
    if "x=2000000000" in arguments:
        defaults = ["--input", "X=99x"]
    result = tilegen_run(*arguments, *defaults, *scalar)
    assert message in " ".join(result.output.split())
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_one_block_of_a_huge_grid_runs_at_once(odd, monkeypatch):
    monkeypatch.chdir(odd)
    result = tilegen_run("odd.py:add", "--arg", "x=1000000000", "--input", "X=40x", "--input", "a=1", "--block", "1")
    assert result.exit_code == 0, result.output


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


PACKAGED = """
import tilelang.language as T

from .sizes import N


def twice_in_place():
    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(2, threads=32) as b:
            for i in T.Parallel(16):
                A[b * 16 + i] = A[b * 16 + i] * 2
    return main


def doubled(A):
    return A * 2


def misspelt():
    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(A, nothing)
    return main
"""


@pytest.fixture
def packaged(tmp_path):
    """A file in a package, which imports from its own package."""
    folder = tmp_path / "kernels_of_mine"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "sizes.py").write_text("N = 32\n")
    (folder / "scaling.py").write_text(PACKAGED)
    return folder / "scaling.py"


def test_a_file_in_a_package_may_import_from_it_and_a_kernel_in_place_has_a_reference(packaged):
    result = tilegen_run(f"{packaged}:twice_in_place", "--ref", f"{packaged}:doubled")
    assert result.exit_code == 0, result.output
    assert "A agrees with the reference" in result.output


def test_an_error_in_the_users_file_names_its_line(packaged):
    result = tilegen_run(f"{packaged}:misspelt")
    assert result.exit_code == 2
    line = PACKAGED.splitlines().index("            T.copy(A, nothing)") + 1
    assert f"misspelt raised NameError: name 'nothing' is not defined (at {packaged}:{line})" in result.output


def test_one_block_is_summed_up_over_what_it_wrote(packaged, tmp_path):
    result = tilegen_run(GEMM, *ARGUMENTS, "--input", "A=200x64", "--block", "0,1")
    assert "9216 of 25600 elements written" in result.output
    assert " nan" not in result.output


def test_an_argument_is_given_once_and_a_saved_file_has_the_name_that_was_asked_for(packaged, tmp_path):
    twice = tilegen_run(GEMM, *ARGUMENTS, "--input", "A=70x64", "--input", "A=80x64")
    assert twice.exit_code == 2
    assert "A is given twice" in twice.output
    assert tilegen_run(f"{packaged}:twice_in_place", "--save", tmp_path / "out.data").exit_code == 0
    assert [path.name for path in tmp_path.glob("out*")] == ["out.data"]
    unwritable = tilegen_run(f"{packaged}:twice_in_place", "--save", "/proc/out.npz")
    assert unwritable.exit_code == 2
    assert "--save: /proc/out.npz" in unwritable.output


def test_a_scalar_may_be_no_number_or_infinite(odd, monkeypatch):
    monkeypatch.chdir(odd)
    for value in ("nan", "-inf", "3.", "1e3"):
        result = tilegen_run("odd.py:add", "--input", "X=40x", "--input", f"a={value}")
        assert "the scalar argument a is int32" in result.output
    number = tilegen_run("odd.py:add", "--input", "X=40", "--input", "a=1")
    assert "X is a buffer of float32, and 40 is a number; a shape is 40x or 40x64" in number.output
