"""The tile plan: what one kernel keeps where, and which tile operations run over it.

A plan is built by a family for one *instance*: a target, one dtype for each tensor, and one case of the spec's tile
rules (so every tile value is known). Sizes are Python ints where they are known and sympy expressions over the dims of
the spec where they are not, so that a rule writes its arithmetic once and holds for a number and for a whole range.

The plan is read twice: the rules turn it into obligations (``tilegen.check``), and the template prints it
(``tilegen.emit``). After rendering, ``tilegen.verify`` reads TileLang's own IR of the rendered source and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tilegen.targets.facts import ByFacts

if TYPE_CHECKING:
    from tilegen.expr import Size
    from tilegen.lowering.partition import Policy
    from tilegen.spec.model import Spec
    from tilegen.targets import Target

ITEMSIZE = {
    "float64": 8,
    "float32": 4,
    "tfloat32": 4,
    "int32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int8": 1,
    "uint8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}
"""Bytes of one element of each dtype that a spec may name."""


class Scope(StrEnum):
    """Memory level of a buffer, in TileLang's own words."""

    GLOBAL = "global"
    SHARED = "shared"
    FRAGMENT = "fragment"
    BARRIER = "barrier"


class LoopKind(StrEnum):
    SERIAL = "serial"
    UNROLLED = "unrolled"
    PIPELINED = "pipelined"


@dataclass(frozen=True)
class Buffer:
    """One named block of memory.

    ``shape`` is what the source allocates, in elements; ``stages`` is how many copies TileLang's pipeline makes of it.
    ``life`` is the first and last statement of the kernel that touches a shared buffer: two whose lives do not meet may
    share memory. ``count`` is how many fragments of this shape the source allocates as a list. ``annotated``: the
    source gives its layout, so that none is inferred. ``owners`` are the threads that hold a fragment, where not all of
    the block do. ``decided_by`` names the spec keys that fix its size: a finding points there. ``by_compiler``: TileLang
    adds it, the source does not show it. ``warp_group`` holds a fragment alone, where warp groups do different things.
    """

    name: str
    scope: Scope
    shape: tuple[Size, ...]
    dtype: str
    stages: Size = 1
    decided_by: tuple[str, ...] = ()
    holds: str = ""
    life: tuple[int, int] = (0, 0)
    alignment: int = 16
    owners: Size | None = None
    count: Size = 1
    annotated: bool = False
    by_compiler: bool = False
    warp_group: int | None = None

    @property
    def at(self) -> str:
        """The spec key that a finding about its rows points to: the last of those that fix its size."""
        return self.decided_by[-1] if self.decided_by else f"tensors.{self.name}"

    @property
    def elements(self) -> Size:
        total: Size = 1
        for extent in self.shape:
            total = total * extent
        return total

    @property
    def itemsize(self) -> int:
        return ITEMSIZE[self.dtype]

    @property
    def nbytes(self) -> Size:
        """Bytes of all stages."""
        return self.elements * self.itemsize * self.stages


@dataclass(frozen=True)
class Copy:
    """``T.copy`` (or ``T.tma_copy``) of one tile; ``extents`` are the tile's, in elements.

    ``row_pitch`` is the element stride between the rows of the global side, ``None`` where neither side is global.
    ``may_overrun`` says that the last tile can hang over the end of the tensor. ``only_where``: the copy is not there for
    other dims.
    """

    src: str
    dst: str
    extents: tuple[Size, ...]
    row_pitch: Size | None = None
    may_overrun: bool = False
    explicit_tma: bool = False
    only_where: Any = True
    decided_by: tuple[str, ...] = ()

    @property
    def rows(self) -> Size:
        """Rows of the tile; a vector is one row."""
        return self.extents[-2] if len(self.extents) > 1 else 1

    @property
    def columns(self) -> Size:
        return self.extents[-1]

    @property
    def rows_at(self) -> str:
        """The spec key behind the rows of the tile."""
        return self.decided_by[0] if self.decided_by else "tile"

    @property
    def columns_at(self) -> str:
        """The spec key behind its columns."""
        return self.decided_by[-1] if self.decided_by else "tile"


@dataclass(frozen=True)
class Gemm:
    """``acc (m, n) += op(a) (m, k) @ op(b) (k, n)`` on one thread block.

    ``threads`` are those that run it, where not the whole block does. ``rows`` are all the rows that there are along m, where
    one tile may hold them all: a wider tile would only be padded. ``decided_by`` names the spec keys behind m, n, k
    and the warps, in that order; ``dtype_at`` and ``operand_at`` those of the operand dtype and of the layout of B.
    """

    a: str
    b: str
    acc: str
    m: Size
    n: Size
    k: Size
    dtype: str
    accum: str
    transpose_a: bool = False
    transpose_b: bool = False
    policy: Policy = "square"
    threads: Size | None = None
    rows: Size | None = None
    a_in_registers: bool = False
    decided_by: tuple[str, ...] = ()
    dtype_at: str = "tensors"
    operand_at: str | None = None

    @property
    def m_at(self) -> str:
        """The spec key behind m; likewise for n, k and the warps."""
        return self._key(0)

    @property
    def n_at(self) -> str:
        return self._key(1)

    @property
    def k_at(self) -> str:
        return self._key(2)

    @property
    def warps_at(self) -> str:
        return self._key(3)

    def _key(self, index: int) -> str:
        return self.decided_by[index] if index < len(self.decided_by) else "tile"


