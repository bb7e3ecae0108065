"""Candidates: tilings that are proved for a class of shapes, in the order in which a model expects them to be fast."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilegen.check.domain import domain_of
from tilegen.check.prover import prove
from tilegen.check.rule import rules
from tilegen.expr import evaluate, is_symbolic, parse_condition
from tilegen.lowering.occupancy import occupancy
from tilegen.plan.build import complete_case, dtype_bindings, plan_of
from tilegen.plan.cases import cases
from tilegen.plan.cost import predicted_s
from tilegen.plan.model import Case, TilePlan
from tilegen.plan.resources import fragment_registers, shared_bytes, static_shared_bytes
from tilegen.plan.roles import in_roles
from tilegen.plan.roofline import roofline
from tilegen.spec.diagnostic import Severity
from tilegen.spec.loading import with_lock
from tilegen.spec.model import Swizzle
from tilegen.targets import target as chip

if TYPE_CHECKING:
    from tilegen.spec.model import Spec
    from tilegen.targets import Part

OVERHEAD_REGISTERS = 40
"""Of a thread, beside its fragments: addresses, loop counters."""


@dataclass(frozen=True)
class Candidate:
    """One tiling: ``tiles`` as a winner of the lock would give them, the schedule included; ``predicted_s`` by the model."""

    tiles: Mapping[str, Any]
    predicted_s: float

    @property
    def key(self) -> str:
        """The same for the same tiling, in any run."""
        return json.dumps(plain(self.tiles), sort_keys=True)

    @property
    def label(self) -> str:
        blocks = "x".join(str(value) for name, value in self.tiles.items() if name.startswith("BLOCK_"))
        rest = [f"{n} {v}" for n, v in plain(self.tiles).items() if n != "schedule" and not n.startswith("BLOCK_")]
        return " ".join([str(self.tiles["schedule"]), blocks, *rest])


def plain(tiles: Mapping[str, Any]) -> dict[str, Any]:
    """The values as JSON and TOML have them."""
    return {n: {"panel": v.panel, "order": v.order} if isinstance(v, Swizzle) else v for n, v in tiles.items()}


@dataclass(frozen=True)
class Goal:
    """What is tuned: one shape and dtype on one chip, for the class of shapes where ``when`` holds."""

    spec: Spec
    arch: str
    dtype: str
    dims: Mapping[str, int]
    when: Any
    when_text: str
    part: Part

    @property
    def dtypes(self) -> dict[str, str]:
        return next(found for found in dtype_bindings(self.spec) if next(iter(found.values())) == self.dtype)


def default(goal: Goal) -> Candidate:
    """The tiling that the rules of the spec itself give for the shape: what a winner must beat."""
    env = _env(goal)
    for case in cases(with_lock(goal.spec, None), goal.arch):
        if case.condition is True or evaluate(case.condition, env):
            return _candidate(goal, case.tiles)
    raise LookupError(f"no rule of {goal.spec.path} serves {dict(goal.dims)}")


def ranked(goal: Goal) -> list[Candidate]:
    """Every tiling that the family offers for this chip, the fastest by the model first. Not proved yet."""
    search = import_module(f"tilegen.families.{goal.spec.family}.search")
    found: dict[str, Candidate] = {}
    for tiles in search.tilings(goal.spec, chip(goal.arch), goal.dtypes):
        if tiles["schedule"] not in goal.spec.section.schedules:
            continue
        try:
            candidate = _candidate(goal, tiles)
        except (ValueError, ZeroDivisionError, KeyError, ArithmeticError):
            continue  # sizes that do not divide: no plan, so nothing to prove
        if candidate.predicted_s < float("inf"):
            found.setdefault(candidate.key, candidate)
    # Of tilings that the model holds equal, the one with more in flight, then any order that is the same in every run.
    return sorted(found.values(), key=lambda c: (c.predicted_s, -_depth(c.tiles), c.key))


def _env(goal: Goal) -> dict[str, int]:
    return {**goal.dims, "sm_count": goal.part.sm_count}


def _candidate(goal: Goal, given: Mapping[str, Any]) -> Candidate:
    """The tiling with all that it leaves to the family, as the spec language names it, and what the model says of it."""
    search = import_module(f"tilegen.families.{goal.spec.family}.search")
    full = complete_case(goal.spec, goal.arch, goal.dtypes, Case(True, given, {}))
    env, known = _env(goal), goal.spec.section.tile
    values = {n: evaluate(v, env) if is_symbolic(v) else v for n, v in full.tiles.items()}
    tiles = {n: values[n] for n in ("schedule", *known) if values.get(n) is not None}
    plan = plan_of(goal.spec, goal.arch, goal.dtypes, Case(True, tiles, {}))
    work = search.work(plan, goal.dims, goal.part, resident_blocks(plan, goal))
    roof = roofline(plan).at(goal.dims, goal.part)
    return Candidate(tiles, predicted_s(work, roof, goal.part, goal.part.sm_count))


def _depth(tiles: Mapping[str, Any]) -> int:
    return int(tiles.get("stages", 0))


def resident_blocks(plan: TilePlan, goal: Goal) -> int:
    """Blocks of the largest kernel of a plan that one SM holds, by shared memory, threads and fragment registers."""
    env = _env(goal)

    def number(size: Any) -> int:
        return int(evaluate(size, env)) if is_symbolic(size) else int(size)

    found = []
    for kernel in plan.kernels:
        shared = number(shared_bytes(kernel, plan.target)) + number(static_shared_bytes(kernel))
        fragments = [
            b for b in kernel.buffers if b.scope == "fragment" and len(b.shape) > 1 and b.warp_group in (None, 0)
        ]
        registers = sum(number(fragment_registers(kernel, buffer)) for buffer in fragments if buffer.owners is None)
        registers += max((number(fragment_registers(kernel, b)) for b in fragments if b.owners is not None), default=0)
        capped = min(255, registers + OVERHEAD_REGISTERS)
        threads = number(kernel.launch.block_threads)
        if number(kernel.launch.producer_threads) or plan.schedule in ("one_pass", "two_pass"):
            capped = min(capped, plan.target.registers.per_block // threads // 8 * 8)
        found.append(occupancy(plan.target, threads=threads, shared_bytes=shared, registers=capped).blocks_per_sm)
    return min(found)


def proved(goal: Goal, candidate: Candidate) -> bool:
    """Whether every obligation of every rule holds for the whole class of shapes, in every dtype, those of speed too, but
    for what the spec allows.
    """
    region = domain_of(goal.spec).restricted(goal.when)
    allowed = {entry.rule for entry in goal.spec.allow}
    case = Case(goal.when, candidate.tiles, dict.fromkeys(candidate.tiles, -1))
    for dtypes in dtype_bindings(goal.spec):
        try:
            plan = plan_of(goal.spec, goal.arch, dtypes, case)
        except (ValueError, ZeroDivisionError, KeyError, ArithmeticError):
            return False
        for rule in rules():
            for obligation in (obligation for role in in_roles(plan) for obligation in rule.obligations(role)):
                severity = obligation.severity or rule.severity
                counts = severity is Severity.ERROR or (severity is Severity.SLOW and rule.code not in allowed)
                if counts and not prove(obligation.claim, region).proved:
                    return False
    return True


def proposals(goal: Goal, count: int, alike: int = 3) -> list[Candidate]:
    """The first ``count`` of :func:`ranked` that are proved, at most ``alike`` of them with the same schedule and blocks."""
    found: list[Candidate] = []
    seen: dict[tuple[Any, ...], int] = {}
    for candidate in ranked(goal):
        group = tuple(v for n, v in sorted(candidate.tiles.items()) if n == "schedule" or n.startswith("BLOCK_"))
        if seen.get(group, 0) < alike and proved(goal, candidate):
            seen[group] = seen.get(group, 0) + 1
            found.append(candidate)
        if len(found) == count:
            break
    return found


def class_of(spec: Spec, dims: Mapping[str, int]) -> str:
    """The class of shapes that one measurement stands for: the static dims, and dynamic ones up to the next power of two."""
    parts = []
    for dim in spec.dims:
        size = dims[dim.name]
        if not dim.dynamic:
            parts.append(f"{dim.name} == {size}")
            continue
        high = 1 << (size - 1).bit_length()
        low = high // 2 + 1 if high > 1 else 1
        parts.append(f"{dim.name} == 1" if high == 1 else f"{low} <= {dim.name} <= {high}")
    return " and ".join(parts)


def condition_of(spec: Spec, text: str) -> Any:
    """The condition that ``text`` spells over the dims of the spec. Raises ``ExprError``."""
    return parse_condition(text, [*(dim.name for dim in spec.dims), "sm_count"])


def holds(goal: Goal) -> bool:
    """Whether the class of shapes has the shape that is measured in it."""
    return bool(evaluate(goal.when, _env(goal)))
