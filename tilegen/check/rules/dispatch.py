"""What must hold of the callables that a spec prefers: a call takes the first case that holds, and there is always one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tilegen.check.prover import satisfiable
from tilegen.check.rule import Obligation, spec_rule
from tilegen.check.rules.tile_values import any_shape
from tilegen.expr import all_of, any_of, negate

if TYPE_CHECKING:
    from tilegen.spec.model import Spec


def dispatch_cases(spec: Spec) -> list[Any]:
    """Where each path of the dispatcher is taken, were every callable there: those preferred, then all that is left.

    Each holds where its own condition does and none before it. The generated kernel and plain torch share the last:
    the kernel takes the declared shapes of it.
    """
    passed: Any = True
    found = []
    for prefer in spec.dispatch:
        when = True if prefer.when is None else prefer.when
        found.append(all_of(passed, when))
        passed = all_of(passed, negate(when))
    return [*found, passed]


@spec_rule(
    "T4",
    "dispatch-case-reached",
    sentence="every preferred callable is the first whose `when` holds for some shape",
    source="the spec language: `prefer` is tried in its order",
)
def dispatch_cases_reached(spec: Spec, arch: str) -> Iterator[Obligation]:
    shapes = any_shape(spec, least=1)
    for index, (prefer, case) in enumerate(zip(spec.dispatch, dispatch_cases(spec), strict=False)):
        yield Obligation(
            satisfiable(case, shapes),
            at=f"dispatch.prefer[{index}]",
            label=f"`{prefer.call}` is never called: where `{prefer.when_text}` holds, an earlier callable is taken",
            related=tuple(f"dispatch.prefer[{earlier}].when" for earlier in range(index)),
            help=("put the narrower condition first",),
        )


@spec_rule(
    "T5",
    "dispatch-cases-partition",
    sentence="for every declared shape exactly one case of the dispatcher holds",
    source="the spec language: the first case that holds, and the last has no condition",
    of_family=True,
)
def dispatch_cases_partition(spec: Spec, arch: str) -> Iterator[Obligation]:
    cases = dispatch_cases(spec)
    yield Obligation(any_of(*cases), at="dispatch", label="no path serves this shape")
    for index, case in enumerate(cases):
        for earlier in cases[:index]:
            yield Obligation(negate(all_of(case, earlier)), at="dispatch", label="two paths claim this shape")
