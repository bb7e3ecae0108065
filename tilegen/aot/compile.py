"""Compiles one key of a kernel file to a library, without a GPU; in a worker process, cached by content."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tilegen import cache
from tilegen.verify.loading import import_kernel

TIMEOUT_SECONDS = 900


class CompileError(Exception):
    """TileLang, nvcc or the host compiler refused; the message says which and why."""


def compile_keys(source: str, arch: str, dims: Mapping[str, list[int]]) -> list[dict[str, Any]]:
    """The compile keys of a kernel file on ``arch``, limited to the ``dims`` that it has; none on a target that it lacks."""
    with tempfile.TemporaryDirectory(prefix="tilegen-") as folder:
        kernel = import_kernel(Path(folder), source)
        if arch not in kernel.SM_COUNT:
            return []
        known = {name: values for name, values in dims.items() if name in kernel.DOMAIN}
        found: list[dict[str, Any]] = kernel.compile_keys(arch, kernel.SM_COUNT[arch], **known)
    return found


def cache_key(source: str, key: Mapping[str, Any]) -> str:
    from tilegen.verify.ptxas import nvcc_version

    return cache.digest(
        "library", source, dict(key), version("tilelang"), nvcc_version(), cache.package_digest(("aot", "targets"))
    )


def compile_library(source: str, key: dict[str, Any], label: str) -> dict[str, Any]:
    """``library`` (bytes), ``cu`` and ``c`` (text) and ``parameters`` of one key; or ``error`` (text)."""
    entry = cache_key(source, key)
    stored = cache.read("library", entry)
    if stored is None:
        try:
            stored = _compile(source, key, label)
        except CompileError as error:
            return {"error": str(error)}
        cache.write("library", entry, stored)
    return {**stored, "library": bytes.fromhex(stored["library"])}


def _compile(source: str, key: dict[str, Any], label: str) -> dict[str, Any]:
    from tilegen.aot.c_expression import UnsupportedError
    from tilegen.aot.launch import read_launch
    from tilegen.aot.launcher import launcher_source

    with tempfile.TemporaryDirectory(prefix="tilegen-") as name:
        folder = Path(name)
        kernel = import_kernel(folder, source)
        try:
            prim_func = kernel.build(**key)
            artifact, config = _lower(prim_func, key["arch"])
            launch = read_launch(prim_func, artifact.host_mod, artifact.device_mod)
        except UnsupportedError as error:
            raise CompileError(str(error)) from error
        except Exception as error:  # TileLang raises whatever its passes raise
            first = (str(error).strip().splitlines() or [""])[0]
            raise CompileError(f"TileLang cannot lower it: {type(error).__name__}: {first}") from error
        device, host = device_command(key["arch"], config), host_command()
        (folder / "kernel.cu").write_text(artifact.kernel_source, encoding="utf-8")
        text = launcher_source(launch, label, key["arch"], _readable(device), _readable(host))
        (folder / "launcher.c").write_text(text, encoding="utf-8")
        _run(device, folder)
        _run(host, folder)
        return {
            "library": (folder / "kernel.so").read_bytes().hex(),
            "cu": artifact.kernel_source,
            "c": text,
            "parameters": [
                [parameter.name, parameter.kind, parameter.c_type, parameter.tensor, parameter.axis]
                for parameter in launch.parameters
            ],
        }


def _lower(prim_func: Any, arch: str) -> tuple[Any, dict[str, Any]]:
    import tilelang
    from tilelang import tvm

    from tilegen.targets import target

    # tilelang.lower, unlike tilelang.compile, ignores what T.annotate_pass_configs wrote into the prim_func.
    config = dict(prim_func.attrs.get("tilelang_pass_configs", {}))
    with tvm.target.Target(target(arch).tvm_target) as lowered_for, tilelang.transform.PassContext(config=config):
        return tilelang.lower(prim_func, target=lowered_for), config


def device_command(arch: str, config: Mapping[str, Any]) -> list[str]:
    """How TileLang itself has nvcc compile a kernel, without its line table."""
    from tilegen.verify.ptxas import header_folders, nvcc

    compiler = nvcc()
    if compiler is None:
        raise CompileError("there is no nvcc on PATH or below CUDA_HOME: `tilegen doctor` says what is missing")
    command = [compiler, "-cubin", "-O3", "-std=c++20", "-w", "-gencode", f"arch=compute_{arch[3:]},code={arch}"]
    if bool(config.get("tl.enable_fast_math", False)):
        command.append("--use_fast_math")
    level = config.get("tl.ptxas_register_usage_level")
    if level is not None:
        command.append(f"--ptxas-options=--register-usage-level={int(level)}")
    flags = config.get("tl.device_compile_flags") or ()
    command += flags.split() if isinstance(flags, str) else [str(flag) for flag in flags]
    return [*command, *(f"-I{path}" for path in header_folders()), "kernel.cu", "-o", "kernel.cubin"]


def host_command() -> list[str]:
    """nvcc hands a C file to the host compiler and knows where cuda.h lies; nothing of the CUDA runtime is linked."""
    from tilegen.verify.ptxas import nvcc

    options = ["-shared", "-cudart", "none", "-Xcompiler", "-O2,-fPIC,-fvisibility=hidden,-Wall", "-Xlinker", "-s"]
    return [nvcc() or "nvcc", *options, "launcher.c", "-o", "kernel.so", "-ldl", "-lpthread"]


def _readable(command: list[str]) -> str:
    """A command for a reader: programs by name, TileLang's headers below a variable."""
    from tilegen.verify.ptxas import header_folders

    root = str(header_folders()[0].parent)
    words = [word.replace(root, "$TILELANG") for word in command[1:]]
    return " ".join([Path(command[0]).name, *words])


def _run(command: list[str], folder: Path) -> None:
    import subprocess

    name = Path(command[0]).name
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        raise CompileError(f"{name} did not finish in {TIMEOUT_SECONDS} seconds") from None
    except OSError as error:
        raise CompileError(f"{name} cannot be run ({error.strerror})") from None
    if done.returncode:
        output = done.stderr + done.stdout
        errors = [line.strip() for line in output.splitlines() if "error" in line.lower()]
        raise CompileError(f"{name} failed: {(errors or output.strip().splitlines() or ['?'])[0]}")
