"""Launchers, compiled by the host's compiler and run against a driver that writes down what it is asked for."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tilegen.aot.compile import host_command
from tilegen.aot.launch import Argument, Kernel, Launch, Parameter, TensorMap
from tilegen.aot.launcher import launcher_source
from tilegen.emit.rendering import support
from tilegen.verify.ptxas import nvcc

pytestmark = pytest.mark.skipif(nvcc() is None, reason="there is no nvcc: it knows where cuda.h lies")

ROWS = Parameter("M", "dim", "int32_t", tensor=0, axis=0)
LAUNCH = Launch(
    parameters=(
        Parameter("x", "pointer", "CUdeviceptr", alignment=16),
        Parameter("y", "pointer", "CUdeviceptr", alignment=4),
        Parameter("alpha", "scalar", "float"),
        ROWS,
    ),
    tensor_maps=(
        TensorMap(
            name="x_desc",
            dtype=6,
            rank=2,
            address="given->p_x",
            shape=("64", "given->d_M"),
            strides=("128",),
            box=("64", "32"),
            element_strides=("1", "1"),
            interleave=0,
            swizzle=3,
            promotion=2,
            fill=0,
        ),
    ),
    kernels=(
        Kernel(
            name="first",
            arguments=(
                Argument("CUtensorMap", "x_desc"),
                Argument("CUdeviceptr", "given->p_y"),
                Argument("float", "given->s_alpha"),
                Argument("int32_t", "(given->d_M + 1)"),
            ),
            grid=("((given->d_M + 31) / 32)", "1", "1"),
            block=("128", "1", "1"),
            shared_bytes=100_000,
            cluster=(2, 1, 1),
            overlaps=False,
        ),
        Kernel("second", (Argument("CUtensorMap", "x_desc"),), ("7", "1", "1"), ("32", "1", "1"), 0, (1, 1, 1), True),
    ),
)
PARAMETERS = [[entry.name, entry.kind, entry.c_type, entry.tensor, entry.axis] for entry in LAUNCH.parameters]


def compile_c(folder: Path, source: str, output: str, exported: bool = False) -> None:
    words = [word.replace("launcher.c", source).replace("kernel.so", output) for word in host_command()]
    command = [word.replace("visibility=hidden", "visibility=default") for word in words] if exported else words
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A library with its launcher, the fake driver, and the loader as it stands beside a kernel."""
    place = tmp_path_factory.mktemp("library")
    (place / "kernel.cubin").write_bytes(b"\x7fELF and so on")
    (place / "launcher.c").write_text(launcher_source(LAUNCH, "a test", "sm_90a", "nvcc ...", "nvcc ..."))
    compile_c(place, "launcher.c", "kernel.so")
    shutil.copy(Path(__file__).parent / "fake_driver.c", place)
    compile_c(place, "fake_driver.c", "libcuda.so.1", exported=True)
    package = place / "beside"
    package.mkdir()
    for name in ("compiled", "runtime"):
        (package / f"_{name}.py").write_text(support(f"{name}.py"))
    (package / "__init__.py").write_text("")
    return place


def run(folder: Path, tmp_path: Path, program: str, **environment: str) -> tuple[list[str], str]:
    """What the driver was asked for, and what the program printed."""
    prelude = f"""
        import sys, types, torch
        from beside import _compiled
        streams = {{0: 77, 1: 88}}
        _compiled.raw_stream = streams.get
        library = _compiled.Library(__import__("pathlib").Path("kernel.so").resolve(), {PARAMETERS!r})
        _compiled.address = lambda tensor: tensor
        device = lambda index: types.SimpleNamespace(index=index)
        """
    log = tmp_path / "driver.log"
    log.touch()
    variables = {"LD_LIBRARY_PATH": str(folder), "FAKE_DRIVER_LOG": str(log), "PYTHONPATH": str(folder), **environment}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(prelude) + textwrap.dedent(program)],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return log.read_text().splitlines(), done.stdout


CALL = """
    launch = library.bind(device(0), ((1000, 64), (1000, 64)))
    launch((4096, 1 << 40), 0.5)
    """


def test_a_call_encodes_its_tensor_maps_and_launches_its_kernels_in_order(folder, tmp_path):
    log, _ = run(folder, tmp_path, CALL, FAKE_DRIVER_ARGUMENTS="mpfi")
    assert log[:4] == ["push 0", "load \x7fELF", "shared first 100000", "pop"]
    assert log[4] == "push 0"  # this thread has no context yet
    assert log[5] == "map 1 type 6 address 4096 shape 64 1000 strides 128 box 64 32 swizzle 3"
    assert log[6] == "launch first grid 32 1 1 block 128 1 1 shared 100000 stream 77 attributes 1"
    assert log[7:11] == ["  map 1", f"  pointer {1 << 40}", "  float 0.5", "  int 1001"]
    assert log[11] == "launch second grid 7 1 1 block 32 1 1 shared 0 stream 77 attributes 1"


def test_the_code_is_loaded_once_for_each_device_whichever_thread_asks(folder, tmp_path):
    program = """
        import threading
        def work(index):
            launch = library.bind(device(index), ((8, 64), (8, 64)))
            for _ in range(5):
                launch((4096, 8192), 1.0)
        threads = [threading.Thread(target=work, args=(index % 2,)) for index in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """
    log, _ = run(folder, tmp_path, program)
    assert sum(line.startswith("load") for line in log) == 2
    launches = [line.split("stream ")[1].split()[0] for line in log if line.startswith("launch first")]
    assert sorted(launches) == ["77"] * 20 + ["88"] * 20


def test_what_the_driver_says_is_the_error(folder, tmp_path):
    program = """
        try:
            library.bind(device(0), ((8, 64), (8, 64)))
        except _compiled.LibraryError as error:
            print(error)
        """
    _, said = run(folder, tmp_path, program, FAKE_DRIVER_REFUSES="1")
    assert said == "kernel.so: loading the cubin for sm_90a: no kernel image is available (CUDA error 209)\n"


def test_a_machine_without_a_driver_is_told_so(folder, tmp_path):
    program = """
        try:
            library.bind(device(0), ((8, 64), (8, 64)))
        except _compiled.LibraryError as error:
            print(error)
        """
    _, said = run(folder, tmp_path, program, LD_LIBRARY_PATH="/nowhere")
    if "libcuda.so.1" not in said:
        pytest.skip("this machine has a driver")
    assert said.startswith("kernel.so: the CUDA driver is not there: libcuda.so.1")


def test_a_library_needs_libc_alone(folder):
    needed = subprocess.run(["readelf", "-d", "kernel.so"], cwd=folder, capture_output=True, text=True).stdout
    libraries = [line.split("[")[1].rstrip("]") for line in needed.splitlines() if "NEEDED" in line]
    assert set(libraries) <= {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}


def test_an_address_that_the_kernel_cannot_read_from_is_refused(folder, tmp_path):
    program = """
        launch = library.bind(device(0), ((8, 64), (8, 64)))
        launch((4096, 8196), 1.0)  # y wants 4 bytes only
        try:
            launch((4104, 8192), 1.0)
        except ValueError as error:
            print(error)
        """
    log, said = run(folder, tmp_path, program)
    assert said == "kernel.so: `x` starts at an address that is not a multiple of 16 bytes\n"
    assert sum(line.startswith("launch first") for line in log) == 1
