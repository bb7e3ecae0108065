"""Plan and compiler agree on a GEMM; and each thing that could differ is named where it does."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tilegen.emit.artefacts import compile_key
from tilegen.emit.rendering import factory_parameters, render
from tilegen.plan.instances import instances
from tilegen.spec import load_bytes
from tilegen.verify.compare import disagreements
from tilegen.verify.expected import expected
from tilegen.verify.pipeline import instruction_patterns
from tilegen.verify.worker import observe

SPEC = """\
kernel = "linear"
family = "gemm"
schedule = "plain"
[dims]
M = { dynamic = true, max = 4096 }
N = { values = [256] }
K = { values = [128] }
[tensors]
a = { shape = "M K", dtype = "float16" }
b = { shape = "K N", dtype = "float16" }
c = { shape = "M N", dtype = "float16" }
[compute]
accum = "float32"
c = "relu(acc)"
[tile]
BLOCK_M = 64
BLOCK_N = 128
BLOCK_K = 32
stages = 3
swizzle = { panel = 10, order = "row" }
[target.sm_80]
"""


@pytest.fixture(scope="module")
def agreed() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What the plan says of the kernel on sm_80, and what TileLang made of it."""
    spec = load_bytes(SPEC.encode(), "linear.toml")
    instance = next(instances(spec, "sm_80"))
    key = compile_key(instance, factory_parameters(spec))
    source = render(spec).files["kernel.py"]
    return expected(instance), observe(source, instruction_patterns(), [key], "sm_80", False)[0]


def test_they_agree(agreed):
    assert disagreements(*agreed) == []


def in_program(change):
    """A change of the one tile program of the observation."""
    return lambda observed: change(observed["ir"][0])


def in_code(change):
    """A change of the one kernel that was generated."""
    return lambda observed: change(observed["kernels"][0])


PLANTED = {
    "kernels, TileLang made 2": lambda observed: observed["kernels"].append(observed["kernels"][0]),
    "TileLang refuses the kernel: too much": lambda observed: observed.update(error="too much"),
    "threads a block": in_code(lambda code: code.update(threads=160)),
    "bytes of dynamic shared memory": in_code(lambda code: code.update(dynamic_bytes=16)),
    "has mma instructions, TileLang emits no matrix": in_code(lambda code: code["counts"].pop("mma")),
    "has loads by cp_async, TileLang by copies": in_code(lambda code: code["counts"].pop("cp_async")),
    "no TMA stores, TileLang emits some": in_code(lambda code: code["counts"].update(tma_store=1)),
    "has a buffer `acc`, the source has none": in_program(lambda program: program["buffers"].pop("acc")),
    "buffer `other` that the plan does not know": in_program(
        lambda program: program["buffers"].update(other=program["buffers"]["acc"])
    ),
    "float32 in fragment, the source (64, 128) float16": in_program(
        lambda program: program["buffers"]["acc"].update(dtype="float16")
    ),
    "has gemms": in_program(lambda program: program["gemms"][0].update(policy="full_row")),
    "pipelined loops [3], the source [2]": in_program(lambda program: program.update(pipelines=[2])),
    "block swizzle ['row', 10], the source ['row', 8]": in_program(lambda program: program.update(swizzle=["row", 8])),
    "block swizzle ['row', 10], the source None": in_program(lambda program: program.update(swizzle=None)),
    "has a grid of": in_program(lambda program: program["grid"].reverse()),
    "nvcc refuses the kernel: no such header": lambda observed: observed.update(ptxas={"error": "no such header"}),
    "0 bytes of static shared memory, ptxas 8": lambda observed: observed.update(
        ptxas={"kernels": {"linear": {"static_shared_memory": 8}}}
    ),
}


@pytest.mark.parametrize("said", PLANTED)
def test_what_differs_is_named(agreed, said):
    plan, observed = deepcopy(agreed)
    PLANTED[said](observed)
    (found,) = disagreements(plan, observed)
    assert said in found
