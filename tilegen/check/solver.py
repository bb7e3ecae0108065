"""z3, for claims over ranges too large to enumerate: under limits of work, and asked for the least counterexample.

All limits count z3's own units of work, which do not depend on the machine or its load: the same claim is settled the
same way everywhere. A wall clock stands behind them for work that z3 hardly counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilegen.check.claim import divisors
from tilegen.check.domain import Domain
from tilegen.expr import all_of, any_of, equal, negate

QUERY_STEPS = 20_000
"""Limit of one query. What tiles need takes 300 to 1,500; products of several large dims take any number."""

QUERY_MS = 150
"""The second limit, in milliseconds."""

SMALLEST_STEPS = 40_000
"""Work that may be spent on a smaller counterexample."""


class UndecidedError(Exception):
    """z3 reached its limit of work."""


def counterexample(claim: Any, domain: Domain, names: tuple[str, ...]) -> dict[str, int] | None:
    """The lexicographically least point over ``names`` where ``claim`` does not hold, or as small a one as the limit of
    work allows; None if it holds everywhere. Raises :class:`UndecidedError`.
    """
    import z3

    from tilegen.expr import to_z3

    # A context of its own: in a shared one the answer under a limit depends on what was asked before.
    context = z3.Context()
    terms = {name: z3.Int(name) for name in names}
    variables = {name: term.translate(context) for name, term in terms.items()}
    solver = _solver(variables, domain, context)
    undefined = any_of(*(equal(divisor, 0) for divisor in divisors(claim)))
    failing = to_z3(all_of(domain.constraint_on(names), any_of(negate(claim), undefined)), terms)
    solver.add(failing.translate(context))
    if _decided(solver.check()) == z3.unsat:
        return None
    # Most claims hold for more than is listed, and lists cost z3 much: only now is it told of them.
    solver.add(*_memberships(variables, domain))
    if _decided(solver.check()) == z3.unsat:
        return None
    return _smallest(solver, variables, domain)


def _decided(answer: Any) -> Any:
    import z3

    if answer == z3.unknown:
        raise UndecidedError
    return answer


def _memberships(variables: Mapping[str, Any], domain: Domain) -> Iterator[Any]:
    """That each variable has one of the listed values of its name, where its range does not say as much."""
    import z3

    for name, variable in variables.items():
        if name not in domain.listed:
            continue
        values, range_ = domain.listed[name], domain.narrowed[name]
        if range_.lo is not None and range_.hi is not None:
            ranged = range(range_.lo, range_.hi + 1)
            within = {value for value in values if value in ranged and value % range_.multiple_of == 0}
            if len(within) == range_.hi // range_.multiple_of - (range_.lo - 1) // range_.multiple_of:
                continue
        yield z3.Or([variable == value for value in values])


def _solver(variables: Mapping[str, Any], domain: Domain, context: Any) -> Any:
    """A solver that knows the ranges of the domain."""
    import z3

    # The plain solver: the default one turns bounded integers into bits, and takes 50 times as long for M <= 2**31 - 1.
    solver = z3.SimpleSolver(ctx=context)
    solver.set("rlimit", QUERY_STEPS)
    solver.set("timeout", QUERY_MS)
    solver.set("random_seed", 0)
    for name, variable in variables.items():
        range_ = domain.narrowed[name]
        if range_.lo is not None:
            solver.add(variable >= range_.lo)
        if range_.hi is not None:
            solver.add(variable <= range_.hi)
        if range_.multiple_of > 1:
            solver.add(variable % range_.multiple_of == 0)
    return solver


def _smallest(solver: Any, variables: Mapping[str, Any], domain: Domain) -> dict[str, int]:
    """The lexicographically least model, name by name, by bisection; each name keeps the best value that was found."""
    import z3

    found = _values(solver.model(), variables)
    stop = _work(solver) + SMALLEST_STEPS
    for name, variable in variables.items():
        low, high = domain.narrowed[name].lo or 0, found[name]
        while low < high and _work(solver) < stop:
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


def _work(solver: Any) -> int:
    """Units of work that the solver has done so far."""
    statistics = solver.statistics()
    counted = statistics.keys()
    return int(statistics.get_key_value("rlimit count")) if "rlimit count" in counted else 0


def _values(model: Any, variables: Mapping[str, Any]) -> dict[str, int]:
    return {name: model.eval(variable, model_completion=True).as_long() for name, variable in variables.items()}
