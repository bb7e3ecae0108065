"""Settles a claim over a domain: proved, refuted with a smallest counterexample, or undecided.

Four steps, cheapest first: the claim is already a bool; interval and divisibility arithmetic; enumeration where the
dims it mentions have few values; z3 with a time limit. Nothing that runs out of time is passed off as proved.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tilegen.check.claim import Pointwise, divisors
from tilegen.check.domain import ENUMERABLE, Domain
from tilegen.check.thresholds import discretised
from tilegen.expr import all_of, any_of, compare, compile_closure, decide, equal, free_names, negate

SOLVER_STEPS = 20_000
"""Limit of one z3 query in z3's own unit of work, which does not depend on the load of the machine. What tiles need takes
300 to 1,500; products of several large dims take any number."""

SOLVER_MS = 500
"""A second limit, in milliseconds, for work that z3 hardly counts."""

SMALLEST_SECONDS = 0.1
"""How long a smaller counterexample is looked for."""


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


def prove(claim: Any, domain: Domain) -> Outcome:
    """Decides whether ``claim`` holds on all of ``domain``.

    A claim with no free names that is false is refuted *everywhere*: no dim takes part, so the counterexample is empty.
    """
    if claim is True:
        return Outcome(Status.PROVED, "arithmetic")
    if claim is False:
        return Outcome(Status.REFUTED, "arithmetic", everywhere=True)
    if isinstance(claim, Pointwise):
        return _enumerate_pointwise(claim, domain)
    if claim not in domain.settled:
        domain.settled[claim] = _settle(claim, domain)
    found: Outcome = domain.settled[claim]
    return found


def _settle(claim: Any, domain: Domain) -> Outcome:
    if decide(claim, domain.ranges) is True and _defined(claim, domain):
        return Outcome(Status.PROVED, "intervals")
    names = domain.closure(free_names(claim))
    domain = discretised(domain, (claim, domain.constraint_on(names)), names)
    size = domain.size(names)
    if size is not None and size <= ENUMERABLE:
        return _enumerate(compile_closure(claim, names), domain, names)
    return _solve(claim, domain, names)


def _defined(claim: Any, domain: Domain) -> bool:
    """Whether no divisor of the claim can be zero, by intervals: those look past the points where it has no value."""
    return all(decide(compare("!=", divisor, 0), domain.ranges) is True for divisor in divisors(claim))


def satisfiable(claim: Any, domain: Domain) -> bool:
    """Whether some point of the domain may satisfy ``claim``; True when it cannot be settled."""
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
        return Outcome(Status.UNDECIDED, "the sizes depend on dims with too many values to enumerate")
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
    import z3

    from tilegen.expr import to_z3

    variables = {name: z3.Int(name) for name in names}
    # The plain solver: the default one turns bounded integers into bits, and takes 50 times as long for M <= 2**31 - 1.
    solver = z3.SimpleSolver()
    solver.set("rlimit", SOLVER_STEPS)
    solver.set("timeout", SOLVER_MS)
    solver.set("random_seed", 0)
    for name in names:
        range_ = domain.ranges[name]
        if range_.lo is not None:
            solver.add(variables[name] >= range_.lo)
        if range_.hi is not None:
            solver.add(variables[name] <= range_.hi)
        if range_.multiple_of > 1:
            solver.add(variables[name] % range_.multiple_of == 0)
    undefined = any_of(*(equal(divisor, 0) for divisor in divisors(claim)))
    solver.add(to_z3(all_of(domain.constraint_on(names), any_of(negate(claim), undefined)), variables))
    answer = solver.check()
    if answer == z3.unsat:
        return Outcome(Status.PROVED, "z3")
    if answer != z3.sat:
        corner = _failing_corner(claim, domain, names)
        if corner is not None:
            return Outcome(Status.REFUTED, "corners", corner)
        return Outcome(Status.UNDECIDED, "z3 reached its limit of work")
    return Outcome(Status.REFUTED, "z3", _smallest(solver, variables, domain))


def _failing_corner(claim: Any, domain: Domain, names: tuple[str, ...]) -> dict[str, int] | None:
    """A point where the claim fails, among the ends of ranges and the listed values; None if there is none of these."""
    ends: dict[str, tuple[int, ...]] = {}
    for name in names:
        low, high = domain.ranges[name].lo, domain.ranges[name].hi
        if name not in domain.listed and (low is None or high is None):
            return None
        ends[name] = domain.listed[name] if name in domain.listed else tuple(sorted({low or 0, high or 0}))
    if math.prod(map(len, ends.values())) > ENUMERABLE:
        return None
    points = replace(domain, listed=ends).points(names)
    holds = compile_closure(claim, names)
    failing = next((point for point in points if not _true(holds, point)), None)
    return None if failing is None else dict(zip(names, failing, strict=True))


def _smallest(solver: Any, variables: Mapping[str, Any], domain: Domain) -> dict[str, int]:
    """The lexicographically least model, name by name, by bisection; each name keeps the best value found in time."""
    import z3

    stop = time.monotonic() + SMALLEST_SECONDS
    found = _values(solver.model(), variables)
    for name, variable in variables.items():
        low, high = domain.ranges[name].lo or 0, found[name]
        while low < high and time.monotonic() < stop:
            middle = (low + high) // 2
            solver.push()
            solver.add(variable <= middle)
            answer = solver.check()
            if answer == z3.sat:
                found = _values(solver.model(), variables)
                high = found[name]
            solver.pop()
            if answer == z3.unknown:
                break
            if answer == z3.unsat:
                low = middle + 1
        solver.add(variable == high)
    return found


def _values(model: Any, variables: Mapping[str, Any]) -> dict[str, int]:
    return {name: model.eval(variable, model_completion=True).as_long() for name, variable in variables.items()}
