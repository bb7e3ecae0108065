"""From a spec to its plans: dtype bindings, derived tile values, and the family's plan."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tilegen.families.family import family_of
from tilegen.plan.cases import ignored
from tilegen.targets import target as chip
from tilegen.targets.facts import ByFacts

if TYPE_CHECKING:
    from tilegen.plan.model import Case, TilePlan
    from tilegen.spec.model import Spec
    from tilegen.targets import Target


def dtype_bindings(spec: Spec) -> list[dict[str, str]]:
    """Every choice of a dtype for each tensor: those that list several vary, those that are ``same_as`` follow."""
    free = [tensor for tensor in spec.tensors if tensor.same_as is None]
    bindings = []
    for choice in itertools.product(*(tensor.dtypes or ("float32",) for tensor in free)):
        chosen = {tensor.name: dtype for tensor, dtype in zip(free, choice, strict=True)}
        bindings.append({tensor.name: _followed(spec, tensor.name, chosen) for tensor in spec.tensors})
    return bindings


def _followed(spec: Spec, name: str, chosen: Mapping[str, str]) -> str:
    while name not in chosen:
        name = spec.tensor(name).same_as or name
    return chosen[name]


def complete_case(spec: Spec, arch: str, dtypes: Mapping[str, str], case: Case) -> Case:
    """The case with every tile value that the spec leaves out, as the family derives it."""
    key = _key(dtypes, case)
    return _known_of(spec).cases.of(key, chip(arch), lambda target: _complete(spec, target, dtypes, case))


def _complete(spec: Spec, target: Target, dtypes: Mapping[str, str], case: Case) -> Case:
    derived = family_of(spec).derive(spec, target, dtypes, case.tiles)
    tiles = {**case.tiles, **derived}
    taken = {name: value for name, value in tiles.items() if not ignored(spec, name, tiles.get("schedule"))}
    return replace(case, tiles=taken, chosen={**dict.fromkeys(derived, -1), **case.chosen})


def plan_of(spec: Spec, arch: str, dtypes: Mapping[str, str], case: Case) -> TilePlan:
    """The plan of one instance: a target, a dtype for each tensor, and a case of the tile rules."""
    whole, target = complete_case(spec, arch, dtypes, case), chip(arch)
    plan = _known_of(spec).plans.of(
        _key(dtypes, whole),
        target,
        lambda watched: family_of(spec).plan(spec, watched, dtypes, whole).on(target),
    )
    return plan if plan.target is target else plan.on(target)


@dataclass
class _Known:
    """What was planned of a spec: the checker, the budgets, the header of a kernel and its page ask for the same plans; and
    chips that a family finds alike have the same.
    """

    spec: Spec
    cases: ByFacts[Case] = field(default_factory=ByFacts)
    plans: ByFacts[TilePlan] = field(default_factory=ByFacts)


REMEMBERED, MOST_PLANS = 4, 4096
_known: list[_Known] = []


def _known_of(spec: Spec) -> _Known:
    """What is known of this very spec, a value that never changes; the last few specs are remembered."""
    for entry in _known:
        if entry.spec is spec and len(entry.plans) < MOST_PLANS:
            return entry
    _known[:] = [_Known(spec), *(entry for entry in _known if entry.spec is not spec)][:REMEMBERED]
    return _known[0]


def _key(dtypes: Mapping[str, str], case: Case) -> tuple[Any, ...]:
    tiles, chosen = tuple(case.tiles.items()), frozenset(case.chosen.items())
    return *dtypes.items(), case.condition, case.guard, case.winner, tiles, chosen
