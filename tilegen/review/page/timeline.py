"""The pipeline timeline: who loads, multiplies and computes what while the stages go round.

It is what a small simulation of the tile program's first steps gives (``simulation.py``). Lengths of products are in
proportion to their multiply-adds; other phases have a length of their own, so the picture shows order and overlap, not time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.plan.model import Loop
from tilegen.review.page.scripts import (
    Item,
    SimulatedRole,
    is_drawn_twice,
    main_loop,
    script,
    simulated_roles,
    stages_of,
    steps_drawn,
)
from tilegen.review.page.simulation import link, run

if TYPE_CHECKING:
    from tilegen.plan.model import KernelPlan
    from tilegen.review.page.sized import SizedPlan

LONGEST_PRODUCT = 3.0
PRODUCT_TONES = (2, 6, 5)


@dataclass(frozen=True)
class Task:
    """One phase of one step, from ``start`` to ``end``."""

    kind: str
    label: str
    step: int | None
    start: float
    end: float


@dataclass(frozen=True)
class Lane:
    name: str
    note: str
    tasks: tuple[Task, ...]


@dataclass(frozen=True)
class Signal:
    """An arrival at a named barrier that another role waits for."""

    name: str
    from_lane: int
    to_lane: int
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """``lanes`` are the roles, ``stages`` the stages of shared memory. ``steps`` of ``of`` steps are drawn."""

    lanes: tuple[Lane, ...]
    stages: tuple[Lane, ...]
    signals: tuple[Signal, ...]
    length: float
    steps: int
    of: int | None
    variable: str
    turns: str
    """The variable of the loop around, of which two turns are drawn; empty where there is one."""
    scale: float
    """Units of one multiply-add of a product; 0 where there is no product."""

    @property
    def tones(self) -> dict[str, int]:
        """A tone of the style sheet for each phase by its label: loads and stores have one, each product its own."""
        found: dict[str, int] = {}
        products = 0
        for lane in self.lanes:
            for task in lane.tasks:
                if task.label in found:
                    continue
                if task.kind == "product":
                    found[task.label] = PRODUCT_TONES[products % len(PRODUCT_TONES)]
                    products += 1
                else:
                    found[task.label] = {"load": 1, "store": 3}.get(task.kind, 4 if task.label == "softmax" else 0)
        return found

    @property
    def legend(self) -> dict[int, list[tuple[str, str]]]:
        """For each tone, in order, the label and kind of every phase that has it: a tone stands once in the legend."""
        kinds = {task.label: task.kind for lane in self.lanes for task in lane.tasks}
        found: dict[int, list[tuple[str, str]]] = {}
        for label, tone in self.tones.items():
            found.setdefault(tone, []).append((label, kinds[label]))
        return found


def timeline(sized: SizedPlan, kernel: KernelPlan) -> Timeline | None:
    """The timeline of a kernel; None where the plan has no tile operations."""
    roles = simulated_roles(sized, kernel)
    loop = main_loop(kernel, kernel.body)
    stages = stages_of(sized, kernel, loop)
    drawn = steps_drawn(sized, loop, stages)
    scripts = [script(sized, kernel, at, simulated, drawn, stages) for at, simulated in enumerate(roles)]
    items = [item for script in scripts for item in script]
    if not items:
        return None
    signals = link(kernel, scripts, stages)
    items = [item for script in scripts for item in script]
    work = [item.phase.work for item in items if item.phase.work]
    scale = min(1 / min(work), LONGEST_PRODUCT / max(work)) if work else 0.0
    run(scripts, scale)
    length = max(item.end for item in items)
    lanes = tuple(
        Lane(simulated.name, simulated.note, tuple(_task(item) for item in script if not item.asynchronous))
        for simulated, script in zip(roles, scripts, strict=True)
    )
    return Timeline(
        lanes,
        _stage_lanes(roles, items, stages) if loop is not None and stages else (),
        tuple(
            Signal(name, giver.role, taker.role, round(giver.end, 3), round(taker.start, 3))
            for name, giver, taker in signals
        ),
        round(length, 3),
        drawn,
        None if loop is None else sized.number(loop.trips),
        "" if loop is None else loop.variable,
        next(
            (
                entry.variable
                for entry in kernel.body
                if isinstance(entry, Loop) and is_drawn_twice(sized, kernel, entry)
            ),
            "",
        ),
        scale,
    )


def _task(item: Item) -> Task:
    return Task(item.phase.kind, item.phase.label, item.step, round(item.start, 3), round(item.end, 3))


def _stage_lanes(roles: list[SimulatedRole], items: list[Item], stages: int) -> tuple[Lane, ...]:
    """What each stage holds: a step while it is loaded, and from then on until it was read."""
    loads = [item for item in items if item.phase.kind == "load" and item.step is not None]
    loaders = sorted({item.role for item in loads})
    lanes = []
    for stage in range(stages):
        for loader in loaders:
            tasks = []
            for load in loads:
                if load.role != loader or load.step is None or load.step % stages != stage:
                    continue
                users = [item for item in items if load in item.needs and item.phase.kind == "product"]
                tasks.append(Task("loading", "", load.step, round(load.start, 3), round(load.end, 3)))
                if users:
                    last = max(item.end for item in users)
                    tasks.append(Task("full", "", load.step, round(load.end, 3), round(last, 3)))
            note = roles[loader].name if len(loaders) > 1 else ""
            lanes.append(Lane(f"stage {stage}", note, tuple(tasks)))
    return tuple(lanes)
