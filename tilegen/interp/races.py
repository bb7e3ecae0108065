"""Ordering of accesses to shared tiles by roles and by asynchronous operations.

Every role, every warp-group product in flight and every bulk copy in flight is an agent with a logical clock. A barrier
hands the clocks of those who arrive to those who wait. Two accesses of one element, one of them a write, race unless the
later agent's clock shows that it has seen the earlier access. The verdict therefore does not depend on the order in which
the interpreter happened to run the roles.

Within a role the threads are in step here and not on the device. Where the kernel places all barriers itself
(``tl.disable_thread_storage_sync``), a bulk copy or an arrival by one elected thread therefore only covers what its role did
before the role's own last barrier.

Between statements that all threads of a block reach, TileLang inserts the barriers that shared tiles need; accesses in
different statements of one group of role branches are taken as ordered for that reason, unless the kernel switches that
insertion off. Asynchronous accesses are never covered by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.findings import Site
from tilegen.interp.frame import Frame
from tilegen.interp.number_formats import Array

if TYPE_CHECKING:
    from tilegen.interp.memory import Storage

Clock = dict[Any, int]
WARP = 32
#: Agents other than roles, by the first part of their name, and what waits for each.
_ASYNCHRONOUS = {
    "copy": "a bulk copy",
    "store": "a bulk store",
    "group": "an asynchronous copy (cp.async)",
    "product": "a warp-group product",
    "tensor": "a product into tensor memory",
}
_WAITS = {
    "copy": "a wait for its barrier",
    "store": "tma_store_wait",
    "group": "ptx_wait_group",
    "product": "wait_wgmma",
    "tensor": "a wait for its barrier",
}


@dataclass
class Access:
    """One access of a shared tile, by an agent at a time of its clock."""

    agent: Any
    time: int
    writes: bool
    site: Site
    threads: str
    stage: tuple[int, ...]
    storage: Storage
    key: Any
    box: tuple[tuple[int, int], ...]


@dataclass
class AccessLog:
    """The accesses of one block that later ones may race with."""

    compiler_synchronises: bool
    accesses: dict[int, dict[Any, Access]] = field(default_factory=dict)
    agents: int = 0
    tensor_products: int = 0
    #: How far each asynchronous agent is known to be complete by somebody.
    completed: Clock = field(default_factory=dict)

    def start(self, frame: Frame) -> None:
        """Give the first frame of a block its agent."""
        frame.agent = self._new_agent()
        frame.clock = {frame.agent: 1}

    def fork(self, parent: Frame, child: Frame) -> None:
        child.agent = self._new_agent()
        child.clock = {**parent.clock, child.agent: 1}
        child.issued, child.waited = parent.issued, parent.waited
        child.stores = dict(parent.stores)

    def join(self, parent: Frame, child: Frame, one_role: bool = False) -> None:
        """Roles meet: what each did is behind the others only where the compiler sees to it, or if they are one role."""
        parent.issued, parent.waited = max(parent.issued, child.issued), max(parent.waited, child.waited)
        parent.stores |= child.stores
        if self.compiler_synchronises or one_role:
            merged = self.merged(parent.clock, child.clock)
            assert merged is not None
            parent.clock = merged

    def advance(self, frame: Frame) -> None:
        """Begin a new step of a role: later accesses are not covered by what it has released."""
        frame.clock[frame.agent] += 1

    def joined(self, clock: Clock | None, frame: Frame, elected: bool = False) -> Clock | None:
        """``clock`` with what the active threads of a role have done, or its elected thread alone."""
        return self.merged(clock, self._elected_clock(frame) if elected else frame.clock)

    def synchronise_role(self, frame: Frame) -> None:
        """All threads of a role have met: an elected thread now knows what the others did."""
        frame.clock.update(frame.drained)
        frame.synced = {agent: frame.clock.get(agent, 0) for agent in self._own(frame)}

    def _elected_clock(self, frame: Frame) -> Clock:
        if self.compiler_synchronises or frame.threads.size <= WARP:
            return frame.clock
        return {**frame.clock, **{agent: frame.synced.get(agent, 0) for agent in self._own(frame)}}

    def _own(self, frame: Frame) -> tuple[Any, ...]:
        """The agents of a role: its threads and what they started."""
        return (frame.agent, ("product", frame.agent))

    def merged(self, left: Clock | None, right: Clock | None) -> Clock | None:
        if left is None or right is None:
            return dict(left or right or {})
        result = dict(left)
        for agent, time in right.items():
            if time > result.get(agent, 0):
                result[agent] = time
        return result

    def acquire(self, frame: Frame, clock: Clock | None) -> None:
        """Take over what the arrivers at a barrier had done."""
        if clock:
            for agent, time in clock.items():
                if time > frame.clock.get(agent, 0):
                    frame.clock[agent] = time
                    if isinstance(agent, tuple):
                        self.completed[agent] = max(time, self.completed.get(agent, 0))

    def issue_product(self, frame: Frame) -> None:
        """A warp-group product starts: its reads of shared tiles last until it is waited for."""
        frame.issued += 1
        frame.acting = ("product", frame.agent, frame.issued)

    def wait_for_products(self, frame: Frame, allowed: int) -> None:
        """``wait_wgmma(allowed)``: all but the last ``allowed`` products are complete."""
        frame.waited = max(frame.waited, frame.issued - allowed)
        frame.clock[("product", frame.agent)] = frame.waited

    def issue_tensor_product(self, frame: Frame) -> None:
        """A product into tensor memory starts, after those issued before: its accesses last until a barrier hears of it."""
        self.tensor_products += 1
        frame.acting = ("tensor", self.tensor_products)

    def tensor_products_arrive(self, frame: Frame, clock: Clock | None) -> Clock | None:
        """What a barrier learns that the products issued so far arrive at: that they are complete."""
        return self.merged(clock, {**self._elected_clock(frame), ("tensor",): self.tensor_products})

    def issue_group_copy(self, frame: Frame) -> None:
        """A ``cp.async`` starts: its write lasts until its group is waited for, or a barrier that it arrives at opens."""
        frame.acting = ("group", frame.agent, frame.copies)

    def commit_group(self, frame: Frame) -> None:
        """The ``cp.async`` copies issued since the last commit are one group."""
        frame.committed.append(frame.copies)
        frame.copies += 1

    def wait_for_groups(self, frame: Frame, allowed: int) -> None:
        """``cp.async.wait_group``: all but the last ``allowed`` groups are complete."""
        complete = frame.committed[: max(0, len(frame.committed) - allowed)]
        if complete:
            frame.clock[("group", frame.agent)] = complete[-1]

    def copies_arrive(self, frame: Frame, clock: Clock | None) -> Clock | None:
        """What a barrier that ``cp.async`` copies arrive at learns: that every copy issued so far is complete."""
        frame.copies += 1
        return self.merged(clock, {("group", frame.agent): frame.copies - 1})

    def issue_copy(self, frame: Frame, barrier: Any, number: int) -> Clock:
        """A bulk copy starts: gives the clock that its completion hands to the barrier."""
        agent = ("copy", id(barrier), number)
        time = barrier.copies[number] = barrier.copies[number] + 1
        frame.acting = (*agent, time)
        return {**self._elected_clock(frame), agent: time}

    def issue_store(self, frame: Frame) -> None:
        """A bulk store starts: it reads its tile until it is waited for."""
        number = frame.stores[frame.agent] = frame.stores.get(frame.agent, 0) + 1
        frame.acting = ("store", frame.agent, number)

    def wait_for_stores(self, frame: Frame, allowed: int) -> None:
        """All but the last ``allowed`` stores have read their tiles: the role's own count first, then those before it.

        The thread that issued them knows it; where the kernel places its barriers, the others at the role's next one.
        """
        known = frame.clock if self.compiler_synchronises or frame.threads.size <= WARP else frame.drained
        for agent in sorted(frame.stores, key=lambda agent: agent != frame.agent):
            issued = frame.stores[agent]
            done = max(issued - allowed, frame.clock.get(("store", agent), 0))
            allowed = max(0, allowed - issued)
            known["store", agent] = self.completed["store", agent] = done

    def end(self, frame: Frame) -> None:
        """The block ends: the copy engine may no longer use its shared memory."""
        for accesses in self.accesses.values():
            for access in accesses.values():
                agent = access.agent
                if isinstance(agent, tuple) and agent[0] in ("copy", "store"):
                    if self.completed.get(agent, 0) < access.time:
                        self._report_left(frame, access)

    def read(self, frame: Frame, site: Site, storage: Storage, key: Any) -> None:
        self._access(frame, site, storage, key, writes=False)

    def write(self, frame: Frame, site: Site, storage: Storage, key: Any) -> None:
        self._access(frame, site, storage, key, writes=True)

    def _new_agent(self) -> int:
        self.agents += 1
        return self.agents

    def _access(self, frame: Frame, site: Site, storage: Storage, key: Any, writes: bool) -> None:
        agent: Any = frame.agent
        if frame.acting is None:
            time = frame.clock[frame.agent]
        else:
            agent, time = frame.acting[:-1], frame.acting[-1]
        box = _box(key, storage.data.shape)
        threads = f"threads {int(frame.threads[0])} to {int(frame.threads[-1])}"
        new = Access(agent, time, writes, site, threads, frame.stage, storage, key, box)
        known = self.accesses.setdefault(storage.memory_id, {})
        for old in known.values():
            same = old.agent == agent and not (isinstance(agent, tuple) and agent[0] == "copy")
            if (old.writes or writes) and not same and _overlap(old, new) and not self._ordered(frame, old):
                self._report(frame, old, new)
        known[agent, box, storage.name, writes] = new

    def _ordered(self, frame: Frame, old: Access) -> bool:
        copies = frame.acting is not None and frame.acting[0] == "copy"
        clock = self._elected_clock(frame) if copies else frame.clock
        if clock.get(old.agent, 0) >= old.time:
            return True
        if not self.compiler_synchronises or isinstance(old.agent, tuple) or frame.acting is not None:
            return False
        return _in_different_statements(old.stage, frame.stage)

    def _report(self, frame: Frame, old: Access, new: Access) -> None:
        index = [max(a[0], b[0]) for a, b in zip(old.box, new.box, strict=False)]
        kind = "in-flight" if isinstance(old.agent, tuple) else "shared-race"
        verb, other = ("written" if new.writes else "read"), ("writes" if old.writes else "reads")
        place = f"{new.storage.name}[{', '.join(str(part) for part in index)}]"
        if isinstance(old.agent, tuple):
            message = (
                f"{place} is {verb} while {_ASYNCHRONOUS[old.agent[0]]} that {other} it may still be in flight: "
                f"`{old.site.operation}`{_at(old.site)}; {_WAITS[old.agent[0]]} comes first"
            )
        else:
            elected = isinstance(new.agent, tuple) and new.agent[0] == "copy"
            also = " (one thread issues the copy, the others may not be done)" if elected else ""
            message = (
                f"{place} is {verb} by {new.threads}{also} with no barrier after {old.threads}, "
                f"which {other} it in `{old.site.operation}`{_at(old.site)}"
            )
        frame.report(kind, new.site, message, new.storage.name, index)

    def _report_left(self, frame: Frame, access: Access) -> None:
        verb = "write" if access.writes else "read"
        message = (
            f"the block ends while {_ASYNCHRONOUS[access.agent[0]]} may still {verb} {access.storage.name}: "
            f"nothing waits for it ({_WAITS[access.agent[0]]})"
        )
        frame.report("in-flight", access.site, message, access.storage.name)


def _at(site: Site) -> str:
    return f" at {site.place}" if site.place is not None else ""


def _in_different_statements(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    """Whether two accesses stand in different statements of the same group, each (group run, statement) a pair."""
    for position in range(0, min(len(left), len(right)), 2):
        if left[position] != right[position]:
            return True
        if left[position + 1] != right[position + 1]:
            return True
    return False


def _box(key: Any, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """The bounds of an access on each axis of its buffer."""
    parts = [part for part in key if part is not Ellipsis]
    box = []
    for part, extent in zip(parts, shape, strict=False):
        if isinstance(part, slice):
            low, high, step = part.indices(extent)
            box.append((low, high) if step > 0 else (high + 1, low + 1))
        elif isinstance(part, np.ndarray):
            box.append((int(part.min(initial=0)), int(part.max(initial=0)) + 1))
        else:
            box.append((int(part), int(part) + 1))
    return tuple(box)


def _overlap(old: Access, new: Access) -> bool:
    if old.storage is not new.storage:
        return _share_bytes(_addresses(old), _addresses(new))
    if any(a[0] >= b[1] or b[0] >= a[1] for a, b in zip(old.box, new.box, strict=True)):
        return False
    if _is_box(old.key) and _is_box(new.key):
        return True
    touched = np.zeros(new.storage.data.shape, dtype=np.bool_)
    touched[old.key] = True
    return bool(touched[new.key].any())


def _share_bytes(left: Array, right: Array) -> bool:
    if not left.size or not right.size:
        return False
    low, high = max(left.min(), right.min()), min(left.max(), right.max())
    if low > high:
        return False
    touched = np.zeros(high - low + 1, dtype=np.bool_)
    touched[left[(left >= low) & (left <= high)] - low] = True
    return bool(touched[right[(right >= low) & (right <= high)] - low].any())


def _is_box(key: Any) -> bool:
    return not any(
        isinstance(part, np.ndarray) or (isinstance(part, slice) and part.step not in (None, 1)) for part in key
    )


def _addresses(access: Access) -> Array:
    """Byte addresses of the elements of an access."""
    data = access.storage.data
    numbers = np.arange(data.size, dtype=np.int64).reshape(data.shape)[access.key].reshape(-1)
    start = data.__array_interface__["data"][0]
    base: Array = start + numbers[:, None] * data.itemsize + np.arange(data.itemsize)
    return base.reshape(-1)
