"""A kernel spec as a value: frozen, typed, every field with its place in the file.

Sizes (`int | sympy.Expr`) and conditions (`bool | sympy Boolean`) are built by `tilegen.spec.loading` from text and are
not validated again here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from tilegen.expr import Condition, Range, Size, evaluate, narrowed
from tilegen.spec.document import Document, parse_path, spell_path
from tilegen.spec.section import Compute, FamilySection
from tilegen.spec.source import Span


@dataclass(frozen=True, kw_only=True)
class Dim:
    """One dim and its domain: the union of `values`, of the points where `also` holds, and of a range, all within
    `min`, `max` and `multiple_of`. A `dynamic` dim is a run-time symbol; its `values` are tested ahead.
    """

    name: str
    values: tuple[int, ...] = ()
    also: Condition | None = None
    also_text: str = ""
    min: int | None = None
    max: int | None = None
    multiple_of: int | None = None
    dynamic: bool = False
    doc: str = ""

    @property
    def is_listed(self) -> bool:
        """True if the domain is `values` and nothing else."""
        return not self.dynamic and self.also is None and (self.min, self.max, self.multiple_of) == (None, None, None)

    @property
    def range(self) -> Range:
        """An interval and a divisor that hold for the whole domain; a dim is at least 1."""
        ruled = Range(self.min or 1, self.max, self.multiple_of or 1)
        if self.also is not None:
            ruled = narrowed(self.also, self.name, ruled)
        if self.dynamic or not self.values:
            return ruled
        listed = Range(min(self.values), max(self.values), math.gcd(*self.values))
        return listed if self.is_listed else listed.union(ruled)

    def contains(self, size: int) -> bool:
        """True if `size` is in the domain."""
        if size in self.values and not self.dynamic:
            return True
        low, high, step = self.min or 1, self.max, self.multiple_of or 1
        if size < low or (high is not None and size > high) or size % step:
            return False
        if self.also is not None:
            return bool(evaluate(self.also, {self.name: size}))
        return not self.is_listed


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """One tensor. `dtypes` are the choices, or None where the dtype is that of tensor `same_as`. `role` is its name in
    the family, or None for a further tensor; `output` tensors are written.
    """

    name: str
    shape: tuple[Size, ...]
    dtypes: tuple[str, ...] | None = None
    same_as: str | None = None
    role: str | None = None
    output: bool = False
    doc: str = ""


@dataclass(frozen=True, kw_only=True)
class Scalar:
    """A number given at run time."""

    name: str
    dtype: str
    doc: str = ""


@dataclass(frozen=True, kw_only=True)
class Swizzle:
    """Order of the output tiles: panels of `panel` tiles, walked by `order`."""

    panel: int
    order: Literal["row", "column"]

    @property
    def word(self) -> str:
        """``row_10``: what stands for it in a compile key."""
        return f"{self.order}_{self.panel}"


@dataclass(frozen=True, kw_only=True)
class TileRule:
    """One rule of a tile value: `use` where `when` holds (always, if None) and no earlier rule does.

    `use` is a size, a word of the parameter ("square", "auto"), a bool or a Swizzle; the texts are as written.
    """

    use: Any
    when: Condition | None = None
    use_text: str
    when_text: str = ""
    span: Span


@dataclass(frozen=True, kw_only=True)
class TileValue:
    """The value of a tile parameter: the first rule whose condition holds."""

    rules: tuple[TileRule, ...]


@dataclass(frozen=True, kw_only=True)
class Target:
    """A chip to build for, with what differs on it."""

    arch: str
    tile: dict[str, TileValue] = field(default_factory=dict)
    schedule: TileValue | None = None
    span: Span


@dataclass(frozen=True, kw_only=True)
class Prefer:
    """A callable "module.sub:function" that takes over where `when` holds (always, if None)."""

    when: Condition | None = None
    when_text: str = ""
    call: str
    span: Span


@dataclass(frozen=True, kw_only=True)
class Allow:
    """A rule whose findings are accepted, with the reason."""

    rule: str
    reason: str
    span: Span


@dataclass(frozen=True, kw_only=True)
class GoldenCase:
    """One golden case: a value for each dim, and a dtype where the spec has several."""

    dims: dict[str, int]
    dtype: str | None = None
    span: Span


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Tolerances in place of the derived ones, with the reason."""

    atol: float | None = None
    rtol: float | None = None
    reason: str
    span: Span


