"""``tilegen build``: check, render, verify, emit. Nothing is written unless every kernel passes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tilegen.check.checker import check
from tilegen.emit.artefacts import StaleFactsError, compile_key, kernel_folder, manifest, manifest_entry
from tilegen.emit.content import MANIFEST
from tilegen.emit.rendering import Rendering, render
from tilegen.emit.tree import read_tree, replace_tree
from tilegen.families.family import family_of
from tilegen.plan.instances import Instance, instances
from tilegen.spec.diagnostic import Diagnostic, Severity

if TYPE_CHECKING:
    from tilegen.spec.model import Spec
    from tilegen.verify.pipeline import Job, Outputs, Verified

Depth = Literal["representative", "all", "none"]


@dataclass(frozen=True)
class Built:
    """The new tree, what differs from the one on disk, and what was found on the way."""

    tree: Mapping[str, bytes]
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]
    lowered: int = 0
    resources: tuple[dict[str, Any], ...] = field(default=())

    @property
    def failed(self) -> bool:
        return any(entry.severity is Severity.ERROR for entry in self.diagnostics)

    @property
    def differs(self) -> bool:
        return bool(self.added or self.changed or self.removed)


class BuildError(Exception):
    """Why nothing was built: the diagnostics say so."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(f"{len(self.diagnostics)} findings")


def build(
    specs: Iterable[Spec],
    destination: Path,
    *,
    targets: tuple[str, ...] = (),
    depth: Depth = "representative",
    workers: int = 1,
    partial: bool = False,
    progress: Callable[[str, int], None] = lambda _message, _total: None,
) -> Built:
    """Builds every spec and compares with what ``destination`` holds; writes nothing (see :func:`write`).

    ``targets`` limits what is lowered; the facts of other targets stay as recorded, which needs an unchanged kernel (else
    ``StaleFactsError``). ``partial``: the specs are a part of the tree, so other
    kernels of ``destination`` stay. Raises :class:`BuildError` where a check fails or the plan and TileLang disagree.
    """
    specs = list(specs)
    diagnostics = _checked(specs)
    renderings = {spec.kernel: render(spec) for spec in specs}
    jobs = {spec.kernel: list(_jobs(spec, renderings[spec.kernel], depth, targets)) for spec in specs}
    verified, outputs = _verify(specs, renderings, jobs, workers, progress)
    diagnostics += _disagreements(specs, verified)
    diagnostics += _slow(specs, verified)
    if any(entry.severity is Severity.ERROR for entry in diagnostics):
        raise BuildError(diagnostics)
    old = read_tree(destination)
    tree = _tree(specs, renderings, verified, outputs, old, partial, targets)
    return Built(
        tree,
        tuple(sorted(tree.keys() - old.keys())),
        tuple(sorted(name for name in tree.keys() & old.keys() if tree[name] != old[name])),
        tuple(sorted(old.keys() - tree.keys())),
        tuple(diagnostics),
        sum(len({entry.job.name for entry in entries}) for entries in verified.values()),
    )


def write(built: Built, destination: Path) -> None:
    """Replaces the tree on disk, atomically, if it differs."""
    if built.differs:
        replace_tree(destination, built.tree)


def _checked(specs: list[Spec]) -> list[Diagnostic]:
    verdicts = [check(spec) for spec in specs]
    diagnostics = [entry for verdict in verdicts for entry in verdict.diagnostics]
    if any(not verdict.ok for verdict in verdicts):
        raise BuildError(diagnostics)
    return diagnostics


def _jobs(spec: Spec, rendering: Rendering, depth: Depth, targets: tuple[str, ...]) -> Iterable[Job]:
    from tilegen.verify.pipeline import Job

    for target in spec.targets:
        if targets and target.arch not in targets:
            continue
        found = list(instances(spec, target.arch))
        representatives = _representatives(found)
        recorded = [compile_key(instance, rendering.parameters) for instance in representatives]
        # Cases that differ in what is no compile key, like the number of splits, share one kernel.
        for instance in found if depth == "all" else representatives:
            key = compile_key(instance, rendering.parameters)
            yield Job(instance, rendering.files["kernel.py"], key, key in recorded)


