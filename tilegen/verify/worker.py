"""Lowers instances of one rendered kernel in a process of its own, and reads what came out.

Everything that goes in and comes out is plain data, so that it can cross processes and be cached.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilegen.verify.loading import import_kernel


def start_quietly() -> None:
    """Initialises a worker process: one thread for each numeric library, nothing on the terminal."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"


def observe(
    source: str, patterns: dict[str, str], keys: Sequence[Mapping[str, Any]], arch: str, with_ptxas: bool
) -> list[dict[str, Any]]:
    """What TileLang makes of ``build(**key)`` of a kernel file, for each of some keys.

    ``patterns`` name the instructions that the emitted golden test counts in the source. Each is ``{"error": text}``
    where TileLang refuses, else ``kernels``, ``golden`` (the facts that the emitted test compares), ``ptxas`` (None
    without nvcc) and ``ir``.
    """
    lowered = [lower(source, patterns, dict(key), arch) for key in keys]
    observations = [observed for observed, _ in lowered]
    if with_ptxas:
        add_usage(observations, {index: facts.source for index, (_, facts) in enumerate(lowered) if facts}, arch)
    return observations


def lower(source: str, patterns: dict[str, str], key: dict[str, Any], arch: str) -> tuple[dict[str, Any], Any]:
    """What :func:`observe` gives without nvcc, and the facts that hold the CUDA source; None where TileLang refuses."""
    from tilegen.targets import target
    from tilegen.verify.facts import LoweringError, lower_facts

    with tempfile.TemporaryDirectory(prefix="tilegen-") as folder:
        kernel = import_kernel(Path(folder), source)
        try:
            prim_func = kernel.build(**key)
            facts = lower_facts(prim_func, target(arch))
        except LoweringError as error:
            return {"error": error.reason}, None
        except Exception as error:  # TileLang raises whatever its passes raise
            said = str(error).strip().splitlines()[0] if str(error) else ""
            return {"error": f"{type(error).__name__}: {said}"}, None
        observed: dict[str, Any] = {
            "kernels": [
                {
                    "name": fact.name,
                    "threads": fact.threads,
                    "dynamic_bytes": fact.dynamic_bytes,
                    "counts": dict(fact.counts),
                    "shapes": list(fact.shapes),
                    "setmaxnreg": list(fact.setmaxnreg),
                    "cp_async_bytes": list(fact.cp_async_bytes),
                    "tensor_access_bytes": {name: list(widths) for name, widths in fact.tensor_access_bytes.items()},
                }
                for fact in facts.kernels
            ],
            "warnings": list(facts.warnings),
            "golden": _golden_facts(patterns, facts),
            "ir": _ir(prim_func),
            "ptxas": None,
        }
    return observed, facts


def _golden_facts(patterns: dict[str, str], facts: Any) -> dict[str, Any]:
    counts = {name: len(re.findall(pattern, facts.source)) for name, pattern in patterns.items()}
    return {
        "kernels": {
            fact.name: {"threads": fact.threads, "shared_memory": fact.dynamic_bytes} for fact in facts.kernels
        },
        "instructions": {name: count for name, count in counts.items() if count},
    }


def reference_outputs(reference: str, golden: str, cases: list[dict[str, Any]]) -> dict[str, bytes]:
    """The float64 reference of each golden case, rounded to float32, as the bytes of an ``.npy`` file by case name.

    ``reference`` and ``golden`` are the sources of ``reference.py`` and ``_golden.py`` of a kernel.
    """
    import io

    import numpy
    import torch

    torch.set_num_threads(1)
    outputs = {}
    with tempfile.TemporaryDirectory(prefix="tilegen-") as folder:
        package = Path(folder) / "generated_kernel"
        package.mkdir()
        (package / "__init__.py").write_text("")
        for name, source in (("reference.py", reference), ("_golden.py", golden)):
            (package / name).write_text(source, encoding="utf-8")
        sys.path.insert(0, folder)
        try:
            module = importlib.import_module("generated_kernel.reference")
        finally:
            sys.path.remove(folder)
            for name in [name for name in sys.modules if name.split(".")[0] == "generated_kernel"]:
                del sys.modules[name]
        for case in cases:
            inputs = module.random_inputs(**case["dims"], dtype=getattr(torch, case["dtype"]), seed=case["seed"])
            expected = module.reference(*inputs)[0]
            buffer = io.BytesIO()
            numpy.save(buffer, expected.numpy().astype(numpy.float32), allow_pickle=False)
            outputs[case["name"]] = buffer.getvalue()
    return outputs


SCOPES = {"shared.dyn": "shared", "shared": "shared", "local.fragment": "fragment"}


def _ir(prim_func: Any) -> list[dict[str, Any]]:
    """The tile program as written: what ``tilegen.verify.compare`` holds against the plan."""
    from tilegen.verify.ir import Gemm, Loop, read_ir

    return [
        {
            "name": kernel.name,
            "grid": list(kernel.grid),
            "buffers": {
                buffer.name: {"scope": SCOPES[buffer.scope], "shape": list(buffer.shape), "dtype": buffer.dtype}
                for buffer in kernel.buffers
                if buffer.scope in SCOPES
            },
            "gemms": [
                {
                    "a": gemm.a.buffer,
                    "b": gemm.b.buffer,
                    "acc": gemm.c.buffer,
                    "m": gemm.m,
                    "n": gemm.n,
                    "k": gemm.k,
                    "transpose_a": gemm.transpose_a,
                    "transpose_b": gemm.transpose_b,
                    "policy": gemm.policy,
                }
                for gemm in kernel.ops(Gemm)
            ],
            "swizzle": list(kernel.swizzle) if kernel.swizzle else None,
            "pipelines": [loop.num_stages for loop in kernel.ops(Loop) if loop.kind == "pipelined"],
        }
        for kernel in read_ir(prim_func)
    ]


def add_usage(observations: list[dict[str, Any]], sources: Mapping[int, str], arch: str) -> None:
    """Adds what ptxas says of the CUDA sources, by the index of their observation, where nvcc is there to say it.

    They share one run of nvcc, which spends most of its time on headers; where it stops, each gets a run of its own.
    """
    from tilegen.verify.ptxas import CompileError, compile_facts, compile_together

    if arch.startswith("gfx"):
        return
    try:
        for index, usage in zip(sources, compile_together(list(sources.values()), arch), strict=True):
            observations[index]["ptxas"] = None if usage is None else _usage(usage)
    except CompileError:
        for index, source in sources.items():
            try:
                usage = compile_facts(source, arch)
                observations[index]["ptxas"] = None if usage is None else _usage(usage)
            except CompileError as error:
                observations[index]["ptxas"] = {"error": str(error)[:2000]}


def _usage(compiled: Any) -> dict[str, Any]:
    """What ptxas said, as plain data."""
    return {
        "compiler": compiled.compiler,
        "warnings": list(compiled.warnings),
        "kernels": {
            usage.name: {
                "registers": usage.registers,
                "spill_bytes": usage.spill_store_bytes + usage.spill_load_bytes,
                "static_shared_memory": usage.static_bytes,
                "stack_bytes": usage.stack_bytes,
            }
            for usage in compiled.kernels
        },
    }
