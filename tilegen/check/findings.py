"""From obligations that were not proved to the diagnostics that a reader gets: one for each rule and spec line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any

from tilegen.check.nearest import Mends, Tried, nearest_legal
from tilegen.check.prover import Status
from tilegen.check.result import Result
from tilegen.expr import to_text
from tilegen.plan.build import dtype_bindings
from tilegen.spec.diagnostic import Diagnostic, Severity
from tilegen.spec.source import Span

if TYPE_CHECKING:
    from tilegen.spec.model import Spec

Cases = Set[tuple[str, Any]]
"""The cases of a spec: each target with the conditions of its own."""

ORDER = {Severity.ERROR: 0, Severity.UNDECIDED: 1, Severity.SLOW: 2, Severity.NOTE: 3}

CONFLICT = "cannot hold together: "
"""How the note begins that names a minimal set of tile values at odds."""


def findings(
    spec: Spec,
    results: Iterable[Result],
    cases: Cases = frozenset(),
    *,
    mends: Callable[[Diagnostic], bool] = lambda _: True,
) -> list[Diagnostic]:
    """The diagnostics, errors first, then by line. Findings that differ only in target, dtype or case are merged; what
    the spec allows, with its reason, is left out. ``cases`` are all that were planned, for a finding says where it holds.
    ``mends`` says for which of them the nearest legal values are looked for, which takes long.
    """
    groups: dict[tuple[str, str, Severity], list[Result]] = {}
    for result in results:
        if not result.outcome.proved:
            at = located(spec, result.obligation.at, result)
            groups.setdefault((result.rule.id, at, result.severity), []).append(result)
    allowed = {entry.rule.removeprefix("TG-") for entry in spec.allow}
    tried: Tried = {}
    diagnostics = [
        _diagnostic(spec, at, severity, group, cases, mends, tried)
        for (id, at, severity), group in groups.items()
        if id not in allowed or severity is Severity.ERROR
    ]
    return sorted(diagnostics, key=lambda entry: (ORDER[entry.severity], _line(entry.span), entry.code))


def _line(span: Span | None) -> tuple[int, int]:
    return (span.line, span.column) if span else (0, 0)


def located(spec: Spec, path: str, result: Result) -> str:
    """``path`` as the file gives it: a tile value of the target's own table, and the rule of a list that was chosen; in
    the lock where the values are those of a winner.
    """
    if result.case.winner is not None and (path == "schedule" or path.startswith("tile.")):
        return f"winner[{result.case.winner}].{path}"
    table, _, rest = path.partition(".")
    name = rest.split("[")[0].split(".")[0]
    if table != "tile" or not name:
        return path
    own = f"target.{result.arch}.tile"
    path = f"{own}.{rest}" if spec.has(f"{own}.{name}") else path
    index = result.case.chosen.get(name, -1)
    chosen = f"{path}[{index}].use"
    return chosen if index >= 0 and "[" not in rest and spec.has(chosen) else path


def _diagnostic(
    spec: Spec,
    at: str,
    severity: Severity,
    group: list[Result],
    cases: Cases,
    mends: Callable[[Diagnostic], bool],
    tried: Tried,
) -> Diagnostic:
    """One finding, first without its mends, then with them where they are wanted."""
    first = group[0]
    bare = _finding(spec, at, severity, group, cases, Mends((), ()))
    if severity not in (Severity.ERROR, Severity.SLOW) or first.rule.over_spec or not mends(bare):
        return bare
    return _finding(spec, at, severity, group, cases, nearest_legal(spec, first, tried))


def _finding(spec: Spec, at: str, severity: Severity, group: list[Result], cases: Cases, mends: Mends) -> Diagnostic:
    first = group[0]
    rule, obligation, outcome = first.rule, first.obligation, first.outcome
    notes = [_where(spec, group, cases)]
    if outcome.status is Status.UNDECIDED:
        notes.append(f"not settled: {outcome.method}")
    if obligation.today or rule.today:
        notes.append(obligation.today or rule.today)
    if rule.cost and severity is Severity.SLOW:
        notes.append(f"measured: {rule.cost}")
    if mends.conflict:
        notes.insert(1, CONFLICT + ", ".join(f"{p} = {first.case.tiles[p]}" for p in mends.conflict))
    return Diagnostic(
        code=rule.code,
        name=rule.name,
        severity=severity,
        message=obligation.statement or rule.sentence,
        span=spec.span(at),
        label=obligation.explain(outcome.counterexample),
        notes=tuple(notes),
        help=(*mends.lines, *obligation.advice()),
        see=f"tilegen explain {rule.code}",
        related=tuple((spec.span(path), "") for path in _related(spec, first, at, mends)),
    )


def _related(spec: Spec, result: Result, at: str, mends: Mends) -> Iterator[str]:
    """The other lines of the conflict: a minimal set of lines that cannot hold together; else those that could end it
    alone, or all that take part where none could.
    """
    candidates = [path for path in result.obligation.related if path != result.obligation.at]
    if mends.conflict:
        candidates = [path for path in candidates if path.removeprefix("tile.") in mends.conflict]
    elif mends.parameters:
        candidates = [path for path in candidates if path.removeprefix("tile.") in mends.parameters]
    for path in candidates:
        found = located(spec, path, result)
        if found != at and spec.has(found):
            yield found


def _where(spec: Spec, group: list[Result], cases: Cases) -> str:
    """For which shapes, targets, dtypes and cases a finding holds."""
    first = group[0]
    archs = sorted({result.arch for result in group})
    concerned = {(result.arch, result.case.condition) for result in group}
    everywhere = concerned >= {case for case in cases if case[0] in archs}
    if first.outcome.status is Status.UNDECIDED:
        parts = ["over the whole domain"]
    elif first.outcome.everywhere:
        parts = ["for every declared shape" if everywhere else "for every shape of the case"]
    else:
        parts = [f"smallest: {shape_text(first.outcome.counterexample)}"]
    if len(archs) < len(spec.targets):
        parts.append("on " + ", ".join(archs))
    dtypes = sorted({result.dtypes for result in group if result.dtypes})
    if dtypes and len(dtypes) < len(dtype_bindings(spec)):
        parts.append("for " + " and ".join(dtypes))
    if not everywhere:
        parts += _conditions(group)
    return "; ".join(parts)


def _conditions(group: list[Result]) -> Iterator[str]:
    """The conditions of the cases of a finding, where there are few enough to read."""
    conditions = list(
        dict.fromkeys(to_text(result.case.condition) for result in group if result.case.condition is not True)
    )
    short = [condition for condition in conditions if len(condition) <= 60]
    if short:
        yield f"where {short[0]}" + (f" (and {len(conditions) - 1} more cases)" if len(conditions) > 1 else "")


def shape_text(counterexample: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in counterexample.items())
