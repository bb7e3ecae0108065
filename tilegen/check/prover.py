"""Settles a claim over a domain: proved, refuted with a smallest counterexample, or undecided.

Four steps, cheapest first: the claim is already a bool; interval and divisibility arithmetic; enumeration where the
dims it mentions have few values; z3 under a limit of work. Nothing that runs out of it is passed off as proved.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tilegen.check.claim import Pointwise, divisors
from tilegen.check.domain import ENUMERABLE, Domain
from tilegen.check.thresholds import discretised, probes
from tilegen.expr import all_of, bounds, compare, compile_closure, decide, equal, free_names, negate

FIRST_POINTS = 4096
"""Combinations of values among which the least point of a domain is looked for, before z3 is asked for it."""

FAILING_VALUES = 8
"""Values at which a claim fails that are looked for in the domain, before it is given up."""


class Status(StrEnum):
    PROVED = "proved"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Outcome:
    """``counterexample`` maps every dim that matters to its value; ``method`` is how the claim was settled."""

    status: Status
    method: str
    counterexample: Mapping[str, int] = field(default_factory=dict)
    everywhere: bool = False

    @property
    def proved(self) -> bool:
        return self.status is Status.PROVED


BY_ARITHMETIC = Outcome(Status.PROVED, "arithmetic")


def prove(claim: Any, domain: Domain) -> Outcome:
    """Decides whether ``claim`` holds on all of ``domain``.

    A claim with no free names that is false is refuted *everywhere*: no dim takes part, so the counterexample is empty.
    """
    if claim is True:
        return BY_ARITHMETIC
    if claim is False:
        return Outcome(Status.REFUTED, "arithmetic", everywhere=True)
    if isinstance(claim, Pointwise):
        return _enumerate_pointwise(claim, domain)
    if claim not in domain.settled:
        domain.settled[claim] = _settle(claim, domain)
    found: Outcome = domain.settled[claim]
    return found


def _settle(claim: Any, domain: Domain) -> Outcome:
    by_intervals = decide(claim, domain.narrowed)
    if by_intervals is True and _defined(claim, domain):
        return Outcome(Status.PROVED, "intervals")
    names = domain.closure(free_names(claim))
    telling = discretised(domain, (claim, domain.constraint_on(names)), names)
    size = telling.size(names)
    if size is not None and size <= ENUMERABLE:
        return _enumerate(compile_closure(claim, names), telling, names)
    if by_intervals is False:
        # It fails at every point, so the least point there is is the least counterexample.
        point = domain.first_point(names, FIRST_POINTS)
        if point is not None:
            return Outcome(Status.REFUTED, "intervals", dict(zip(names, point, strict=True)))
    return _solve(claim, domain, names)


def _defined(claim: Any, domain: Domain) -> bool:
    """Whether no divisor of the claim can be zero, by intervals: those look past the points where it has no value."""
    return all(decide(compare("!=", divisor, 0), domain.narrowed) is True for divisor in divisors(claim))


def satisfiable(claim: Any, domain: Domain) -> bool:
    """Whether some point of the domain may satisfy ``claim``; True when it cannot be settled."""
    if isinstance(claim, bool):
        return claim
    names = domain.closure(free_names(claim))
    holds = compile_closure(claim, names)
    if _probed(lambda point: _true(holds, point), claim, domain, names) is not None:
        return True
    return prove(negate(claim), domain).status is not Status.PROVED


def _enumerate(holds: Callable[[Any], Any], domain: Domain, names: tuple[str, ...]) -> Outcome:
    for point in domain.points(names):
        if not _true(holds, point):
            return Outcome(Status.REFUTED, "enumeration", dict(zip(names, point, strict=True)))
    return Outcome(Status.PROVED, "enumeration")


def _enumerate_pointwise(claim: Pointwise, domain: Domain) -> Outcome:
    names = domain.closure(claim.names)
    domain = discretised(domain, (domain.constraint_on(names),), tuple(set(names) - claim.names))
    size = domain.size(names)
    if size is None or size > ENUMERABLE:
        if _holds_untied(claim, domain):
            return Outcome(Status.PROVED, "enumeration")
        return _enumerate_values(claim, domain)
    return _enumerate(claim.compiled(names), domain, names)


def _holds_untied(claim: Pointwise, domain: Domain) -> bool:
    """Whether the claim holds at every point of its own names. What ties them to others only takes points away."""
    own = all_of(*(part for part, mentioned in domain.parts if mentioned <= claim.names))
    untied = Domain(domain.ranges, own, domain.listed)
    names = untied.closure(claim.names)
    size = untied.size(names)
    if size is None or size > ENUMERABLE:
        return False
    return _enumerate(claim.compiled(names), untied, names).proved


def _true(holds: Callable[[Any], Any], point: Any) -> bool:
    """Whether a claim holds at a point; one that divides by zero there has no value, and so does not hold."""
    try:
        return bool(holds(point))
    except ZeroDivisionError:
        return False


def _solve(claim: Any, domain: Domain, names: tuple[str, ...]) -> Outcome:
    from tilegen.check.solver import UndecidedError, counterexample

    try:
        found = counterexample(claim, domain, names)
    except UndecidedError:
        holds = compile_closure(claim, names)
        point = _probed(lambda point: not _true(holds, point), claim, domain, names)
        if point is not None:
            return Outcome(Status.REFUTED, "probes", point)
        return Outcome(Status.UNDECIDED, "z3 reached its limit of work")
    return Outcome(Status.PROVED, "z3") if found is None else Outcome(Status.REFUTED, "z3", found)


def _probed(holds: Callable[[Any], bool], claim: Any, domain: Domain, names: tuple[str, ...]) -> dict[str, int] | None:
    """A point of the domain, among a few telling ones, where ``holds``; None if there is none of these."""
    values = probes(claim, domain, names)
    inside = compile_closure(domain.constraint_on(names), names)
    points = itertools.product(*(values[name] for name in names))
    found = next((point for point in points if _true(inside, point) and holds(point)), None)
    return None if found is None else dict(zip(names, found, strict=True))


def _enumerate_values(claim: Pointwise, domain: Domain) -> Outcome:
    """The claim over what its arguments may be, where the dims behind them have too many values: ``min(N, 128)`` has 128.

    Arguments are taken apart from each other, so what fails must be shown to be reached by some point of the domain.
    """
    values = [_values_of(arg, domain) for arg in claim.args]
    if any(entry is None for entry in values) or math.prod(len(entry or ()) for entry in values) > ENUMERABLE:
        return Outcome(Status.UNDECIDED, "the sizes depend on dims with too many values to enumerate")
    failing = (
        point for point in itertools.product(*(entry or () for entry in values)) if not _true(_spread(claim), point)
    )
    for tried, point in enumerate(failing):
        reached = prove(negate(all_of(*map(equal, claim.args, point))), domain)
        if reached.status is Status.REFUTED:
            return reached
        if tried == FAILING_VALUES or not reached.proved:
            return Outcome(Status.UNDECIDED, f"the sizes may or may not be {', '.join(map(str, point))}")
    return Outcome(Status.PROVED, "values")


def _spread(claim: Pointwise) -> Callable[[Any], bool]:
    return lambda point: claim.predicate(*point)


def _values_of(size: Any, domain: Domain) -> range | None:
    """The values that a size may have by its bounds; None where there are too many."""
    low, high = bounds(size, domain.narrowed)
    if low is None or high is None or high - low > ENUMERABLE:
        return None
    return range(low, high + 1)