@dataclass(frozen=True)
class Reduce:
    """``T.reduce_<kind>(src, dst, dim=axis)``; ``length`` is the extent that disappears."""

    kind: str
    src: str
    dst: str
    axis: int
    length: Size
    decided_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Elementwise:
    """A ``T.Parallel`` nest over ``extents`` that writes ``writes`` from ``reads``."""

    writes: str
    reads: tuple[str, ...]
    extents: tuple[Size, ...]
    what: str = ""


@dataclass(frozen=True)
class Fill:
    """``T.fill``: every element of a buffer gets one value."""

    buffer: str
    value: float = 0.0


@dataclass(frozen=True)
class Loop:
    """A loop over tiles. ``runtime_trips``: the number of trips follows a dynamic dim, so it may be as low as one."""

    kind: LoopKind
    variable: str
    trips: Size
    body: tuple[Op, ...]
    stages: Size = 0
    decided_by: tuple[str, ...] = ()
    runtime_trips: bool = False


Op = Copy | Gemm | Reduce | Elementwise | Fill | Loop


@dataclass(frozen=True)
class Launch:
    """Grid extents (x, y, z order) and threads as the source writes them.

    ``producer_threads`` are those that TileLang's warp specialisation, or the schedule itself, adds. ``names`` are what
    the source calls the extents, where the host computes one and passes it. ``swizzle``: order and panel by which blocks are
    renumbered for L2.
    """

    grid: tuple[Size, ...]
    threads: Size
    producer_threads: Size = 0
    decided_by: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    swizzle: tuple[str, int] | None = None

    def at(self, axis: int = 0) -> str:
        """The spec key that sizes the grid along an axis; that of the first where the axis has none of its own."""
        return (self.decided_by[axis : axis + 1] or self.decided_by[:1] or ("tile",))[0]

    @property
    def block_threads(self) -> Size:
        return self.threads + self.producer_threads


@dataclass(frozen=True)
class RowPass:
    """How a block walks over rows: ``lanes`` neighbouring threads share one of ``length`` elements; ``chunk`` of them at a
    time, where the row is not held as a whole.
    """

    length: Size
    itemsize: int
    lanes: Size
    block_rows: Size
    decided_by: tuple[str, ...]
    chunk: Size | None = None

    @property
    def rows_at(self) -> str:
        """The spec key behind the rows of a block."""
        return self.decided_by[0]

    @property
    def length_at(self) -> str:
        """The spec key behind the length of a row."""
        return self.decided_by[-1]


@dataclass(frozen=True)
class Requirement:
    """What a hand-written schedule rests on. ``at`` is the spec key that decides it, ``otherwise`` what to say."""

    claim: Any
    at: str
    otherwise: str


@dataclass(frozen=True)
class Role:
    """Threads that run a part of the body alone: ``ops`` operations of it, after those of the roles before."""

    name: str
    threads: Size
    ops: int


@dataclass(frozen=True)
class Handshake:
    """A named barrier between two roles of a loop, beside those that hand stages over.

    Role ``arrives`` (by its place in ``KernelPlan.roles``) arrives once it has written buffer ``after``; role ``waits``
    waits before it writes ``before``: for the arrival of the same step, or of the step ``ahead`` steps later.
    """

    name: str
    arrives: int
    after: str
    waits: int
    before: str
    ahead: int = 0