def _representatives(found: list[Instance]) -> list[Instance]:
    """What is lowered at least of a target's instances: the first of each case, of each role, of each choice of dtypes."""
    chosen: list[Instance] = []
    seen: set[tuple[Any, ...]] = set()
    for instance in found:
        case = ("case", instance.case.winner, *sorted(instance.case.chosen.items()))
        role = ("role", instance.tiles["schedule"], *instance.role.items())
        dtypes = ("dtypes", *instance.dtypes.values())
        if not seen.issuperset((case, role, dtypes)):
            chosen.append(instance)
        seen.update((case, role, dtypes))
    return chosen


def _verify(
    specs: list[Spec],
    renderings: Mapping[str, Rendering],
    jobs: Mapping[str, list[Job]],
    workers: int,
    progress: Callable[[str, int], None],
) -> tuple[dict[str, list[Verified]], dict[str, Outputs]]:
    from tilegen.verify.pipeline import Reference, verify

    references = {}
    for spec in specs:
        files = renderings[spec.kernel].files
        references[spec.kernel] = Reference(
            files["reference.py"], files["_golden.py"], family_of(spec).golden_cases(spec)
        )
    total = sum(len({entry.name for entry in entries}) for entries in jobs.values())
    flat = [job for entries in jobs.values() for job in entries]
    compared, outputs = verify(flat, references, workers, lambda name: progress(name, total))
    results = iter(compared)
    return {kernel: [next(results) for _ in entries] for kernel, entries in jobs.items()}, outputs


def _disagreements(specs: list[Spec], verified: Mapping[str, list[Verified]]) -> list[Diagnostic]:
    found = []
    for spec in specs:
        for entry in verified[spec.kernel]:
            for difference in entry.disagreements:
                found.append(
                    Diagnostic(
                        code="TG-V1",
                        name="plan-and-compiler-agree",
                        severity=Severity.ERROR,
                        message=f"the plan and TileLang disagree on {entry.job.name}",
                        span=spec.span("tile"),
                        label=difference,
                        help=("this is a fault of tilegen's model or template, not of the spec: please report it",),
                    )
                )
    return found


def _slow(specs: list[Spec], verified: Mapping[str, list[Verified]]) -> list[Diagnostic]:
    """What ptxas warns of: spills, and WGMMA that it serialised."""
    found = []
    for spec in specs:
        for entry in verified[spec.kernel]:
            ptxas = entry.observed.get("ptxas") or {}
            spills = {name: usage["spill_bytes"] for name, usage in ptxas.get("kernels", {}).items()}
            labels = [f"{name} spills {count} bytes of registers" for name, count in spills.items() if count]
            labels += [f"ptxas: {warning}" for warning in ptxas.get("warnings", ())]
            for label in labels:
                found.append(
                    Diagnostic(
                        code="TG-V2",
                        name="compiled-without-spills",
                        severity=Severity.SLOW,
                        message=f"{entry.job.name} is slower than its tiling",
                        span=spec.span("tile"),
                        label=label,
                        help=("give the accumulators more threads, or a smaller tile",),
                    )
                )
    return found


def _tree(
    specs: list[Spec],
    renderings: Mapping[str, Rendering],
    verified: Mapping[str, list[Verified]],
    outputs: Mapping[str, Mapping[str, bytes]],
    old: Mapping[str, bytes],
    partial: bool,
    targets: tuple[str, ...],
) -> dict[str, bytes]:
    folders: dict[str, dict[str, bytes]] = {}
    entries: dict[str, dict[str, Any]] = {}
    if partial and MANIFEST in old:
        try:
            known = json.loads(old[MANIFEST])["kernels"]
            for kernel, entry in known.items():
                folders[kernel] = {
                    name: old[f"{kernel}/{name}"] for name in entry["files"] if f"{kernel}/{name}" in old
                }
                entries[kernel] = {key: value for key, value in entry.items() if key != "files"}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise StaleFactsError(f"{MANIFEST} is damaged: build all specs, so that it is written anew") from None
    for spec in specs:
        folders[spec.kernel] = kernel_folder(
            spec,
            renderings[spec.kernel],
            {entry.job.name: entry for entry in verified[spec.kernel] if entry.job.recorded}.values(),
            family_of(spec).golden_cases(spec),
            outputs[spec.kernel],
            old.get(f"{spec.kernel}/golden/facts.json"),
            targets,
        )
        entries[spec.kernel] = manifest_entry(spec, renderings[spec.kernel].parameters)
    tree = {f"{kernel}/{name}": content for kernel, files in folders.items() for name, content in files.items()}
    tree[MANIFEST] = manifest(folders, entries)
    return tree
