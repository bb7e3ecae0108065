"""What the checker says of one spec file, as plain values: what the commands print, and what the cache keeps.

Nothing here needs the spec itself, so a cached report costs no sympy.
"""

from __future__ import annotations

import gc
import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilegen import cache
from tilegen.spec.diagnostic import Diagnostic, Severity, SpecError, from_json, to_json
from tilegen.spec.find import lock_bytes
from tilegen.spread import processes_for, spread

if TYPE_CHECKING:
    from tilegen.spec.model import Spec

KIND = "verdicts"
"""Folder of the cache."""

SPECS_A_PROCESS = 4
"""Specs below which another process costs more than it saves."""

FAILING = {Severity.ERROR}
STRICT = FAILING | {Severity.SLOW, Severity.UNDECIDED}


@dataclass(frozen=True)
class Report:
    """``rules`` maps the code of each rule to how many of its obligations were proved, refuted and undecided;
    ``methods`` how many of all were settled by each method. ``kernel`` is empty where the spec could not be read.
    ``silenced`` are findings that ``[allow]`` hides. ``lock`` is the file of its winners, of which there are ``winners``;
    empty without one.
    """

    path: str
    kernel: str
    diagnostics: tuple[Diagnostic, ...]
    silenced: tuple[Diagnostic, ...] = ()
    proved: int = 0
    refuted: int = 0
    undecided: int = 0
    plans: int = 0
    rules: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    methods: Mapping[str, int] = field(default_factory=dict)
    lock: str = ""
    winners: int = 0

    def fails(self, strict: bool) -> bool:
        """Whether a command must exit 1. ``strict`` also refuses what is slow and what is undecided."""
        bad = STRICT if strict else FAILING
        return any(diagnostic.severity in bad for diagnostic in self.diagnostics)

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "kernel": self.kernel,
            "proved": self.proved,
            "refuted": self.refuted,
            "undecided": self.undecided,
            "plans": self.plans,
            "rules": {code: dict(counts) for code, counts in self.rules.items()},
            "methods": dict(self.methods),
            "lock": self.lock,
            "winners": self.winners,
            "diagnostics": [to_json(diagnostic) for diagnostic in self.diagnostics],
            "silenced": [to_json(diagnostic) for diagnostic in self.silenced],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Report:
        """The report that :meth:`to_json` wrote. KeyError, TypeError or ValueError for anything else."""
        return cls(
            path=data["path"],
            kernel=data["kernel"],
            proved=data["proved"],
            refuted=data["refuted"],
            undecided=data["undecided"],
            plans=data["plans"],
            rules=dict(data["rules"]),
            methods=dict(data["methods"]),
            lock=data["lock"],
            winners=data["winners"],
            diagnostics=tuple(from_json(entry) for entry in data["diagnostics"]),
            silenced=tuple(from_json(entry) for entry in data["silenced"]),
        )


def report_on(path: Path, *, cached: bool = True) -> Report:
    """Checks the spec in the file at ``path``. What is wrong with the file itself is a diagnostic, not an exception.

    ``cached`` takes a verdict that is known from the same spec at the same path, by the same tilegen and Python.
    """
    (report,) = reports_on([path], cached=cached)
    return report


def reports_on(
    paths: Sequence[Path], *, cached: bool = True, progress: Callable[[Path], None] = lambda _: None
) -> list[Report]:
    """The reports on several specs, in their order. Those that are not known are checked in parallel where that pays."""
    found: dict[Path, Report] = {}
    unknown: dict[Path, Texts] = {}
    for path in paths:
        data = _read(path)
        known = data if isinstance(data, Report) else known_report(path, data) if cached else None
        if known is not None:
            found[path] = known
        elif isinstance(data, tuple):
            unknown[path] = data
    for path, report in _check_all(unknown, progress):
        found[path] = report
        # An undecided obligation may be settled on a faster day, so only verdicts that cannot change are kept.
        if cached and report.undecided == 0:
            cache.write(KIND, _key(path, unknown[path]), report.to_json())
    return [found[path] for path in paths]


Texts = tuple[bytes, bytes | None]
"""What a spec file and its lock hold."""


def _read(path: Path) -> Texts | Report:
    try:
        return path.read_bytes(), lock_bytes(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        diagnostic = Diagnostic("spec-unreadable", "unreadable", Severity.ERROR, f"cannot read {path}: {reason}", None)
        return Report(str(path), "", (diagnostic,))


def known_report(path: Path, data: Texts) -> Report | None:
    """The report that is kept of these texts at this path, if there is one."""
    stored = cache.read(KIND, _key(path, data))
    if stored is None:
        return None
    try:
        return Report.from_json(stored)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None  # not an entry that tilegen wrote


def _key(path: Path, data: Texts) -> str:
    hashes = [None if text is None else hashlib.sha256(text).hexdigest() for text in data]
    return cache.digest(cache.package_digest(), sys.version, str(path), hashes)


def _check_all(specs: Mapping[Path, Texts], progress: Callable[[Path], None]) -> Iterator[tuple[Path, Report]]:
    if not specs:
        return
    import_ahead()
    paths = list(specs)

    def checked(path: Path) -> Report:
        progress(path)
        return report_of(str(path), *specs[path])

    for number, report in spread(checked, paths, processes_for(len(paths), SPECS_A_PROCESS)):
        yield paths[number], report


def import_ahead() -> None:
    """Imports what checking any spec needs: once, before processes are forked, and without looking for garbage meanwhile,
    of which modules make none.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        import_module("tilegen.check.checker")
        import_module("tilegen.spec.loading")
        from tilegen.check.rule import catalogue
        from tilegen.expr import add, symbol
        from tilegen.families import names
        from tilegen.families.family import family

        catalogue()
        add(symbol("a"), symbol("b"))  # sympy imports its tensors at the first sum
        for name in names():
            family(name)
        gc.freeze()
    finally:
        if collecting:
            gc.enable()


def report_of(path: str, data: bytes, lock: bytes | None = None) -> Report:
    """The report on the spec in ``data``, which stands at ``path`` or will, with what its lock holds; nothing is read from
    there, nor kept.
    """
    from tilegen.spec import load_bytes

    try:
        spec = load_bytes(data, path, lock)
    except SpecError as error:
        return Report(path, "", error.diagnostics)
    return report_of_spec(spec)


def report_of_spec(spec: Spec, *, mends: Callable[[Diagnostic], bool] = lambda _: True) -> Report:
    """The report on a spec that could be loaded. ``mends`` says which findings offer the nearest legal values."""
    from tilegen.check.checker import check

    verdict = check(spec, mends=mends)
    return Report(
        spec.path,
        spec.kernel,
        verdict.diagnostics,
        verdict.silenced,
        verdict.proved,
        verdict.refuted,
        verdict.undecided,
        verdict.plans,
        verdict.rules,
        verdict.methods,
        spec.lock.path if spec.lock else "",
        len(spec.lock.winners) if spec.lock else 0,
    )
