"""The cases of a spec: every way through its tile rules that some declared shape takes.

A tile parameter is a list of first-match rules. Picking one rule for each parameter gives a case; its condition is that
those rules match and no earlier one does. Cases that no declared shape reaches are dropped. A winner of the lock is a case
of its own, ahead of all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tilegen.check.domain import domain_over
from tilegen.check.prover import satisfiable
from tilegen.expr import all_of, free_names, is_symbolic, negate, substitute
from tilegen.plan.model import Case

if TYPE_CHECKING:
    from tilegen.spec.model import Dim, Spec, TileValue, Winner


def cases(spec: Spec, arch: str, overrides: Mapping[str, int] | None = None) -> Iterator[Case]:
    """Every reachable case on ``arch``, in the order of the rules. ``overrides`` replaces parameters by fixed values."""
    key = (spec.path, spec.digest, sharer(spec, arch), tuple(sorted((overrides or {}).items())))
    if key not in _found:
        if len(_found) >= REMEMBERED:
            _found.clear()
        values, fixed = spec.tile_for(arch), dict(overrides or {})
        won = _won(spec, arch, fixed)
        left = all_of(*(negate(winner.when) for winner in winners_on(spec, arch).values()))
        start = Case(left, fixed, dict.fromkeys(fixed, -1))
        rest = _extend(start, evaluation_order(values), values, spec) if _reachable(left, spec.dims) else ()
        _found[key] = (*won, *rest)
    return iter(_found[key])


def sharer(spec: Spec, arch: str) -> str:
    """The first target with the tile rules of ``arch``: where a spec gives a target none of its own, all share them."""
    tuned = {winner.target for winner in spec.lock.winners} if spec.lock is not None else set()
    shared = [t.arch for t in spec.targets if not t.tile and t.schedule is None and t.arch not in tuned]
    return shared[0] if arch in shared else arch


def winners_on(spec: Spec, arch: str) -> dict[int, Winner]:
    """The winners of the lock for ``arch`` by their places in it."""
    entries = enumerate(spec.lock.winners) if spec.lock is not None else ()
    return {index: winner for index, winner in entries if winner.target == arch}


def _won(spec: Spec, arch: str, overrides: Mapping[str, int]) -> Iterator[Case]:
    """A case for each winner that some declared shape reaches, ahead of the rules of the spec."""
    passed: Any = True
    for index, winner in winners_on(spec, arch).items():
        condition = all_of(passed, winner.when)
        if _reachable(condition, spec.dims):
            tiles = {**winner.tiles, **overrides}
            yield Case(condition, tiles, dict.fromkeys(tiles, -1), winner.when, index)
        passed = all_of(passed, negate(winner.when))


REMEMBERED = 256
_found: dict[tuple[Any, ...], tuple[Case, ...]] = {}


def evaluation_order(values: Mapping[str, TileValue]) -> list[str]:
    """The parameters so that each comes after those that it mentions. The loader has refused cycles."""
    done: list[str] = ["schedule"] if "schedule" in values else []

    def visit(name: str) -> None:
        if name in done or name not in values:
            return
        for rule in values[name].rules:
            for other in sorted(_mentions(rule.use) | _mentions(rule.when)):
                visit(other)
        done.append(name)

    for name in values:
        visit(name)
    return done


def _mentions(expression: Any) -> frozenset[str]:
    return free_names(expression) if is_symbolic(expression) else frozenset()


@lru_cache(maxsize=4096)
def _reachable(condition: Any, dims: tuple[Dim, ...]) -> bool:
    """Whether some declared shape satisfies the condition. The same few conditions are asked about many times."""
    return satisfiable(condition, domain_over(dims))


def ignored(spec: Spec, name: str, schedule: str | None) -> bool:
    """Whether the tile parameter is one that ``schedule`` does not take; never, while the schedule is not known."""
    takers = spec.section.tile[name].schedules if name in spec.section.tile else ()
    return bool(takers) and schedule is not None and schedule not in takers


def _extend(case: Case, names: list[str], values: Mapping[str, TileValue], spec: Spec) -> Iterator[Case]:
    if not names:
        yield case
        return
    name, rest = names[0], names[1:]
    mentioned = any(
        name in _mentions(rule.use) | _mentions(rule.when) for other in rest for rule in values[other].rules
    )
    if name in case.tiles or (ignored(spec, name, case.tiles.get("schedule")) and not mentioned):
        yield from _extend(case, rest, values, spec)
        return
    passed: Any = True
    for index, rule in enumerate(values[name].rules):
        when = True if rule.when is None else substitute(rule.when, case.tiles)
        condition = all_of(case.condition, passed, when)
        if _reachable(condition, spec.dims):
            use = substitute(rule.use, case.tiles) if is_symbolic(rule.use) else rule.use
            guard = all_of(case.guard, when)
            grown = Case(condition, {**case.tiles, name: use}, {**case.chosen, name: index}, guard)
            yield from _extend(grown, rest, values, spec)
        passed = all_of(passed, negate(when))


def cases_before(spec: Spec, arch: str, name: str) -> Iterator[Case]:
    """The cases of the parameters that ``name`` depends on: where, and with which values, its rules are evaluated."""
    values = spec.tile_for(arch)
    before = [other for other in evaluation_order(values) if other != name and _before(spec, other, name, values)]
    return (
        case
        for case in _extend(Case(True, {}, {}), before, values, spec)
        if not ignored(spec, name, case.tiles.get("schedule"))
    )


def _before(spec: Spec, other: str, name: str, values: Mapping[str, TileValue]) -> bool:
    """Whether ``name``, or the conditions of its rules at any depth, depends on ``other``."""
    if other == "schedule":
        return bool(spec.section.tile[name].schedules)
    seen: set[str] = set()
    pending = [name]
    while pending:
        for rule in values[pending.pop()].rules:
            for mention in (_mentions(rule.use) | _mentions(rule.when)) & values.keys():
                if mention not in seen:
                    seen.add(mention)
                    pending.append(mention)
    return other in seen
