"""``tilegen interpret``: scripts and modules as their authors run them."""

import subprocess
import sys
import textwrap

import pytest
from click.testing import CliRunner

from tilegen.cli.interpret import command

KERNEL = """
    import sys
    import tilelang
    import tilelang.language as T
    import torch

    @tilelang.jit(out_idx=[-1])
    def scaled(N, fault):
        @T.prim_func
        def twice(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(T.ceildiv(N, 64), threads=64) as b:
                tile = T.alloc_fragment((64,), "float32")
                other = T.alloc_fragment((64,), "float32")
                T.copy(A[b * 64], tile)
                for i in T.Parallel(64):
                    tile[i] = tile[i] * 2 + (other[i] if fault else 0)
                T.copy(tile, B[b * 64])
        return twice
"""


@pytest.fixture
def interpret(tmp_path, monkeypatch):
    """Run ``tilegen interpret`` on a script with the kernel above; gives exit code, stdout and stderr."""

    def go(body, *arguments):
        (tmp_path / "script.py").write_text(textwrap.dedent(KERNEL) + textwrap.dedent(body))
        monkeypatch.chdir(tmp_path)
        return CliRunner().invoke(command, arguments)

    return go


RIGHT = """
    a = torch.arange(100, dtype=torch.float32, device="cuda")
    kernel = scaled(100, "--fault" in sys.argv)
    out = kernel(a)
    print(sys.argv[1:], out[:3].tolist(), out.device)
    if "--fault" not in sys.argv:
        torch.testing.assert_close(kernel(a), a * 2)
"""


def test_a_script_runs_with_its_arguments_and_its_kernels_are_counted(interpret):
    done = interpret(RIGHT, "script.py", "--size", "3")
    assert done.stdout.splitlines()[0] == "['--size', '3'] [0.0, 2.0, 4.0] cpu"
    assert done.stdout.splitlines()[1].startswith("twice: 2 calls in ")
    assert done.stdout.endswith(", nothing found\n")
    assert done.exit_code == 0


def test_a_finding_is_printed_after_the_script_and_fails(interpret):
    done = interpret(RIGHT, "script.py", "--fault")
    assert done.exit_code == 1
    assert "twice: 1 call in " in done.stdout
    assert "error[uninitialised-read]: other[0] (local.fragment) is read before anything writes it" in done.stdout


def test_findings_of_an_allowed_kind_are_not_printed(interpret):
    done = interpret(RIGHT, "--allow", "uninitialised-read", "--allow", "non-finite", "script.py", "--fault")
    assert done.exit_code == 0
    assert done.stdout.endswith(", nothing found\n")


def test_what_a_script_raises_is_shown_from_its_own_lines_only(interpret):
    done = interpret("kernel = scaled(100, False)\nkernel(torch.ones(100), 3)\n", "script.py")
    assert done.exit_code == 2
    assert "kernel(torch.ones(100), 3)" in done.stderr
    assert "InvalidKernelError: twice takes A, and got 2 arguments" in done.stderr
    assert done.stderr.count("File ") == 1
    assert "no TileLang kernel was called" in done.stdout


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("sys.exit(0)", 0, ""),
        ("sys.exit(7)", 1, ""),
        ("assert 1 == 2", 1, "AssertionError"),
        ("x = (", 1, "SyntaxError"),
    ],
)
def test_the_status_follows_the_script(interpret, body, status, message):
    done = interpret("\n    " + body + "\n", "script.py")
    assert done.exit_code == status
    assert message in done.stderr


def test_a_module_is_run_as_python_does(tmp_path):
    (tmp_path / "test_scaled.py").write_text(
        textwrap.dedent(KERNEL)
        + textwrap.dedent("""
            def test_it():
                a = torch.ones(70, device="cuda")
                assert torch.equal(scaled(70, False)(a), a * 2)
        """)
    )
    called = [
        sys.executable,
        "-m",
        "tilegen",
        "interpret",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]
    done = subprocess.run([*called, str(tmp_path)], capture_output=True, text=True)
    assert "1 passed" in done.stdout
    assert "twice: 1 call in " in done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.py"], "there is no file nothing.py (a module is run with -m)"),
        (["-m", "no_such_module_at_all"], "there is no module no_such_module_at_all"),
        (["--target", "sm_1", "script.py"], "unknown target 'sm_1'"),
        (["--allow", "race", "script.py"], "there is no kind of finding 'race'; there are uninitialised-read, "),
        (["--target", "gfx942", "script.py"], "gfx942 is no CUDA chip"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(interpret, arguments, message):
    done = interpret("", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
