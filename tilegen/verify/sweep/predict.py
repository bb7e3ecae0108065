"""What tilegen says of a sample before any compiler sees it: verdict, facts, and the program to compile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilegen.emit.artefacts import compile_key
from tilegen.emit.rendering import render
from tilegen.plan.instances import instances
from tilegen.verify.expected import expected
from tilegen.verify.sweep.draw import Sample, Verdict, verdict_on
from tilegen.verify.sweep.program import Program, bare

if TYPE_CHECKING:
    from tilegen.plan.instances import Instance


@dataclass(frozen=True)
class Prediction:
    """``kernels``: see :func:`tilegen.verify.expected.expected`; empty where the plan is too broken to say.

    ``program`` is None, and ``trouble`` says why, where nothing could be rendered. ``others`` are the programs that a call
    of a rejected spec can need instead of it: the checker speaks of them all.
    """

    sample: Sample
    verdict: Verdict
    kernels: tuple[Mapping[str, Any], ...]
    program: Program | None
    trouble: str = ""
    others: tuple[Program, ...] = ()


def predict(sample: Sample) -> Prediction:
    """Checks, plans and renders a sample; a spec that the checker rejects is rendered all the same."""
    spec = sample.loaded()
    verdict = verdict_on(spec)
    try:
        instance, *others = instances(spec, sample.arch)
        program = _program(sample.arch, instance)
        needed = () if verdict.accepted else tuple(_program(sample.arch, other) for other in others)
    except Exception as error:
        return Prediction(sample, verdict, (), None, f"not rendered: {type(error).__name__}: {error}")
    try:
        kernels = tuple(expected(instance))
    except Exception as error:
        return Prediction(sample, verdict, (), program, f"not planned: {type(error).__name__}: {error}", needed)
    return Prediction(sample, verdict, kernels, program, others=needed)


def _program(arch: str, instance: Instance) -> Program:
    spec = instance.spec
    rendering = render(spec)
    key = compile_key(instance, rendering.parameters)
    return Program(arch, bare(rendering.files["kernel.py"], key), key)
