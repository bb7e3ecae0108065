"""Holds what was predicted of a sample against what was observed: one row of the results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilegen.lowering.legal import align_up
from tilegen.targets import Target
from tilegen.targets import target as chip
from tilegen.verify.compare import LOADS, MATRIX, disagreements
from tilegen.verify.sweep.predict import Prediction

FINE, REFUSED, UNCOMPILED, UNFIT, UNRENDERED = "fine", "refused", "not compiled", "does not fit", "not rendered"
"""Outcomes: a cubin that fits; TileLang refused; nvcc refused; a cubin too large to launch; nothing to compile."""


@dataclass(frozen=True)
class Fact:
    """One predicted value beside the observed one."""

    kernel: str
    what: str
    predicted: Any
    observed: Any

    @property
    def agrees(self) -> bool:
        return bool(self.predicted == self.observed)


def judge(
    prediction: Prediction, observed: Mapping[str, Any] | None, others: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """The row of a sample as plain data. ``observed`` is None where nothing could be rendered; ``others`` are of the
    other programs of a rejected spec, whose first one compiles.

    ``outcome`` and ``reason``; ``facts``: kernel, what, predicted, observed; ``disagreements``: what the build (TG-V1)
    would stop on; ``seen`` and ``refusals_only``: the marks of the store.
    """
    sample, verdict = prediction.sample, prediction.verdict
    outcome, reason = outcome_of(observed, chip(sample.arch)) if observed else (UNRENDERED, prediction.trouble)
    for other in others:
        if outcome == FINE:
            outcome, reason = outcome_of(other, chip(sample.arch))
    comparable = observed is not None and "kernels" in observed and bool(prediction.kernels)
    return {
        "sample": sample.name,
        "near": sample.near,
        "spec": sample.spec,
        "digest": prediction.program.digest if prediction.program else "",
        "errors": list(verdict.errors),
        "slow": list(verdict.slow),
        "undecided": list(verdict.undecided),
        "outcome": outcome,
        "reason": reason,
        "facts": [vars(fact) for fact in facts(prediction, observed)] if comparable and observed else [],
        "disagreements": disagreements([dict(k) for k in prediction.kernels], _of_today(observed, prediction.kernels))
        if comparable and observed
        else [],
        "compiler": ((observed or {}).get("ptxas") or {}).get("compiler"),
        "seconds": observed.get("seconds") if observed else None,
        "seen": bool((observed or {}).get("seen")),
        "refusals_only": bool((observed or {}).get("refusals_only")),
    }


def compiles(observed: Mapping[str, Any] | None, arch: str) -> bool:
    return observed is not None and outcome_of(observed, chip(arch))[0] == FINE


def _of_today(observed: Mapping[str, Any], kernels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """An observation with the keys that the IR has today: what one of an earlier reader lacks says nothing."""
    programs = [
        {**{key: kernel[key] for key in kernel.keys() & {"swizzle"}}, **ir}
        for kernel, ir in zip(kernels, observed["ir"], strict=False)
    ]
    return {**observed, "ir": programs + list(observed["ir"][len(programs) :])}


def outcome_of(observed: Mapping[str, Any], target: Target) -> tuple[str, str]:
    """Whether the program lowers, compiles and fits a block of the chip, and what stops it."""
    if "error" in observed:
        return REFUSED, observed["error"]
    for kernel in observed["kernels"]:
        dynamic = kernel["dynamic_bytes"]
        if isinstance(dynamic, int) and dynamic > target.shared_memory.per_block:
            return UNFIT, f"{kernel['name']}: {dynamic} bytes of dynamic shared memory"
    ptxas = observed["ptxas"]
    if ptxas is None or "error" in ptxas:
        return UNCOMPILED, "there is no nvcc" if ptxas is None else ptxas["error"]
    for kernel in observed["kernels"]:
        usage = ptxas["kernels"].get(kernel["name"])
        for what in _excess(kernel, usage, target) if usage else ("ptxas does not name the kernel",):
            return UNFIT, f"{kernel['name']}: {what}"
    return FINE, ""


def _excess(kernel: Mapping[str, Any], usage: Mapping[str, Any], target: Target) -> Iterator[str]:
    threads, dynamic = kernel["threads"], kernel["dynamic_bytes"]
    if threads > target.launch.max_threads_per_block:
        yield f"{threads} threads"
    if isinstance(dynamic, int) and dynamic + usage["static_shared_memory"] > target.shared_memory.per_block:
        yield f"{dynamic} + {usage['static_shared_memory']} bytes of shared memory"
    warps = -(-threads // target.launch.warp_size)
    a_warp = align_up(usage["registers"] * target.launch.warp_size, target.registers.allocation_unit_per_warp)
    if a_warp * warps > target.registers.per_block:
        yield f"{usage['registers']} registers over {threads} threads"


def facts(prediction: Prediction, observed: Mapping[str, Any]) -> Iterator[Fact]:
    """Every predicted fact of a program that lowers, kernel by kernel."""
    usages = (observed["ptxas"] or {}).get("kernels", {})
    for plan, kernel in zip(prediction.kernels, observed["kernels"], strict=False):
        usage = usages.get(kernel["name"])
        counts = kernel["counts"]
        name = plan["name"]
        yield Fact(name, "threads", plan["threads"], kernel["threads"])
        yield Fact(name, "dynamic shared memory", plan["dynamic_bytes"], kernel["dynamic_bytes"])
        if usage:
            yield Fact(name, "static shared memory", plan["static_bytes"], usage["static_shared_memory"])
        yield Fact(
            name, "matrix instruction", plan["instructions"], sorted(kind for kind in MATRIX if counts.get(kind))
        )
        yield Fact(name, "loads", plan["loads"], sorted(path for path, kind in LOADS.items() if counts.get(kind)))
        yield Fact(name, "stores", plan["tma_stores"], bool(counts.get("tma_store")))
        if usage and plan["spills"] is not None:
            spilled = usage["spill_bytes"] > 0
            yield Fact(name, "spills", plan["spills"], spilled)
            if not counts.get("setmaxnreg") and not spilled:
                # Where registers are reallocated, ptxas names what the launch takes, not what a thread uses.
                yield Fact(name, "registers", plan["registers"], usage["registers"])
        widths = kernel.get("tensor_access_bytes", {})
        for tensor, width in plan["vector_bytes"].items():
            if tensor in widths:
                yield Fact(f"{name}.{tensor}", "vector width", width, max(widths[tensor]))