@dataclass(frozen=True)
class KernelPlan:
    """One ``T.Kernel``: its launch, its buffers and its tile program.

    ``barriers`` counts its mbarriers, TileLang's own included; ``named_barriers`` are the ids that the source itself uses;
    ``requires`` is what a source with a protocol of its own is written for. ``predicted`` are facts that lowering must show
    (``wgmma``, ``tma_load`` ...), for ``tilegen.verify``. ``roles`` are there where the source gives warp groups work of
    their own; together they run the whole body. ``handshakes`` are what they tell each other.
    """

    name: str
    launch: Launch
    buffers: tuple[Buffer, ...]
    body: tuple[Op, ...]
    barriers: Size = 0
    named_barriers: tuple[int, ...] = ()
    requires: tuple[Requirement, ...] = ()
    row_passes: tuple[RowPass, ...] = ()
    predicted: Mapping[str, Any] = field(default_factory=dict)
    roles: tuple[Role, ...] = ()
    handshakes: tuple[Handshake, ...] = ()

    def buffer(self, name: str) -> Buffer:
        if name not in self._by_name:
            raise KeyError(f"kernel {self.name} has no buffer {name}")
        return self._by_name[name]

    def programs(self) -> Iterator[tuple[Role, tuple[Op, ...]]]:
        """Each role with its part of the body; one role of all threads where the source makes none."""
        start = 0
        for role in self.roles or (Role("all threads", self.launch.threads, len(self.body)),):
            yield role, self.body[start : start + role.ops]
            start += role.ops

    def scope(self, scope: Scope) -> tuple[Buffer, ...]:
        return self._by_scope.get(scope, ())

    def ops(self) -> tuple[tuple[Op, tuple[Loop, ...]], ...]:
        """Every operation with the loops around it, outermost first."""
        return self._walked

    def find(self, kind: type) -> tuple[tuple[Any, tuple[Loop, ...]], ...]:
        """Every operation of one kind with the loops around it. Rules ask for the same few kinds over and over."""
        return self._by_kind.get(kind, ())

    def loops(self) -> Iterator[Loop]:
        """Every loop, an outer one before those inside it."""
        return (op for op, _ in self.find(Loop))

    @cached_property
    def by_chip(self) -> ByFacts[Any]:
        """What several rules have reckoned for this kernel, on chips that are alike in what was read."""
        return ByFacts()

    @cached_property
    def loads(self) -> tuple[tuple[Copy, tuple[Loop, ...]], ...]:
        """Every copy from global into shared memory, with the loops around it."""
        return self._between(Scope.GLOBAL, Scope.SHARED)

    @cached_property
    def stores(self) -> tuple[tuple[Copy, tuple[Loop, ...]], ...]:
        """Every copy from shared into global memory, with the loops around it."""
        return self._between(Scope.SHARED, Scope.GLOBAL)

    def _between(self, source: Scope, destination: Scope) -> tuple[tuple[Copy, tuple[Loop, ...]], ...]:
        return tuple(
            (copy, loops)
            for copy, loops in self.find(Copy)
            if self.buffer(copy.src).scope is source and self.buffer(copy.dst).scope is destination
        )

    @cached_property
    def _by_name(self) -> dict[str, Buffer]:
        return {buffer.name: buffer for buffer in reversed(self.buffers)}

    @cached_property
    def _walked(self) -> tuple[tuple[Op, tuple[Loop, ...]], ...]:
        return tuple(_walk(self.body, ()))

    @cached_property
    def _by_kind(self) -> Mapping[type, tuple[tuple[Any, tuple[Loop, ...]], ...]]:
        return _grouped(self._walked, lambda entry: type(entry[0]))

    @cached_property
    def _by_scope(self) -> Mapping[Scope, tuple[Buffer, ...]]:
        return _grouped(self.buffers, lambda buffer: buffer.scope)


def _grouped(values: Iterable[Any], kind_of: Callable[[Any], Any]) -> Mapping[Any, tuple[Any, ...]]:
    """The values by kind, in their order."""
    found: dict[Any, list[Any]] = {}
    for value in values:
        found.setdefault(kind_of(value), []).append(value)
    return {kind: tuple(group) for kind, group in found.items()}


def _walk(body: tuple[Op, ...], loops: tuple[Loop, ...]) -> Iterator[tuple[Op, tuple[Loop, ...]]]:
    for op in body:
        yield op, loops
        if isinstance(op, Loop):
            yield from _walk(op.body, (*loops, op))


@dataclass(frozen=True)
class Case:
    """One way through the tile rules of a spec: which rule each parameter takes, and where in the domain that holds.

    ``tiles`` maps each parameter to its value; ``chosen`` to the index of its rule (-1: fixed or derived, not by a
    rule). ``condition`` is the exact claim over the dims: the chosen rules match and no earlier one does. ``guard``
    says only that the chosen rules match; where the cases are tried in order, first match, that is enough. ``winner`` is
    the place in the lock of a tiling that was measured, and comes before every rule.
    """

    condition: Any
    tiles: Mapping[str, Any]
    chosen: Mapping[str, int]
    guard: Any = True
    winner: int | None = None

    @property
    def label(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.tiles.items())


@dataclass(frozen=True)
class TilePlan:
    """Everything tilegen knows of one instance before TileLang sees it."""

    spec: Spec
    target: Target
    schedule: str
    dtypes: Mapping[str, str]
    case: Case
    kernels: tuple[KernelPlan, ...]
    flops: Size = 0
    bytes_moved: Size = 0

    @property
    def io_itemsize(self) -> int:
        """Bytes of an element of the first tensor, which row fragments are loaded from."""
        return ITEMSIZE[next(iter(self.dtypes.values()))]

    @property
    def tiles(self) -> Mapping[str, Any]:
        return self.case.tiles

    def on(self, target: Target) -> TilePlan:
        """The same on another chip."""
        return TilePlan(
            self.spec, target, self.schedule, self.dtypes, self.case, self.kernels, self.flops, self.bytes_moved
        )

    @property
    def dynamic_dims(self) -> frozenset[str]:
        """The dims that only a call knows."""
        return frozenset(dim.name for dim in self.spec.dims if dim.dynamic)
