"""What every schedule of MLA decode shares: its sizes, its tensors, and how keys are split over blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tilegen.expr import Size, add, ceil_div, floor_div, maximum, minimum, multiply, symbol
from tilegen.plan.model import ITEMSIZE, Buffer, Scope

if TYPE_CHECKING:
    from tilegen.spec.model import Spec
    from tilegen.targets import Target

SWIZZLED = 1024
"""Base alignment of a tile that TMA writes with a 128-byte swizzle."""

MAX_SPLIT = 256
"""Splits of one sequence that the combine merges at most: more than a chip has SMs to keep busy."""

NEVER = -1e30
"""Where a running maximum starts: below every score, and finite, for -inf minus -inf is NaN (rule TG-E6)."""

HEADS, KEYS, LATENT, ROTARY = "tile.BLOCK_H", "tile.BLOCK_N", "dims.D_nope", "dims.D_rope"

TAIL = "tail: zeros for the values past the length of the sequence"
MASK = "mask: -inf from the length of the sequence on"
RUNNING_MAX = "running maximum: finite even where every key is masked"
DIVISOR = "divisor: 1 / row sum, and 0 where the sum is 0"
"""What some elementwise steps are for. Rules TG-E5 and TG-E6 look for them by these words."""


@dataclass(frozen=True)
class Decode:
    """One instance of MLA decode. Widths are numbers where the spec lists one, else symbols."""

    spec: Spec
    target: Target
    dtypes: Mapping[str, str]
    tiles: Mapping[str, Any]

    @cached_property
    def latent(self) -> Size:
        return width(self.spec, "D_nope")

    @cached_property
    def rotary(self) -> Size:
        return width(self.spec, "D_rope")

    @property
    def row(self) -> Size:
        """Columns of the cache."""
        return add(self.latent, self.rotary)

    @property
    def dtype(self) -> str:
        return self.dtypes["kv"]

    @property
    def accum(self) -> str:
        accum: str = self.spec.compute.accum  # type: ignore[attr-defined]
        return accum

    @property
    def block_h(self) -> Size:
        return self.tiles["BLOCK_H"]

    @property
    def block_n(self) -> Size:
        return self.tiles["BLOCK_N"]

    @property
    def head_blocks(self) -> Size:
        return ceil_div(symbol("H"), self.block_h)

    @property
    def key_blocks(self) -> Size:
        return ceil_div(symbol("S"), self.block_n)

    @property
    def itemsize(self) -> int:
        return ITEMSIZE[self.dtype]

    def splits(self) -> Size:
        """How many blocks share the keys of one sequence: the arithmetic of ``split_count`` in the generated kernel.

        "auto" fills the SMs once: as many as whole rounds of the grid leave free, and no more than there are key blocks.
        Every split gets the same number of key blocks, so splits that would be empty are dropped.
        """
        wanted = self.tiles["num_split"]
        if wanted == "auto":
            wanted = floor_div(symbol("sm_count"), multiply(symbol("B"), self.head_blocks))
        wanted = maximum(1, minimum(wanted, self.key_blocks, MAX_SPLIT))
        # The outer bound follows from the inner one; said again, it is seen without a search.
        return minimum(MAX_SPLIT, ceil_div(self.key_blocks, ceil_div(self.key_blocks, wanted)))

    def inputs(self) -> tuple[Buffer, ...]:
        keys = {"q_nope": LATENT, "q_pe": ROTARY, "kv": ROTARY, "seq_lens": "dims.B"}
        return tuple(self._tensor(name, key) for name, key in keys.items())

    def outputs(self) -> tuple[Buffer, ...]:
        return tuple(self._tensor(name, LATENT) for name in ("out", "lse"))

    def _tensor(self, name: str, key: str) -> Buffer:
        return Buffer(name, Scope.GLOBAL, self.spec.tensor(name).shape, self.dtypes[name], decided_by=(key,))

    def partials(self, slots: Size) -> tuple[Buffer, ...]:
        """The workspace of a call: a normalised output and its base-2 LSE for each slot."""
        h = symbol("H")
        shape = (slots, h, self.latent)
        return (
            Buffer("o_partial", Scope.GLOBAL, shape, "float32", decided_by=(LATENT,), holds="outputs of splits"),
            Buffer("lse_partial", Scope.GLOBAL, (slots, h), "float32", decided_by=(LATENT,), holds="their LSE"),
        )


def width(spec: Spec, name: str) -> Size:
    """A dim as a number where the spec lists one value alone."""
    dim = spec.dim(name)
    return dim.values[0] if dim.is_listed and len(dim.values) == 1 else symbol(name)


def workspace(name: str, threads: Size, life: tuple[int, int]) -> Buffer:
    """What TileLang adds for a reduction across warps: one value a thread."""
    return Buffer(
        name, Scope.SHARED, (threads,), "float32", 1, ("tile.threads",), "of a reduction", life, by_compiler=True
    )
