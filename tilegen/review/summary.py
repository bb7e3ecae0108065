"""One kernel in plain values, as two revisions of it are compared: what its spec says, and what the checker found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilegen.emit.artefacts import compile_keys
from tilegen.emit.rendering import RenderError, factory_parameters
from tilegen.review.words import domain_words, rule_words, shape_words
from tilegen.spec.diagnostic import Diagnostic

if TYPE_CHECKING:
    from tilegen.check.report import Report
    from tilegen.spec.model import Spec


@dataclass(frozen=True)
class TensorSummary:
    shape: str
    dtypes: tuple[str, ...]
    output: bool


@dataclass(frozen=True)
class Summary:
    """``tiles`` maps a target to its tile parameters, each with its rules in words. ``rules`` maps the code of a rule to how
    many of its obligations were proved, refuted and undecided; ``silenced`` are findings that ``[allow]`` hides.
    ``tested`` are the listed sizes of dynamic dims, which serve as tests alone. ``planned``: the tile values of the spec
    are always defined, so that there are plans. ``compile_keys`` maps a target to its keys.
    """

    kernel: str
    family: str
    variant: str
    doc: str
    dims: Mapping[str, str]
    tensors: Mapping[str, TensorSummary]
    scalars: Mapping[str, str]
    tiles: Mapping[str, Mapping[str, tuple[str, ...]]]
    tolerance: Mapping[str, Any] | None
    allow: Mapping[str, str]
    dispatch: tuple[str, ...]
    shapes: tuple[str, ...]
    tests: tuple[str, ...]
    tested: Mapping[str, tuple[int, ...]]
    rules: Mapping[str, Mapping[str, int]]
    findings: tuple[Diagnostic, ...]
    silenced: tuple[Diagnostic, ...]
    planned: bool
    compile_keys: Mapping[str, tuple[Mapping[str, Any], ...]]

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(self.tiles)


def summarize(spec: Spec, report: Report) -> Summary:
    """The summary of a spec that could be loaded, and of what the checker reports of it."""
    planned = report.plans > 0
    values = spec.document_values
    return Summary(
        kernel=spec.kernel,
        family=spec.family,
        variant=spec.variant or "",
        doc=spec.doc,
        dims={dim.name: domain_words(dim) for dim in spec.dims},
        tensors={
            tensor.name: TensorSummary(" ".join(map(str, tensor.shape)), tuple(spec.dtypes(tensor.name)), tensor.output)
            for tensor in spec.tensors
        },
        scalars={scalar.name: scalar.dtype for scalar in spec.scalars},
        tiles={target.arch: rule_words(spec, target.arch) for target in spec.targets},
        tolerance=_tolerance(spec),
        allow={entry.rule: entry.reason for entry in spec.allow},
        dispatch=tuple(
            f"{entry.call}" + (f" where {entry.when_text}" if entry.when_text else "") for entry in spec.dispatch
        ),
        shapes=tuple(map(shape_words, values.get("shapes", ()))),
        tested={dim.name: dim.values for dim in spec.dims if dim.dynamic},
        tests=tuple(shape_words(case.dims) + (f", {case.dtype}" if case.dtype else "") for case in spec.tests),
        rules=report.rules,
        findings=tuple(entry for entry in report.diagnostics if entry.code.startswith("TG-")),
        silenced=report.silenced,
        planned=planned,
        compile_keys=_compile_keys(spec) if planned else {},
    )


def _tolerance(spec: Spec) -> dict[str, Any] | None:
    found = spec.tolerance
    return None if found is None else {"atol": found.atol, "rtol": found.rtol, "reason": found.reason}


def _compile_keys(spec: Spec) -> dict[str, tuple[dict[str, Any], ...]]:
    """The compile keys of each target; none where the spec cannot be printed, which a build says."""
    try:
        parameters = factory_parameters(spec)
    except RenderError:
        return {}
    found: dict[str, list[dict[str, Any]]] = {target.arch: [] for target in spec.targets}
    for key in compile_keys(spec, parameters):
        found[key["arch"]].append(key)
    return {arch: tuple(keys) for arch, keys in found.items()}
