"""What a page shows: one view for each target and case of the tile rules, with every proof on its plans."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilegen.expr import to_text
from tilegen.review.page.sized import SizedPlan, drawn_shape

if TYPE_CHECKING:
    from tilegen.check.result import Result
    from tilegen.plan.model import TilePlan
    from tilegen.spec.model import Spec


@dataclass(frozen=True)
class View:
    """``number`` counts the cases of a target from 1; ``dtypes`` are the choices of dtypes that give the same plan."""

    id: str
    arch: str
    number: int
    sized: SizedPlan
    dtypes: tuple[str, ...]
    results: tuple[Result, ...]
    alone: bool = True
    """All choices of dtypes give the same plan in this case."""

    @property
    def plan(self) -> TilePlan:
        return self.sized.plan

    @property
    def where(self) -> str:
        """When the case is taken, unless one before it is; empty where it then always is."""
        guard = self.plan.case.guard
        return "" if guard is True else to_text(guard)

    @property
    def name(self) -> str:
        return f"{self.arch}, case {self.number}" + ("" if self.alone else f", {'; '.join(self.dtypes)}")

    @property
    def shape_text(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.sized.shape.items())


def views(spec: Spec, settled: Iterable[tuple[TilePlan, list[Result]]]) -> list[View]:
    """The views of a spec in the order of its targets and cases. Plans that differ in dtypes of one width are one view."""
    groups: dict[tuple[str, Any], dict[Any, list[tuple[TilePlan, list[Result]]]]] = {}
    for plan, results in settled:
        group = groups.setdefault((plan.target.name, plan.case.condition), {})
        group.setdefault(_widths(plan), []).append((plan, results))
    numbers: dict[str, int] = {}
    found = []
    for (arch, _), variants in groups.items():
        numbers[arch] = numbers.get(arch, 0) + 1
        for index, members in enumerate(variants.values()):
            plan = members[0][0]
            shape = drawn_shape(spec, plan.case, plan.target.part.sm_count)
            suffix = f"-{index + 1}" if len(variants) > 1 else ""
            found.append(
                View(
                    f"{arch}-{numbers[arch]}{suffix}",
                    arch,
                    numbers[arch],
                    SizedPlan(plan, shape),
                    tuple(dict.fromkeys(_choice(spec, member) for member, _ in members)),
                    tuple(result for _, results in members for result in results),
                    len(variants) == 1,
                )
            )
    return found


def _widths(plan: TilePlan) -> Any:
    """What a picture of the plan depends on, but for the names of dtypes."""
    buffers = tuple(
        (buffer.name, buffer.shape, buffer.itemsize, buffer.stages)
        for kernel in plan.kernels
        for buffer in kernel.buffers
    )
    tiles = tuple(sorted((name, str(value)) for name, value in plan.tiles.items()))
    return buffers, tiles


def _choice(spec: Spec, plan: TilePlan) -> str:
    """The dtypes of the tensors that the spec gives several of; else that of the first tensor."""
    free = [tensor.name for tensor in spec.tensors if tensor.dtypes and len(tensor.dtypes) > 1]
    return ", ".join(plan.dtypes[name] for name in free or [next(iter(plan.dtypes))])
