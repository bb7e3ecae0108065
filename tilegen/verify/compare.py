"""Compares what the plan says with what TileLang did. A disagreement is an error of the build."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilegen.verify.extent import evaluate, extent_names

LOADS = {"tma": "tma_load", "cp_async": "cp_async"}
"""How a tile may be loaded, and the instruction that shows it."""

MATRIX = ("wgmma", "mma", "tcgen05", "mfma")


def disagreements(expected: list[dict[str, Any]], observed: dict[str, Any]) -> list[str]:
    """Every difference, in words; empty where plan and compiler agree."""
    if "error" in observed:
        return [f"TileLang refuses the kernel: {observed['error']}"]
    kernels = observed["kernels"]
    if len(kernels) != len(expected):
        return [f"the plan has {len(expected)} kernels, TileLang made {len(kernels)}"]
    found: list[str] = []
    for plan, fact in zip(expected, kernels, strict=True):
        found += _kernel(plan, fact)
    for plan, ir in zip(expected, observed["ir"], strict=True):
        found += _program(plan, ir)
    found += _compiled(expected, observed.get("ptxas"))
    return found


def _compiled(expected: list[dict[str, Any]], ptxas: dict[str, Any] | None) -> Iterator[str]:
    """What nvcc says, where there is one: the kernel compiles, and its barriers take what the plan says."""
    if ptxas is None:
        return
    if "error" in ptxas:
        yield f"nvcc refuses the kernel: {ptxas['error']}"
        return
    for plan, usage in zip(expected, ptxas["kernels"].values(), strict=False):
        if usage["static_shared_memory"] != plan["static_bytes"]:
            yield (
                f"{plan['name']}: the plan has {plan['static_bytes']} bytes of static shared memory, "
                f"ptxas {usage['static_shared_memory']}"
            )


def _kernel(plan: dict[str, Any], fact: dict[str, Any]) -> Iterator[str]:
    name = plan["name"]
    if fact["threads"] != plan["threads"]:
        yield f"{name}: the plan has {plan['threads']} threads a block, TileLang launches {fact['threads']}"
    if fact["dynamic_bytes"] != plan["dynamic_bytes"]:
        yield (
            f"{name}: the plan has {plan['dynamic_bytes']} bytes of dynamic shared memory, "
            f"TileLang allocates {fact['dynamic_bytes']}"
        )
    used = sorted(kind for kind in MATRIX if fact["counts"].get(kind))
    if used != plan["instructions"]:
        yield f"{name}: the plan has {_words(plan['instructions'])} instructions, TileLang emits {_words(used)}"
    loads = sorted(path for path, kind in LOADS.items() if fact["counts"].get(kind))
    if loads != plan["loads"]:
        yield f"{name}: the plan has loads by {_words(plan['loads'], 'copies')}, TileLang by {_words(loads, 'copies')}"
    if bool(fact["counts"].get("tma_store")) != plan["tma_stores"]:
        said, did = ("TMA stores", "none") if plan["tma_stores"] else ("no TMA stores", "some")
        yield f"{name}: the plan has {said}, TileLang emits {did}"


def _words(kinds: list[str], nothing: str = "no matrix") -> str:
    return " and ".join(kinds) or nothing


def _program(plan: dict[str, Any], ir: dict[str, Any]) -> Iterator[str]:
    name = plan["name"]
    for buffer, said in plan["buffers"].items():
        did = ir["buffers"].get(buffer)
        if did is None:
            yield f"{name}: the plan has a buffer `{buffer}`, the source has none"
        elif did != said:
            yield f"{name}: the plan has `{buffer}` {_buffer(said)}, the source {_buffer(did)}"
    for buffer in ir["buffers"].keys() - plan["buffers"].keys():
        yield f"{name}: the source has a buffer `{buffer}` that the plan does not know"
    for key, what in (("gemms", "gemms"), ("pipelines", "pipelined loops"), ("swizzle", "block swizzle")):
        if ir[key] != plan[key]:
            yield f"{name}: the plan has {what} {plan[key]}, the source {ir[key]}"
    grid = [_at(extent, plan["dims"]) for extent in ir["grid"]]
    wanted = plan["grid"] + [1] * (3 - len(plan["grid"]))
    if None not in grid and grid != wanted:
        yield f"{name}: the plan has a grid of {wanted}, the source {grid}"


def _at(extent: int | str, dims: dict[str, int]) -> int | None:
    """A grid extent at the instance's dims; None where it depends on what only a call knows."""
    return evaluate(extent, dims) if extent_names(extent) <= dims.keys() else None


def _buffer(entry: dict[str, Any]) -> str:
    return f"{tuple(entry['shape'])} {entry['dtype']} in {entry['scope']}"