@dataclass(frozen=True, kw_only=True)
class Winner:
    """A tiling that was measured to be faster on ``target`` where ``when`` holds; ``tiles`` has the schedule too, if given.

    ``ratio`` is how many times as fast it was as the rules of the spec, ``us`` microseconds of a call.
    """

    target: str
    when: Condition
    when_text: str
    tiles: dict[str, Any]
    card: str = ""
    dtype: str = ""
    date: str = ""
    us: float | None = None
    ratio: float | None = None
    shape: dict[str, int] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    span: Span


@dataclass(frozen=True, kw_only=True)
class Lock:
    """The winners of a spec, first match; the file at `path` stands beside the spec."""

    path: str
    sha256: str
    winners: tuple[Winner, ...]

    document: Document = field(repr=False, compare=False)

    @property
    def text(self) -> str:
        """The file as it was read."""
        return self.document.text


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One kernel spec. `span("tile.BLOCK_N")` says where something stands in the file.

    `shapes` are the static dims of what is built ahead, in increasing order; empty if every combination of `values` is.
    """

    path: str
    sha256: str
    kernel: str
    family: str
    variant: str | None = None
    schedule: TileValue | None = None
    doc: str = ""
    dims: tuple[Dim, ...]
    shapes: tuple[dict[str, int], ...] = ()
    tensors: tuple[Tensor, ...]
    scalars: tuple[Scalar, ...] = ()
    compute: Compute
    tile: dict[str, TileValue]
    targets: tuple[Target, ...]
    dispatch: tuple[Prefer, ...] = ()
    allow: tuple[Allow, ...] = ()
    tests: tuple[GoldenCase, ...] = ()
    tolerance: Tolerance | None = None
    lock: Lock | None = None

    document: Document = field(repr=False, compare=False)
    section: FamilySection = field(repr=False, compare=False)
    """The family's section, of the variant if there is one."""

    def span(self, path: str) -> Span:
        """Where the value at `path` ("dims.M.max", "tile.BLOCK_C[1].when") stands; the nearest parent if absent.

        A path that starts with "winner" stands in the lock.
        """
        if self.lock is not None and path.startswith("winner["):
            return self.lock.document.span(parse_path(path))
        return self.document.span(parse_path(path))

    def key_span(self, path: str) -> Span:
        """Where the key at `path` stands."""
        return self.document.key_span(parse_path(path))

    def has(self, path: str) -> bool:
        """True if the file itself gives the value at `path`."""
        if self.lock is not None and path.startswith("winner["):
            return parse_path(path) in self.lock.document.places
        return parse_path(path) in self.document.places

    @property
    def text(self) -> str:
        """The file as it was read."""
        return self.document.text

    @property
    def document_values(self) -> dict[str, Any]:
        """The file as plain TOML values."""
        return self.document.values

    @property
    def document_paths(self) -> Iterator[str]:
        """The path of every key and value of the file, in its order, parents first where they begin together."""
        places = sorted(self.document.places, key=lambda path: (self.document.key_span(path), len(path)))
        return (spell_path(path) for path in places)

    def dim(self, name: str) -> Dim:
        """The dim of that name; KeyError if there is none."""
        dim: Dim = _named(self.dims, name)
        return dim

    def tensor(self, name: str) -> Tensor:
        """The tensor of that name; KeyError if there is none."""
        tensor: Tensor = _named(self.tensors, name)
        return tensor

    def dtypes(self, name: str) -> tuple[str, ...]:
        """The dtypes that tensor `name` may have, `same_as` followed."""
        tensor = self.tensor(name)
        while tensor.same_as is not None:
            tensor = self.tensor(tensor.same_as)
        return tensor.dtypes or ()

    def tile_for(self, arch: str) -> dict[str, TileValue]:
        """The tile values on `arch`: those of `[tile]`, with the target's own in their place; `schedule` first, if given."""
        schedule = self.schedule_for(arch)
        chosen = {} if schedule is None else {"schedule": schedule}
        return {**chosen, **self.tile, **next((t.tile for t in self.targets if t.arch == arch), {})}

    @property
    def digest(self) -> str:
        """sha256 of all that the spec says, its lock included: that of the file itself where there is no lock."""
        if self.lock is None:
            return self.sha256
        return hashlib.sha256(f"{self.sha256} {self.lock.sha256}".encode()).hexdigest()

    def schedule_for(self, arch: str) -> TileValue | None:
        """The schedule on `arch`, or None where the family chooses."""
        return next((t.schedule for t in self.targets if t.arch == arch and t.schedule), self.schedule)


def _named(values: Any, name: str) -> Any:
    for value in values:
        if value.name == name:
            return value
    raise KeyError(name)
