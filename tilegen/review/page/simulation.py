"""The simulation behind the timeline: what waits for what, and when each phase runs.

Each role does its phases in order. A product waits for its stage to be full, and a load for the stage to have been read;
roles wait for each other's handshakes; one product has the tensor cores at a time, and of those that could have them the
one that has waited longest.
"""

from __future__ import annotations

from tilegen.plan.model import KernelPlan
from tilegen.review.page.program import Phase
from tilegen.review.page.scripts import Item

LOAD, COMPUTE, STORE = 0.5, 1.0, 0.7
"""Lengths of phases that have none of their own; a product's is in proportion to its multiply-adds."""


def link(kernel: KernelPlan, scripts: list[list[Item]], stages: int) -> list[tuple[str, Item, Item]]:
    """Fills in what each item waits for. The loads of the first stages are added where the steps only load further ahead;
    loads that no step of the picture reads are dropped.
    """
    items = [item for script in scripts for item in script]
    loaders = sorted({item.role for item in items if item.phase.kind == "load" and item.step is not None})
    if loaders and stages:
        _prefetch(scripts, loaders)
        items = [item for script in scripts for item in script]
        loads = {(item.role, item.step): item for item in items if item.phase.kind == "load" and item.step is not None}
        readers = _readers(kernel, items, loaders)
        for script in scripts:
            script[:] = [
                item
                for item in script
                if item.phase.kind != "load" or item.step is None or (item.role, item.step) in readers
            ]
        for (loader, step), users in readers.items():
            load = loads.get((loader, step))
            refill = loads.get((loader, step + stages))
            for user in users:
                if load is not None:
                    user.needs.append(load)
                if refill is not None:
                    refill.needs.append(user)
    return _handshakes(kernel, items)


def _prefetch(scripts: list[list[Item]], loaders: list[int]) -> None:
    """The loads of the first stages, where the steps of a role only load further ahead."""
    for loader in loaders:
        script = scripts[loader]
        loads = [item for item in script if item.phase.kind == "load" and item.step is not None]
        first = min(item.step or 0 for item in loads)
        script[:0] = [Item(loader, loads[0].phase, step, asynchronous=loads[0].asynchronous) for step in range(first)]


def _readers(kernel: KernelPlan, items: list[Item], loaders: list[int]) -> dict[tuple[int, int], list[Item]]:
    """The products that read what each role has loaded. One that goes over a part of the columns reads its own role's."""
    filled = {
        name for item in items if item.phase.kind == "load" and item.step is not None for name in item.phase.tiles
    }
    found: dict[tuple[int, int], list[Item]] = {}
    for item in items:
        if item.phase.kind != "product" or not filled.intersection(item.phase.tiles):
            continue
        step = item.step if item.step is not None else 0
        tile = kernel.buffer(next(name for name in item.phase.tiles[::-1] if name in filled))
        whole = len(loaders) == 1 or item.role not in loaders or item.phase.columns >= _columns(kernel, tile.name)
        for loader in loaders if whole else [item.role]:
            found.setdefault((loader, step), []).append(item)
    return found


def _columns(kernel: KernelPlan, name: str) -> int:
    last = kernel.buffer(name).shape[-1]
    return last if isinstance(last, int) else 0


def _handshakes(kernel: KernelPlan, items: list[Item]) -> list[tuple[str, Item, Item]]:
    found = []
    for entry in kernel.handshakes:
        for taker in items:
            if taker.role != entry.waits or entry.before != taker.phase.writes[0]:
                continue
            giver = next(
                (
                    item
                    for item in items
                    if item.role == entry.arrives
                    and entry.after in item.phase.writes
                    and item.step is not None
                    and taker.step is not None
                    and item.step == taker.step + entry.ahead
                ),
                None,
            )
            if giver is not None:
                taker.needs.append(giver)
                found.append((entry.name, giver, taker))
    return found


def run(scripts: list[list[Item]], scale: float) -> None:
    """Gives every item its time: of those that may begin, the earliest does."""
    queues = [list(script) for script in scripts]
    free = [0.0] * len(scripts)
    tensor_cores = 0.0
    while any(queues):
        ready = []
        for role, queue in enumerate(queues):
            if queue and all(need.done for need in queue[0].needs):
                item = queue[0]
                begin = max([free[role], *(need.end for need in item.needs)])
                start = max(begin, tensor_cores) if item.phase.kind == "product" else begin
                ready.append((start, begin, role))
        if not ready:
            # A wait for a step that is not drawn: the rest of the role is past the end of the picture.
            for queue in queues:
                for item in queue:
                    item.needs = [need for need in item.needs if need.done]
            continue
        start, _, role = min(ready)
        item = queues[role].pop(0)
        item.start, item.end = start, start + _duration(item.phase, scale)
        if item.phase.kind == "product":
            tensor_cores = item.end
        free[role] = free[role] if item.asynchronous else item.end


def _duration(phase: Phase, scale: float) -> float:
    lengths = {"load": LOAD, "compute": COMPUTE, "store": STORE}
    return phase.work * scale if phase.kind == "product" else lengths[phase.kind]
